"""Keeps pytest out of the submissions: some have a conftest.py of their own."""

collect_ignore = ["clock", "machine", "operator", "verdict"]
