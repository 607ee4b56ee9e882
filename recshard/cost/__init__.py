"""The learned cost model: measure, features, net, train."""
