"""The side of the wall that decides: starts workers, asks them, and ends them."""
