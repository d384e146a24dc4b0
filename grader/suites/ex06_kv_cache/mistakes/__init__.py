"""What goes wrong around a key/value cache: one step of `steps.py` is another."""
