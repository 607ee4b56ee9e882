"""Measurement: plans executed on this machine's real memories, and the time that they take."""
