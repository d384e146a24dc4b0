"""Holds the one sentence that lessons, pictures, plays and `make show` follow."""

RUNNING_SENTENCE = "the cat sat down"
