"""What goes wrong when softmax is computed block by block, by name."""
