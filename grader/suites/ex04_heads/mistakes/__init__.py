"""What goes wrong with heads, by name."""
