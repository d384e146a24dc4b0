"""What can be wrong with the packages of this Python, with torch, and with CUDA."""

import importlib.metadata
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from grader.core.records import Exercise
from grader.core.this_python import pip, pip_install
from grader.doctor.machine_facts import MachineFacts, Torch
from grader.doctor.problem import Problem, Problems, kernels

_JUDGES = ("numpy", "torch")  # of what was pinned, what numbers come from
_BESIDE_TORCH = ("torchvision", "torchaudio")


def needed(root: Path, extra: str = "") -> list[str]:
    """What pyproject.toml asks for, where the tree is; else what the installed package asks for."""
    file = root / "pyproject.toml"
    if file.is_file():
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        return list(project["optional-dependencies"][extra] if extra else project["dependencies"])
    try:
        named = importlib.metadata.requires("attention-by-hand") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    asked = [(text, Requirement(text).marker) for text in named]
    core = [text for text, marker in asked if marker is None or marker.evaluate({"extra": ""})]
    if not extra:
        return core
    return [t for t, m in asked if t not in core and m is not None and m.evaluate({"extra": extra})]


def pinned(root: Path) -> dict[str, str]:
    """The versions that `make` installs, by name; nothing where the tree is not."""
    file = root / "constraints.txt"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return dict(line.split("==") for line in lines if "==" in line)


def installed(requirements: Iterable[str]) -> dict[str, str]:
    """The versions of what is installed of that, and of what is used with torch."""
    found = {}
    for name in (*(Requirement(text).name for text in requirements), *_BESIDE_TORCH):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def core(requirements: Iterable[str], have: Mapping[str, str]) -> Problems:
    """What grading needs is missing, or is older than it should be."""
    for text in requirements:
        wanted = Requirement(text)
        version = have.get(wanted.name)
        cure = (
            "`make grade` installs what is needed into .venv; in an environment of your own: "
            f"`{pip_install(f'{wanted.name}{wanted.specifier}')}`."
        )
        if version is None:
            yield Problem("stops", f"{wanted.name} is not installed for this Python.", cure)
        elif not wanted.specifier.contains(version, prereleases=True):
            says = f"{wanted.name} {version} is installed, and the grader needs {wanted.specifier}."
            yield Problem("limits", says, cure)


def extras(exercises: Iterable[Exercise], have: Mapping[str, str], system: str) -> Problems:
    """An exercise requires a package that is not here."""
    for exercise in exercises:
        for text in exercise.requires:
            wanted = Requirement(text)
            version = have.get(wanted.name)
            if version and wanted.specifier.contains(version, prereleases=True):
                continue
            cure = f"Install it: `{pip_install(text)}`."
            if system != "Linux":
                cure = "It may not exist outside Linux; what needs it is not run and costs nothing."
            yield Problem("limits", f"{exercise.slug} needs {text}, which is not here.", cure)


def notebooks(requirements: Iterable[str], have: Mapping[str, str]) -> Problems:
    """nbgrader is not here."""
    for wanted in map(Requirement, requirements):
        if wanted.name == "nbgrader" and wanted.name not in have:
            says = "nbgrader is not installed. Only courses that use notebooks need it."
            yield Problem("note", says, "`make release` installs it.")


def other_versions(pins: Mapping[str, str], have: Mapping[str, str]) -> Problems:
    """What the numbers come from is not what the project is tested with."""
    for name in _JUDGES:
        version, pin = have.get(name, ""), pins.get(name, "")
        if version and pin and version.partition("+")[0] != pin:
            says = f"{name} {version} is not {pin}, with which this project is tested."
            yield Problem(
                "note", says,
                "Every report names its versions; `make grade` puts the tested ones into .venv.",
            )  # fmt: skip


def beside_torch(have: Mapping[str, str], asks: Mapping[str, Sequence[str]]) -> Problems:
    """A package that was built for another torch than the one that is here.

    asks  what each package requires, by name
    """
    for name in _BESIDE_TORCH:
        for wanted in map(Requirement, asks.get(name, ())):
            version = have.get(wanted.name, "")
            if wanted.name != "torch" or not version or wanted.specifier.contains(version):
                continue
            says = (
                f"{name} {have[name]} is for torch{wanted.specifier}, and torch {version} is here."
            )
            yield Problem(
                "note", says,
                "The grader does not use it, but an answer that imports it may fail: "
                f"`{pip('uninstall', name)}`.",
            )  # fmt: skip


def asked_beside_torch() -> dict[str, list[str]]:
    """What those packages require that are built for one torch, where they are installed."""
    names = [name for name in installed(()) if name in _BESIDE_TORCH]
    return {name: importlib.metadata.requires(name) or [] for name in names}


def torch(machine: MachineFacts) -> Problems:
    """torch is here and does not work."""
    found = machine.torch
    if isinstance(found, Torch):
        if not found.numpy:
            says = "This torch and this NumPy do not work together: no tensor becomes an array."
            cure = f"Bring both in step: `{pip_install('--upgrade', 'numpy', 'torch')}`."
            yield Problem("stops", says, cure)
        return
    anew = pip_install("--force-reinstall", "torch")
    yield Problem(
        "stops", f"torch cannot be imported: {found}.",
        "Remove LD_LIBRARY_PATH from the environment, which may lead it to other libraries; if "
        f"that does not help, install torch anew: `{anew}`."
        if machine.environment.get("LD_LIBRARY_PATH") else
        f"Install it anew: `{anew}`, or `make clean && make grade`.",
    )  # fmt: skip


def cuda(machine: MachineFacts, exercises: Iterable[Exercise]) -> Problems:
    """There is a GPU of NVIDIA's, or its driver, and it cannot be used."""
    found = machine.torch
    if not isinstance(found, Torch):
        return
    if found.gpu:
        if (slugs := kernels(exercises)) and found.cuda and "nvcc" not in machine.programs:
            says = f"On this GPU {slugs} needs nvcc, which is not installed."
            yield Problem("limits", says, f"Install it: `{pip_install('nvidia-cuda-nvcc')}`.")
    elif machine.driver and found.cuda is None:
        says = "NVIDIA's driver is here, and this torch was built without CUDA."
        yield Problem("limits", says, "Install the other: `make grade TORCH=cuda DEVICE=cuda`.")
    elif machine.driver and not machine.devices:
        says = "NVIDIA's driver is here, and no GPU is."
        yield Problem("limits", says, "A container is given one by `docker run --gpus all`.")
    elif machine.driver and "CUDA_VISIBLE_DEVICES" in machine.environment:
        says = "torch sees no GPU, and CUDA_VISIBLE_DEVICES is set."
        yield Problem("limits", says, "Remove it from the environment, or name a GPU that is here.")
    elif machine.driver:
        says = f"torch sees no GPU: it was built for CUDA {found.cuda}."
        cure = "See with `nvidia-smi` which CUDA the driver supports, and update the driver."
        yield Problem("limits", says, cure)
