"""What a course says of itself in its file, lateness, and the reader of a class's tables."""
