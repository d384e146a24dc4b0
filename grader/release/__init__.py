"""What a course hands out: the bundle, notebooks, sealed bundles, the bridge to nbgrader."""
