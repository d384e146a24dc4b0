"""Runs one submission behind a wall, apart from everything that decides."""
