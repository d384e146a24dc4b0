"""Releases feedback to students who handed in through nbgrader's exchange, and names the others.

A student fetches feedback by the secret that `nbgrader submit` put beside the submission. Files
that were put there by hand have none, and nbgrader would stop at the first of them.
"""

import glob
from pathlib import Path

from nbgrader.exchange.default import ExchangeReleaseFeedback

_SECRET_NAME, _TIME_NAME = "submission_secret.txt", "timestamp.txt"


class ReleaseWhatCanBeFetched(ExchangeReleaseFeedback):  # type: ignore[misc]
    """nbgrader's plugin, for one student after the other."""

    src_path: str

    def copy_files(self) -> None:
        for_hand = []
        for folder in map(Path, sorted(glob.glob(self.src_path))):
            if not _has_cell_text(folder / _SECRET_NAME) or not _has_cell_text(folder / _TIME_NAME):
                for_hand.append(str(folder.relative_to(self.coursedir.root)))
                continue
            self.src_path = str(folder)
            super().copy_files()
        if for_hand:
            self.log.warning(
                "These were not handed in through the exchange, so feedback cannot be fetched "
                "there. Give each student the page in the folder: %s", ", ".join(for_hand),
            )  # fmt: skip


def _has_cell_text(path: Path) -> bool:
    """Return whether a file is there that nbgrader can read."""
    try:
        return bool(path.read_text().strip())
    except (OSError, UnicodeDecodeError):
        return False
