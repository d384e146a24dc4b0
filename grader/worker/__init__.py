"""Runs one submission apart from everything that decides."""
