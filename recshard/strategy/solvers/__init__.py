"""MILP solvers: found by name, run in a process of their own, and believed as far as they can be."""
