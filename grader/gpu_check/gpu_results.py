"""Keeps the results of a run in one JSON file, written again after every line."""

import hashlib
import json
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from grader.core.catalog import ROOT

FORMAT = "attention-by-hand/gpu-check/v2"
CODE_FOLDERS = ("grader", "reference", "solutions")
VERSIONED_PACKAGES = ("torch", "numpy", "triton", "pytest")


@dataclass(slots=True)
class GpuRecord:
    """The record of one step: its lines, its seconds, and whether it has finished."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    finished: bool = False


@dataclass(slots=True)
class GpuResults:
    """The records of all steps by name, for this code, these versions and this device."""

    path: Path
    about: dict[str, str]
    steps: dict[str, GpuRecord] = field(default_factory=dict)

    @classmethod
    def resume(cls, path: Path, device: str, *, fresh: bool = False) -> "GpuResults":
        """Load an earlier run of the same code from the file; rename a file of other code."""
        results = cls(path, _read_gpu_check_conditions(device))
        kept = None if fresh else _read_gpu_results(path)
        if kept and kept.get("about") == results.about:
            results.steps = {name: GpuRecord(**record) for name, record in kept["steps"].items()}
        elif path.is_file():
            path.rename(path.with_suffix(time.strftime(".%Y-%m-%d-%H%M%S.json")))
        return results

    def record(self, name: str) -> GpuRecord:
        """Return the record of a step; begin one if there is none."""
        return self.steps.setdefault(name, GpuRecord())

    def save(self) -> None:
        """Write all records; a run that is killed meanwhile leaves the previous file."""
        steps = {
            name: {"lines": r.lines, "seconds": round(r.seconds, 1), "finished": r.finished}
            for name, r in self.steps.items()
        }
        found = {"format": FORMAT, "about": self.about, "steps": steps}
        beside = self.path.with_name(self.path.name + ".part")
        beside.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        os.replace(beside, self.path)


def _read_gpu_results(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def _read_gpu_check_conditions(device: str) -> dict[str, str]:
    """Return what the results depend on: device, versions and code."""
    import torch

    name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    found = {"device": device, "name": name, "python": platform.python_version()}
    return (
        found
        | {p: _read_gpu_check_version(p) for p in VERSIONED_PACKAGES}
        | {"code": _digest_gpu_check_code()}
    )


def _read_gpu_check_version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _digest_gpu_check_code() -> str:
    found = hashlib.sha256()
    for path in sorted(_list_gpu_check_files()):
        found.update(f"\0{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def _list_gpu_check_files() -> Iterator[Path]:
    for folder in CODE_FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in (".py", ".toml", ".cu", ".h", ".cpp"):
                yield path
