"""What goes wrong when query heads share keys and values: one step of `steps.py` is another."""
