"""The project's packages, installed beside torch: no answer can import them, behind any wall."""

import pytest

from grader.worker.parent import readable_paths, walls
from grader.worker.parent.nursery import Nursery
from tests.worker.asking import call, worker
from tests.worker.conftest import MOST

SOURCE = """
import importlib, importlib.machinery, importlib.util, sys

def imports(way, place):
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()
    try:
        return bool(eval(way, globals() | {"place": place}))
    except ImportError:
        return False
"""
NAMES = ("grader", "reference", "reference.ex01_softmax", "solutions")
WAYS = [
    "importlib.import_module({name!r})",
    "__builtins__['__import__']({name!r})",
    "importlib.util.find_spec({name!r})",
    "importlib.machinery.PathFinder.find_spec({name!r})",
    "sys.modules.pop({name!r}, None) or importlib.import_module({name!r})",
    "sys.path.insert(0, place) or importlib.import_module({name!r})",
    "sys.path.insert(0, place + '/..') or importlib.import_module('site-packages.' + {name!r})",
    "importlib.machinery.PathFinder.find_spec({name!r}, [place])",
]


@pytest.fixture(scope="module", params=MOST)
def asked(request, tmp_path_factory):
    """A wall that was built where the project is installed, and a function of an answer behind it."""
    place = tmp_path_factory.mktemp("lib") / "site-packages"
    for name in ("grader", "reference", "solutions", "innocent"):
        (place / name).mkdir(parents=True)
        (place / name / "__init__.py").touch()
    (place / "reference/ex01_softmax.py").touch()
    for path in (place, *place.parents[:2]):
        path.chmod(0o755)  # the worker may be another user
    with pytest.MonkeyPatch.context() as patch:
        sites = [*readable_paths.find_worker_site_folders(), str(place)]
        patch.setattr(readable_paths, "find_worker_site_folders", lambda: sites)
        patch.setattr(walls, "find_worker_site_folders", lambda: sites)
        wall = walls.probe_wall(request.param.name).wall
        assert wall is not None
        with Nursery(wall) as nursery, worker(nursery, SOURCE) as (client, _):
            yield wall.name, lambda way: call(client, "imports", way, str(place))


@pytest.mark.parametrize("way", WAYS)
def test_no_answer_imports_what_is_installed_beside_torch(asked, way):
    _, imports = asked
    assert [name for name in NAMES if imports(way.format(name=name))] == []


@pytest.mark.parametrize("way", WAYS)
def test_other_packages_are_imported_in_the_same_ways(asked, way):
    wall, imports = asked
    # Landlock lets no worker look into the folder above its packages.
    assert imports(way.format(name="innocent")) is (wall == "process" or "/.." not in way)
