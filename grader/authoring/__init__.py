"""What proves the exercises: for their authors, not for students."""
