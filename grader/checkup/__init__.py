"""What can be wrong with a machine on which answers are graded, and the cure for each."""
