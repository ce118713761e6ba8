"""What every handle of a learner is like: no fields, no copies, and no frames in its errors."""

from __future__ import annotations

from typing import Any

from privledger.mutex import Uncopied

_TRACE: Any = vars(BaseException)["__traceback__"]
_BEHIND_IT: Any = [vars(BaseException)[name] for name in ("__context__", "__cause__")]


def bare(error: BaseException) -> BaseException:
    """The same error without the frames that it and the errors behind it went through."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            _TRACE.__set__(one, None)  # a stranger's class may have a property of this name
            if isinstance(one, AttributeError):
                vars(AttributeError)["obj"].__set__(one, None)  # who lacked the attribute
            waiting += [place.__get__(one) for place in _BEHIND_IT]
    return error


class Opaque(Uncopied):
    """Nor any field."""

    __slots__ = ("__weakref__",)
    _UNPICKLED = "a {} cannot be pickled, or go to another process"
