"""Speed: rounds, statistics, points."""
