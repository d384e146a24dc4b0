"""Building what learners and instructors are given, and holding the house to its laws."""
