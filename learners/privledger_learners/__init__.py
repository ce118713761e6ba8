"""Learners that use privledger's public API only, exactly as a stranger's plugin would.

Names are loaded when they are first used: a process that fits one learner, confined or not, does
not read the others. Which there are stands in `__init__.pyi` and nowhere else.
"""

from importlib import import_module
from pathlib import Path

# Every line `from HOME import NAME as NAME` of the stub.
_HOME_OF = {words[3]: words[1]
            for words in map(str.split, Path(__file__).with_suffix(".pyi").read_text(
                encoding="utf-8").splitlines())
            if words[:1] == ["from"]}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__]
