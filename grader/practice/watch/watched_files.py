"""Which files were saved, found by looking at them.

Looking at a few dozen files costs microseconds, works on every file system (also where changes are
not announced: network folders, folders of a container), and does not mind how an editor saves.
"""

from collections.abc import Mapping
from pathlib import Path

Mark = tuple[int, int, int] | None  # None: there is no file


class Files:
    """The answers, by slug, and how each looked when it was graded last."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self.paths = paths
        self._taken = {slug: _mark(path) for slug, path in paths.items()}
        self._before = dict(self._taken)

    def saved(self) -> list[str]:
        """The slugs of files that changed since `take` and then stood still, the newest last.

        Two looks must agree: between them an editor has put the new file in the old one's place,
        or has written the rest of it.
        """
        now = {slug: _mark(path) for slug, path in self.paths.items()}
        still = [s for s in now if now[s] != self._taken[s] and now[s] == self._before[s]]
        self._before = now
        return sorted(still, key=lambda slug: now[slug] or (0, 0, 0))

    def take(self, slug: str) -> None:
        """Remember how a file looks; what is written from now on is a save."""
        self._taken[slug] = _mark(self.paths[slug])

    def changed(self, slug: str) -> bool:
        """Whether a file looks otherwise than when it was taken."""
        return _mark(self.paths[slug]) != self._taken[slug]


def _mark(path: Path) -> Mark:
    try:
        found = path.stat()
    except OSError:  # deleted, or its folder closed
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
