"""What goes wrong around blocks, block tables, packed sequences and chunks, by name."""
