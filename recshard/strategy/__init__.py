"""Every way to place tables: each takes a PlacementProblem and returns a Placement with a proven bound."""
