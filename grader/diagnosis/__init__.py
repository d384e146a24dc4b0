"""Explains failed checks: the mistake that was made, its line, and what an answer lacks."""
