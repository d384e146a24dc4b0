"""What goes wrong in an attention block, by name."""
