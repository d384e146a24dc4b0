"""The grader: says whether an answer is right, where it goes wrong, and what it earns."""

__version__ = "0.1.0"
