"""Reads what a student hands in, and whether it keeps to the list. Runs none of it."""
