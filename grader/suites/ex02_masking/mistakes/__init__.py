"""What goes wrong with masks and behind them, by name: one step of `steps.py` is another."""
