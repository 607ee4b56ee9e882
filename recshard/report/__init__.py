"""Reports: what a plan says, on the console and as figures."""
