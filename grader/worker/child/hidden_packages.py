"""Hides the project's packages from the imports of an answer, where they lie beside torch."""

import os
import sys
from collections.abc import Iterable
from importlib import machinery
from types import ModuleType

_LOADERS = (
    (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
    (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
    (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
)


def hide_packages_from_imports(names: Iterable[str], sites: Iterable[str]) -> None:
    """Make this process find no package of these `names`.

    Nor does it find one of them in the folders `sites` under a longer name: they lie in the folder
    of the standard library, so that `site-packages.reference` would be a name. (An entry of None in
    `sys.modules` would last only until somebody deletes it.)
    """
    hidden, places = frozenset(names), frozenset(map(os.path.realpath, sites))

    class Finder(machinery.FileFinder):
        def find_spec(
            self, fullname: str, target: ModuleType | None = None
        ) -> machinery.ModuleSpec | None:
            top, last = fullname.partition(".")[0], fullname.rpartition(".")[2]
            if top in hidden or (last in hidden and os.path.realpath(self.path) in places):
                return None
            return super().find_spec(fullname, target)

    sys.path_hooks[-1] = Finder.path_hook(*_LOADERS)
    sys.path_importer_cache.clear()
