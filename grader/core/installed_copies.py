"""Finds files of the project that an installed wheel holds as copies."""

from pathlib import Path

from grader.core.catalog import ROOT

COPIES_FOLDER = (
    "grader/copies"  # of a wheel alone: files that elsewhere lie outside of the packages
)


def is_wheel_installed(root: Path = ROOT) -> bool:
    """Return whether this runs from an installed wheel, without the project's other files."""
    return (root / COPIES_FOLDER).is_dir()


def find_project_file(name: str, root: Path = ROOT) -> Path:
    """Return the path of a file such as "Makefile": in the project, or of the wheel's copy."""
    return root / COPIES_FOLDER / name if is_wheel_installed(root) else root / name


def describe_cuda_installation() -> str:
    """Return how PyTorch's build for CUDA is installed."""
    named = "pytorch.org names the command"
    return named if is_wheel_installed() else "`make grade TORCH=cuda DEVICE=cuda`"
