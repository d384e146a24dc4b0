"""What a worker behind a wall may read: the Python that runs, its packages, system libraries."""

import ctypes
import importlib.util
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.core.packs import packs

ROOT = Path(__file__).resolve().parents[2]
# Packages of ours that a worker must not find, should the project be installed among others.
OURS = ("grader", "reference", "solutions", "exercises", "tests")
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store", "/usr/share/zoneinfo",
           "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/localtime")  # fmt: skip
_CUDA_FILES = ("/proc/driver/nvidia", "/sys/bus/pci/devices", "/sys/module/nvidia",
               "/etc/OpenCL")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """Paths that may be read, folders whose names may be listed, and devices that may be used."""

    read: tuple[str, ...]
    hidden: tuple[str, ...]
    devices: tuple[str, ...]

    def carved(self) -> tuple[list[str], list[str]]:
        """What may be read and what may only be listed, so that nothing hidden lies below."""
        hidden = [Path(path) for path in self.hidden]
        read, list_only = list[str](), list[str]()
        for path in map(Path, self.read):
            for part, whole in _carve(path, [h for h in hidden if path in (h, *h.parents)]):
                (read if whole else list_only).append(str(part))
        return read, list_only


def visible(*, on_cuda: bool) -> Visible:
    """What the submissions of this run may see."""
    folders = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"),
               sysconfig.get_config_var("LIBDIR") or "", os.path.realpath(sys.executable),
               *_SYSTEM, *site_folders()]  # fmt: skip
    devices: list[str] = []
    if on_cuda:
        folders += [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *_CUDA_FILES]
        folders += [*map(str, Path("/usr/local").glob("cuda*")), *driver_folders()]
        devices += map(str, (*Path("/dev").glob("nvidia*"), *Path("/dev").glob("dxg")))
    read = dict.fromkeys(path for path in folders if path.startswith("/") and Path(path).exists())
    return Visible(read=tuple(read), hidden=tuple(_hidden(read)), devices=tuple(devices))


def driver_folders(maps: Path = Path("/proc/self/maps")) -> list[str]:
    """The folders of NVIDIA's driver, wherever the system's loader finds its library."""
    try:
        ctypes.CDLL("libcuda.so.1")
        mapped = maps.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    places = [line.split(maxsplit=5)[-1] for line in mapped.splitlines() if "libcuda.so" in line]
    return list(dict.fromkeys(str(Path(place).parent) for place in places))


def site_folders() -> list[str]:
    """The folders of installed packages that this Python uses; numpy and torch lie there."""
    specs = [importlib.util.find_spec(name) for name in ("numpy", "torch")]
    packages = [str(Path(s.origin).parent.parent) for s in specs if s and s.origin]
    known = {os.path.realpath(p) for p in (*site.getsitepackages(), site.getusersitepackages())}
    return list(dict.fromkeys([*packages, *(p for p in sys.path if os.path.realpath(p) in known)]))


def _hidden(read: Iterable[str]) -> Iterator[str]:
    """Our own folders that lie below something that may be read."""
    places = {ROOT, *(Path(folder) for folder in site_folders())}
    ours = [place / name for place in places for name in OURS]
    for path in sorted([*ours, *packs()]):
        if path.exists() and any(Path(folder) in path.parents for folder in read):
            yield str(path)


def _carve(path: Path, hidden: list[Path]) -> Iterator[tuple[Path, bool]]:
    """`path` as a whole, or, if something hidden lies in it, its parts without that."""
    if not hidden:
        yield path, True
    elif path not in hidden:
        yield path, False
        for part in path.iterdir():
            yield from _carve(part, [h for h in hidden if part in (h, *h.parents)])
