"""What goes wrong on the fast path, by name."""
