"""Collects what a class handed in from where it lies, and returns the reports to there."""
