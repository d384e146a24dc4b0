"""The sealed bundle: stored cases in the place of the reference and its like."""
