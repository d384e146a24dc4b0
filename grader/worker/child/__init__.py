"""The side of the wall that runs the submission. Standard library, numpy and torch only."""
