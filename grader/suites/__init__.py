"""The suites: a folder for each exercise. Those of packs are found beside them."""
