"""Grades several exercises in one run."""

import hashlib
import importlib.metadata
import platform
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from grader.core import catalog, sealed_bundle
from grader.core.records import Exercise, ExerciseReport, Report
from grader.worker import requirements
from grader.worker.nursery import Nursery
from grader.worker.walls import PROCESS, Wall, hide_this_process


def grade_all(
    exercises: Sequence[Exercise],
    place: Path,
    *,
    student: str = "me",
    seed: str | None = None,
    device: str = "cpu",
    wall: Wall = PROCESS,
    speed: bool = True,
    progress: Callable[[str, float], None] = lambda doing, share: None,
) -> Report:
    """Grade `exercises`, whose answers lie in `place`, behind `wall`, and return the report.

    `progress` is told what is being done, and how much of the exercises, from 0 to 1, is done.
    """
    started = time.monotonic()
    hide_this_process()  # it is about to hold the seed and the expected values
    stored = sealed_bundle.read_bundle_facts()
    secret = f"{sealed_bundle.CASES}{stored.seed}" if stored else seed or secrets.token_hex(8)
    with Nursery(wall) as nursery:  # its import of torch runs while ours does
        from grader.grading.exercise import Run, grade_answer

        reports: list[ExerciseReport] = []
        run = Run(
            nursery=nursery, student=student, secret=secret, device=device, speed=speed,
            progress=lambda doing, share: progress(doing, (len(reports) + share) / len(exercises)),
        )  # fmt: skip
        for exercise in exercises:
            reports.append(grade_answer(exercise, place, run))
    return Report(
        student=student,
        seed_id=seed_id(secret),
        seed=secret,
        device=device,
        isolation=wall.name,
        versions=installed_versions(tf32_setting()),
        exercises=tuple(reports),
        seconds=time.monotonic() - started,
    )


def seed_id(secret: str) -> str:
    """Return a digest that tells two secrets apart and reveals nothing else about them."""
    return hashlib.sha256(secret.encode()).hexdigest()[:16]


def installed_versions(with_tf32: str) -> dict[str, str]:
    """Return the installed versions that a verdict may depend on."""
    from grader import __version__

    names = ("numpy", "torch", "pytest")
    found = {name: importlib.metadata.version(name) for name in names}
    needed = (
        text
        for exercise in catalog.exercises()
        for on_cuda in (False, True)
        for text in requirements.required_by(exercise, on_cuda=on_cuda)
    )
    for name in requirements.package_names(needed):
        found[name] = requirements.installed_version(name) or "not installed"
    return {"grader": __version__, "python": platform.python_version(), **found, "tf32": with_tf32}


def tf32_setting() -> str:
    """Return whether matrix products on CUDA may round to TF32: "on" or "off"."""
    import torch

    return "on" if torch.backends.cuda.matmul.allow_tf32 else "off"
