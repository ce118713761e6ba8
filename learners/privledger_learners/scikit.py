"""scikit-learn's base classes, without scikit-learn until something imports it.

A learner says its parameters, its plan and its price without scikit-learn, whose import takes
longer than pricing. Until `sklearn.base` is imported, by anything, stand-ins are in the places of
its classes. As soon as it is, the real classes take these places: code that can name
`BaseEstimator` finds that every learner is one, with all that comes from it.

The stand-ins import scikit-learn themselves for whatever only the real classes can answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.base import ClassifierMixin as ClassifierMixin
    from sklearn.base import ClassNamePrefixFeaturesOutMixin as ClassNamePrefixFeaturesOutMixin
    from sklearn.base import RegressorMixin as RegressorMixin
    from sklearn.base import TransformerMixin as TransformerMixin
    from sklearn.feature_selection import SelectorMixin as SelectorMixin


def _asked_anew(self: object, name: str) -> object:
    """Where a class of scikit-learn may have it: asked again of the real ones."""
    _fetch(type(self))
    return getattr(self, name)


def _anew(name: str) -> Callable[..., object]:
    """A method that starts again where the real classes are."""
    def method(self: object, *args: object, **named: object) -> object:
        _fetch(type(self))
        return getattr(self, name)(*args, **named)

    return method


_BASE, _SELECTION = "sklearn.base", "sklearn.feature_selection._base"
# `object` has the first three; the others are asked of `super()`, where no `__getattr__` is heard.
_ASKED = {name: _anew(name) for name in (
    "__repr__", "__dir__", "__getstate__", "__sklearn_clone__", "__sklearn_tags__", "score")}
# No two have a base of their own in common: bases change one by one, and must agree in between.
_BASES = {name: type(name, (), {}) for name in (
    "ClassifierMixin", "RegressorMixin", "TransformerMixin", "ClassNamePrefixFeaturesOutMixin")}
_BASES["BaseEstimator"] = type("BaseEstimator", (), {"__getattr__": _asked_anew, **_ASKED})
_SELECTOR = type("SelectorMixin", (_BASES["TransformerMixin"],), {"__getattr__": _asked_anew})
_STAND_INS = {_BASE: _BASES, _SELECTION: {"SelectorMixin": _SELECTOR}}


def __getattr__(name: str) -> object:
    for home, held in _STAND_INS.items():
        if name in held:
            return getattr(import_module(home), name) if _BASE in sys.modules else held[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _fetch(kind: type) -> None:
    """Import what the stand-ins among the bases of a class stand for."""
    for home, held in _STAND_INS.items():
        if issubclass(kind, tuple(held.values())):
            module = import_module(home)
            if issubclass(kind, tuple(held.values())):  # made while another thread imported
                _arrived(module)


def _arrived(module: ModuleType) -> None:
    """Put a module's classes in the places of their stand-ins."""
    real = {stand_in: getattr(module, name)
            for name, stand_in in _STAND_INS[module.__name__].items()}
    changed = [kind for stand_in in real for kind in _subclasses(stand_in)]
    for kind in changed:
        kind.__bases__ = tuple(real.get(base, base) for base in kind.__bases__)
    # What scikit-learn does to a class as it is made: uppermost classes first, each once.
    for kind in sorted({below for kind in changed for below in _below(kind)},
                       key=lambda kind: len(kind.__mro__)):
        super(kind, kind).__init_subclass__()  # type: ignore[arg-type]


def _subclasses(kind: type) -> list[type]:
    return kind.__subclasses__()


def _below(kind: type) -> Iterator[type]:
    yield kind
    for one in _subclasses(kind):
        yield from _below(one)


class _Arrivals(MetaPathFinder):
    """Notes when one of the modules has been imported; it finds nothing of its own."""

    def find_spec(self, fullname: str, path: Sequence[str] | None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        """What the others find, so that the classes change places once it has run."""
        if fullname not in _STAND_INS:
            return None
        specs = (finder.find_spec(fullname, path, target)
                 for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def executed(module: ModuleType) -> None:
                execute(module)
                if module.__name__ == fullname:
                    _arrived(module)

            spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


if _BASE in sys.modules:
    import_module(_BASE)  # waits where another thread is at it
else:
    sys.meta_path.insert(0, _Arrivals())


def check_is_fitted(learner: object, attribute: str) -> None:
    """Raise scikit-learn's `NotFittedError` unless the learner has this attribute."""
    from sklearn.utils.validation import check_is_fitted as check

    check(learner, attribute)
