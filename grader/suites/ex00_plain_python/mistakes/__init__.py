"""What goes wrong with matrices in lists, and with attention on them, by name."""
