"""The paths that a worker behind a wall may read: Python, its packages, system libraries."""

import ctypes
import importlib.util
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.core.packs import list_packs_in_use
from grader.worker.parent import compiler_programs

ROOT = Path(__file__).resolve().parents[3]
# Packages of the project: no worker imports them, and those that are installed among other packages
# are hidden from a worker behind a wall.
OUR_PACKAGES = ("grader", "reference", "solutions", "exercises", "tests")
_SYSTEM_PATHS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store", "/usr/share/zoneinfo",
                 "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/localtime")  # fmt: skip
_CUDA_PATHS = ("/proc/driver/nvidia", "/sys/bus/pci/devices", "/sys/module/nvidia",
               "/etc/OpenCL")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class VisiblePaths:
    """Paths that a worker may read, paths hidden below them, and devices that it may use."""

    read: tuple[str, ...]
    hidden: tuple[str, ...]
    devices: tuple[str, ...]

    def carve_out_hidden(self) -> tuple[list[str], list[str]]:
        """Return readable paths with no hidden one below, and folders that are only listed."""
        hidden = [Path(path) for path in self.hidden]
        read, list_only = list[str](), list[str]()
        for path in map(Path, self.read):
            for part, whole in _split_worker_path(
                path, [h for h in hidden if path in (h, *h.parents)]
            ):
                (read if whole else list_only).append(str(part))
        return read, list_only


def collect_worker_paths(*, on_cuda: bool) -> VisiblePaths:
    """Collect the paths and devices that the submissions of this run may use."""
    folders = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"),
               sysconfig.get_config_var("LIBDIR") or "", os.path.realpath(sys.executable),
               *_SYSTEM_PATHS, *find_worker_site_folders()]  # fmt: skip
    devices: list[str] = []
    if on_cuda:
        folders += [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *_CUDA_PATHS]
        folders += [*map(str, Path("/usr/local").glob("cuda*")), *find_worker_driver_folders()]
        folders += (
            p
            for p in compiler_programs.list_worker_compiler_paths()
            if not _is_below_worker_path(p, folders)
        )
        devices += map(str, (*Path("/dev").glob("nvidia*"), *Path("/dev").glob("dxg")))
    read = dict.fromkeys(path for path in folders if path.startswith("/") and Path(path).exists())
    return VisiblePaths(
        read=tuple(read), hidden=tuple(_list_worker_hidden_folders(read)), devices=tuple(devices)
    )


def _is_below_worker_path(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path lies below one of these folders, links followed."""
    real = Path(os.path.realpath(os.path.dirname(path)))
    return any(folder and real.is_relative_to(os.path.realpath(folder)) for folder in folders)


def find_worker_driver_folders(maps: Path = Path("/proc/self/maps")) -> list[str]:
    """Return the folders of NVIDIA's driver, from where the system's loader maps its library."""
    try:
        ctypes.CDLL("libcuda.so.1")
        mapped = maps.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    places = [line.split(maxsplit=5)[-1] for line in mapped.splitlines() if "libcuda.so" in line]
    return list(dict.fromkeys(str(Path(place).parent) for place in places))


def find_worker_site_folders() -> list[str]:
    """Return the package folders of this Python, with those of numpy and torch."""
    specs = [importlib.util.find_spec(name) for name in ("numpy", "torch")]
    packages = [str(Path(s.origin).parent.parent) for s in specs if s and s.origin]
    known = {os.path.realpath(p) for p in (*site.getsitepackages(), site.getusersitepackages())}
    return list(dict.fromkeys([*packages, *(p for p in sys.path if os.path.realpath(p) in known)]))


def _list_worker_hidden_folders(read: Iterable[str]) -> Iterator[str]:
    """Yield the project's folders that lie below a readable path."""
    places = {ROOT, *(Path(folder) for folder in find_worker_site_folders())}
    ours = [place / name for place in places for name in OUR_PACKAGES]
    for path in sorted([*ours, *list_packs_in_use()]):
        if path.exists() and any(Path(folder) in path.parents for folder in read):
            yield str(path)


def _split_worker_path(path: Path, hidden: list[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield `path` (True); if it contains hidden paths, itself (False) and its visible parts."""
    if not hidden:
        yield path, True
    elif path not in hidden:
        yield path, False
        for part in path.iterdir():
            yield from _split_worker_path(part, [h for h in hidden if part in (h, *h.parents)])
