"""Execution: torch modules that look up rows where a plan puts them."""
