"""Finds which packages that an exercise requires a worker cannot import."""

import importlib.machinery
import importlib.metadata
from collections.abc import Iterable

from packaging.requirements import Requirement

from grader.core.records import Exercise
from grader.core.this_python import build_pip_install_command
from grader.worker.parent.readable_paths import find_worker_site_folders


def list_worker_requirements(exercise: Exercise, *, on_cuda: bool) -> tuple[str, ...]:
    """Return what an exercise requires of a machine when it runs on this kind of device."""
    if on_cuda and exercise.requires_on_cuda is not None:
        return exercise.requires_on_cuda
    return exercise.requires


def find_unmet_worker_requirement(requirements: Iterable[str]) -> str:
    """Say which requirement is not met, with the cure; "" if all are met.

    requirements  in pip's form ("triton>=3.7.1"); a package is imported by its own name
    """
    for text in requirements:
        wanted = Requirement(text)
        found = read_worker_version(wanted.name)
        cure = build_pip_install_command(text)
        if not found:
            return f"needs {wanted.name}, which is not installed here: {cure}"
        if wanted.specifier and not wanted.specifier.contains(found, prereleases=True):
            return f"needs {text}, and {found} is installed here: {cure}"
    return ""


def list_worker_packages(requirements: Iterable[str]) -> list[str]:
    """Return the names of the required packages, each once."""
    return sorted({Requirement(text).name for text in requirements})


def read_worker_version(name: str) -> str:
    """Return the version of a package that a worker would import; "" if there is none."""
    folders = find_worker_site_folders()
    if importlib.machinery.PathFinder.find_spec(name, folders) is None:
        return ""
    found = importlib.metadata.distributions(name=name, path=folders)
    return next((distribution.version for distribution in found), "")
