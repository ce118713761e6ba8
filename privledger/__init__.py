"""privledger: a privacy-budget ledger with pluggable learners.

>>> import privledger as pl
>>> plan = pl.Repeat(pl.Gaussian(noise_multiplier=20.0), count=100)
>>> round(pl.epsilon(plan, delta=1e-6), 3)
2.254

Names are loaded when they are first used, so that tools which need few of them start fast. Which
there are, and where they come from, stands in `__init__.pyi` and nowhere else.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.2.0"

# Every line `from HOME import NAME as NAME` of the stub.
_HOME_OF = {words[3]: words[1]
            for words in map(str.split, Path(__file__).with_suffix(".pyi").read_text(
                encoding="utf-8").splitlines())
            if words[:1] == ["from"]}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        offered = import_module("privledger.plugins").offered(name)
        return offered if offered is not None else import_module("privledger.former").found(name)
    value = import_module(f"{home}.{name}") if home == __name__ else getattr(
        import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
