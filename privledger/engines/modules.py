"""Modules that a worker may load beside its libraries: what the driver has loaded, nothing else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Final

from attrs import frozen

NEEDED: Final = ("numpy", "attr", "attrs", "scipy", "privledger")
_FOUND: Final = {*sys.stdlib_module_names, *NEEDED, "__main__"}


def is_found(module: str) -> bool:
    """Whether a worker finds this module without being told where it is."""
    return module.partition(".")[0] in _FOUND


def loaded_modules() -> dict[str, list[str]]:
    """The other modules at the top that this process has loaded, and the folders that have them."""
    found = {name: getattr(module, "__path__", None) or [getattr(module, "__file__", None)]
             for name, module in tuple(sys.modules.items()) if "." not in name}
    return {name: [str(Path(place).resolve().parent) for place in places]
            for name, places in found.items() if not is_found(name) and None not in places}


@frozen
class LoadedModules:
    """A finder of these modules by name, for after every other has failed."""

    folders: dict[str, list[str]]

    def find_spec(self, name: str, path: Sequence[str] | None = None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        """As `importlib.abc.MetaPathFinder` says."""
        return PathFinder.find_spec(name, self.folders[name]) if name in self.folders else None
