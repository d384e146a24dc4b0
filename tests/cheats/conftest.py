"""Keeps pytest out of the submissions, some of which have a conftest.py, and out of the witness's suite."""

collect_ignore = ["clock", "machine", "operator", "verdict", "witness"]
