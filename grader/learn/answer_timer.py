"""Times answers on request, as `make bench` does, beside the page."""

import threading
from pathlib import Path

from grader.core.errors import GraderFault
from grader.core.records import Exercise, Speed
from grader.timing.bench_command import benchmark_all_exercises
from grader.worker.parent.walls import Wall


class AnswerTimer:
    """Times one answer at a time, in a thread that never delays the end of the page."""

    def __init__(self, place: Path, wall: Wall) -> None:
        self._place, self._wall = place, wall
        self._lock = threading.Lock()
        self.running = ""  # the slug of the answer that is being timed
        self.share = 0.0  # of it that is done
        self.found: dict[str, Speed] = {}
        self.problems: dict[str, str] = {}

    def start(self, exercise: Exercise) -> None:
        """Begin to time an answer, unless one is being timed already."""
        if self._lock.acquire(blocking=False):
            self.running, self.share = exercise.slug, 0.0
            threading.Thread(target=self._time_answer, args=(exercise,), daemon=True).start()

    def _time_answer(self, exercise: Exercise) -> None:
        slug = exercise.slug
        try:
            speeds = benchmark_all_exercises(
                [exercise], self._place, seed=None, device="cpu", wall=self._wall,
                progress=self._advance,
            )  # fmt: skip
            self.found[slug] = speeds[slug]
            self.problems.pop(slug, None)
        except GraderFault as fault:
            self.problems[slug] = str(fault)
        finally:
            self.running = ""
            self._lock.release()

    def _advance(self, told: str, share: float) -> None:
        self.share = share
