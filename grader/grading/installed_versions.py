"""The versions that a verdict may depend on."""

import importlib.metadata
import platform

from grader.core import catalog
from grader.worker.parent import requirements


def list_grading_versions(with_tf32: str) -> dict[str, str]:
    """Return the installed versions that a verdict may depend on."""
    from grader import __version__

    names = ("numpy", "torch", "pytest")
    found = {name: importlib.metadata.version(name) for name in names}
    needed = (
        text
        for exercise in catalog.list_catalog_exercises()
        for on_cuda in (False, True)
        for text in requirements.list_worker_requirements(exercise, on_cuda=on_cuda)
    )
    for name in requirements.list_worker_packages(needed):
        found[name] = requirements.read_worker_version(name) or "not installed"
    return {"grader": __version__, "python": platform.python_version(), **found, "tf32": with_tf32}


def read_grading_tf32_setting() -> str:
    """Return whether matrix products on CUDA may round to TF32: "on" or "off"."""
    import torch

    return "on" if torch.backends.cuda.matmul.allow_tf32 else "off"
