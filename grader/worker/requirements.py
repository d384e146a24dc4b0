"""Packages beyond the core that an exercise requires: whether a worker finds them."""

import importlib.machinery
import importlib.metadata
from collections.abc import Iterable

from packaging.requirements import Requirement

from grader.core.records import Exercise
from grader.core.this_python import pip_install
from grader.worker.readable_paths import site_folders


def required(exercise: Exercise, *, on_cuda: bool) -> tuple[str, ...]:
    """Return what an exercise requires of a machine when it runs on this kind of device."""
    if on_cuda and exercise.requires_on_cuda is not None:
        return exercise.requires_on_cuda
    return exercise.requires


def lacking(requirements: Iterable[str]) -> str:
    """What is needed and not here, with the cure; "" if everything is there.

    requirements  as pip reads them ("triton>=3.7.1"); a package is imported by its own name
    """
    for text in requirements:
        wanted = Requirement(text)
        found = version(wanted.name)
        cure = pip_install(text)
        if not found:
            return f"needs {wanted.name}, which is not installed here: {cure}"
        if wanted.specifier and not wanted.specifier.contains(found, prereleases=True):
            return f"needs {text}, and {found} is installed here: {cure}"
    return ""


def names(requirements: Iterable[str]) -> list[str]:
    """The packages that are required, each once."""
    return sorted({Requirement(text).name for text in requirements})


def version(name: str) -> str:
    """The version of a package as a worker would import it; "" if there is none."""
    folders = site_folders()
    if importlib.machinery.PathFinder.find_spec(name, folders) is None:
        return ""
    found = importlib.metadata.distributions(name=name, path=folders)
    return next((distribution.version for distribution in found), "")
