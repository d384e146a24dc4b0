"""Finds which packages that an exercise requires a worker cannot import."""

import importlib.machinery
import importlib.metadata
from collections.abc import Iterable

from packaging.requirements import Requirement

from grader.core.records import Exercise
from grader.core.this_python import pip_install
from grader.worker.readable_paths import site_folders


def required_by(exercise: Exercise, *, on_cuda: bool) -> tuple[str, ...]:
    """Return what an exercise requires of a machine when it runs on this kind of device."""
    if on_cuda and exercise.requires_on_cuda is not None:
        return exercise.requires_on_cuda
    return exercise.requires


def unmet_requirement(requirements: Iterable[str]) -> str:
    """Say which requirement is not met, with the cure; "" if all are met.

    requirements  in pip's form ("triton>=3.7.1"); a package is imported by its own name
    """
    for text in requirements:
        wanted = Requirement(text)
        found = installed_version(wanted.name)
        cure = pip_install(text)
        if not found:
            return f"needs {wanted.name}, which is not installed here: {cure}"
        if wanted.specifier and not wanted.specifier.contains(found, prereleases=True):
            return f"needs {text}, and {found} is installed here: {cure}"
    return ""


def package_names(requirements: Iterable[str]) -> list[str]:
    """Return the names of the required packages, each once."""
    return sorted({Requirement(text).name for text in requirements})


def installed_version(name: str) -> str:
    """Return the version of a package that a worker would import; "" if there is none."""
    folders = site_folders()
    if importlib.machinery.PathFinder.find_spec(name, folders) is None:
        return ""
    found = importlib.metadata.distributions(name=name, path=folders)
    return next((distribution.version for distribution in found), "")
