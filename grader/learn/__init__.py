"""Serves a page on this machine to read, write, see verdicts, and play with pictures."""
