"""Speed and memory: rounds beside a slow and a fast answer, statistics, points."""
