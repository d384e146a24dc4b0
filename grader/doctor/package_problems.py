"""Finds problems of the packages of this Python, of torch, and of CUDA."""

import importlib.metadata
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from grader.core.installed_copies import describe_cuda_installation, is_wheel_installed
from grader.core.records import Exercise
from grader.core.this_python import build_pip_command, build_pip_install_command
from grader.doctor.machine_facts import MachineFacts, TorchFacts
from grader.doctor.problem import Problem, Problems, name_cuda_for_doctor

_VERDICT_PACKAGES = ("numpy", "torch")  # of what was pinned, what numbers come from
_TORCH_COMPANIONS = ("torchvision", "torchaudio")


def list_packages_for_doctor(root: Path, extra: str = "") -> list[str]:
    """Return what pyproject.toml requires; else what the package requires."""
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


def list_pins_for_doctor(root: Path) -> dict[str, str]:
    """Return the versions that `make` installs, by name; empty without the project's files."""
    file = root / "constraints.txt"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return dict(line.split("==") for line in lines if "==" in line)


def find_installed_for_doctor(requirements: Iterable[str]) -> dict[str, str]:
    """Return the installed versions of the required packages, and of those used with torch."""
    found = {}
    for name in (*(Requirement(text).name for text in requirements), *_TORCH_COMPANIONS):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def find_missing_core_problems(requirements: Iterable[str], have: Mapping[str, str]) -> Problems:
    """Yield a problem for each package that grading needs and is missing or too old."""
    for text in requirements:
        wanted = Requirement(text)
        version = have.get(wanted.name)
        pip = build_pip_install_command(f"{wanted.name}{wanted.specifier}")
        cure = f"Install it: `{pip}`."
        if not is_wheel_installed():
            cure = (
                "`make grade` installs what is needed into .venv; in an environment of your own: "
                f"`{pip}`."
            )
        if version is None:
            yield Problem("stops", f"{wanted.name} is not installed for this Python.", cure)
        elif not wanted.specifier.contains(version, prereleases=True):
            says = f"{wanted.name} {version} is installed, and the grader needs {wanted.specifier}."
            yield Problem("limits", says, cure)


def find_missing_extra_problems(
    exercises: Iterable[Exercise], have: Mapping[str, str], system: str
) -> Problems:
    """Yield a problem for each missing package that an exercise requires."""
    for exercise in exercises:
        for text in exercise.requires:
            wanted = Requirement(text)
            version = have.get(wanted.name)
            if version and wanted.specifier.contains(version, prereleases=True):
                continue
            cure = f"Install it: `{build_pip_install_command(text)}`."
            if system != "Linux":
                cure = "It may not exist outside Linux; what needs it is not run and costs nothing."
            yield Problem("limits", f"{exercise.slug} needs {text}, which is not here.", cure)


def find_missing_nbgrader_problem(requirements: Iterable[str], have: Mapping[str, str]) -> Problems:
    """Yield a problem if nbgrader is missing."""
    for wanted in map(Requirement, requirements):
        if wanted.name == "nbgrader" and wanted.name not in have:
            says = "nbgrader is not installed. Only courses that use notebooks need it."
            yield Problem("note", says, "`make release` installs it.")


def find_untested_version_problems(pins: Mapping[str, str], have: Mapping[str, str]) -> Problems:
    """Yield a problem if versions that decide numbers differ from the tested ones."""
    for name in _VERDICT_PACKAGES:
        version, pin = have.get(name, ""), pins.get(name, "")
        if version and pin and version.partition("+")[0] != pin:
            says = f"{name} {version} is not {pin}, with which this project is tested."
            yield Problem(
                "note", says,
                "Every report names its versions; `make grade` puts the tested ones into .venv.",
            )  # fmt: skip


def find_torch_mismatch_problems(
    have: Mapping[str, str], asks: Mapping[str, Sequence[str]]
) -> Problems:
    """Yield a problem for each package that was built for another torch.

    asks  what each package requires, by name
    """
    for name in _TORCH_COMPANIONS:
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
                f"`{build_pip_command('uninstall', name)}`.",
            )  # fmt: skip


def read_torch_for_doctor() -> dict[str, list[str]]:
    """Return the torch version that each package built for one torch requires."""
    names = [name for name in find_installed_for_doctor(()) if name in _TORCH_COMPANIONS]
    return {name: importlib.metadata.requires(name) or [] for name in names}


def find_torch_problems(machine: MachineFacts) -> Problems:
    """Yield a problem if torch is installed and does not work."""
    found = machine.torch
    if isinstance(found, TorchFacts):
        if not found.numpy:
            says = "This torch and this NumPy do not work together: no tensor becomes an array."
            cure = (
                f"Bring both in step: `{build_pip_install_command('--upgrade', 'numpy', 'torch')}`."
            )
            yield Problem("stops", says, cure)
        return
    anew = build_pip_install_command("--force-reinstall", "torch")
    yield Problem(
        "stops", f"torch cannot be imported: {found}.",
        "Remove LD_LIBRARY_PATH from the environment, which may lead it to other libraries; if "
        f"that does not help, install torch anew: `{anew}`."
        if machine.environment.get("LD_LIBRARY_PATH") else
        f"Install it anew: `{anew}`." if is_wheel_installed() else
        f"Install it anew: `{anew}`, or `make clean && make grade`.",
    )  # fmt: skip


def find_cuda_problems(machine: MachineFacts, exercises: Iterable[Exercise]) -> Problems:
    """Yield a problem if a GPU of NVIDIA, or its driver, cannot be used."""
    found = machine.torch
    if not isinstance(found, TorchFacts):
        return
    if found.gpu:
        if (
            (slugs := name_cuda_for_doctor(exercises))
            and found.cuda
            and "nvcc" not in machine.programs
        ):
            says = f"On this GPU {slugs} needs nvcc, which is not installed."
            yield Problem(
                "limits", says, f"Install it: `{build_pip_install_command('nvidia-cuda-nvcc')}`."
            )
    elif machine.driver and found.cuda is None:
        says = "NVIDIA's driver is here, and this torch was built without CUDA."
        yield Problem("limits", says, f"Install the other: {describe_cuda_installation()}.")
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
