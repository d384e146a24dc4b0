"""What a course hands out: the bundle, notebooks, sealed bundles, and the bridge to nbgrader."""
