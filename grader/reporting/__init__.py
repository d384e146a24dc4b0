"""One `Report`, drawn in several formats."""
