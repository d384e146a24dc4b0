"""An interview: a blank file, a clock, and questions when the time is over."""
