"""What goes wrong in causal masks and in causal attention: one step of `steps.py` is another."""
