"""Right answers to a bug hunt, written otherwise."""

from grader.judging import variant


@variant(of="mistake")
def joined():
    """The name put together from its words."""
    return "_".join(("window", "one", "too", "wide"))


@variant(of="mistake")
def looked_up():
    """The name from a table of what was considered."""
    considered = {"diagonal_hidden": False, "window_one_too_wide": True, "top_left": False}
    return next(name for name, found in considered.items() if found)


@variant(of="mistake")
def reasoned():
    """The name by trying the mended mask."""
    wide = int(sliding_window_mask(3, 9, 4).sum(-1).max())  # noqa: F821 (it is the submission's)
    return "window_one_too_wide" if wide == 4 else "window_one_too_narrow"


@variant(of="mistake")
def noted():
    """The name after notes that nobody reads."""
    notes = ["a window of 1 showed two keys", "so <= stood where < belongs"]
    return "window_one_too_wide" if notes else ""


@variant(of="drill")
def same_drill():
    """The same drill, from its parts."""
    return " ".join(["ex05_causal_mask", str(2 * 3)])
