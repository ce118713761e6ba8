"""What stands behind the handles that learners hold: found by identity, inside the guard only.

A handle has no fields. Whatever walks fields, copies, pickles, weak references, closures or bound
methods finds nothing there. The two functions have private names; whoever calls them in the same
process breaks in (docs/known-limits.md), and nobody else gets at rows or at an owner's ledger.
"""

from __future__ import annotations

import weakref
from typing import Any


class _Place(weakref.ref[Any]):
    """A weak reference that knows its entry. It leads to a number, not to what is hidden."""

    __slots__ = ("number",)
    number: int


_BEHIND: dict[int, tuple[_Place, type, Any]] = {}


def _forget(place: _Place) -> None:
    held = _BEHIND.get(place.number)
    if held is not None and held[0] is place:
        del _BEHIND[place.number]


def _hide(handle: object, what: object) -> None:
    """Put `what` behind a handle, for as long as the handle lives.

    `what` must not lead back to the handle: the two would keep each other for ever.
    """
    # A function of the module, not a bound method: callbacks can be read by whoever has the handle.
    place = _Place(handle, _forget)
    place.number = id(handle)
    _BEHIND[place.number] = place, type(handle), what


def _behind(handle: object) -> Any:
    """What was put behind this very object; None for everything else.

    A handle that was given another class stands for nothing: the properties of one kind would
    be asked of what is behind another, and an `AttributeError` carries what was asked.
    """
    held = _BEHIND.get(id(handle))
    if held is None or held[0]() is not handle or type(handle) is not held[1]:
        return None
    return held[2]
