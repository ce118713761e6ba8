"""SciPy's special functions for a command: compiled ones at once, the rest when it is asked for.

`scipy.special` imports NumPy's Fortran and test tools before its first function can be called. That
takes longer than most commands. The functions of its compiled module are the same objects.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType

PACKAGE, COMPILED = "scipy.special", "scipy.special._ufuncs"
QUICK = frozenset({"erfcx", "erfinv", "gammaln", "log_ndtr", "ndtr", "ndtri", "ndtri_exp"})
_EXECUTING = RLock()


class _Special(ModuleType):
    """The package, which is executed at the first question for any other name."""

    def __getattr__(self, name: str) -> object:
        if name in QUICK:
            with suppress(ImportError, AttributeError):  # another SciPy has it elsewhere
                return getattr(import_module(COMPILED), name)
        with _EXECUTING:  # this thread comes here again for names that are not there yet
            loader = self.__dict__.pop("_loader", None)
            if loader is not None:
                try:
                    loader.exec_module(self)
                except BaseException:
                    self.__dict__["_loader"] = loader
                    raise
        if name in self.__dict__:
            return self.__dict__[name]
        raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")


class _Quickly(MetaPathFinder, Loader):
    _loader: Loader | None = None

    def find_spec(self, name: str, path: Sequence[str] | None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path, target) if name == PACKAGE else None
        if found is not None:
            self._loader, found.loader = found.loader, self
        return found

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__dict__["_loader"] = module.__loader__ = module.__spec__.loader = self._loader
        module.__class__ = _Special


def import_quickly() -> None:
    """From now on, in this process; what was imported already stays as it is."""
    if not any(isinstance(one, _Quickly) for one in sys.meta_path):
        sys.meta_path.insert(0, _Quickly())
