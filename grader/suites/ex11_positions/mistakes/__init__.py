"""What goes wrong with positions, by name."""
