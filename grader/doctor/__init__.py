"""Says what this machine can do, and the cure for every problem."""
