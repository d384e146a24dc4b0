"""Answers that are alike, for a person to look at: never a score."""
