"""What a learner does besides grading: watch, hints, steps, bug hunts, interviews."""
