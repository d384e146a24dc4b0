"""What goes wrong on the way back through softmax and attention, by name."""
