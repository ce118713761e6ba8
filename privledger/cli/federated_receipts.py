"""Files with what owners of one run signed, each with the run that it is about."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from privledger.errors import InvalidPlan
from privledger.facts.values import Json, table
from privledger.federation import Run
from privledger.reading import load_json

KIND = "privledger federation receipts 1"
_KEYS = {"kind", "run", "statements"}


def write_receipts(path: str, run: Run, statements: Sequence[Json]) -> None:
    """A new file of one run with what some or all of its owners signed."""
    value = {"kind": KIND, "run": run.agreed, "statements": list(statements)}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")


def read_all(paths: Sequence[str]) -> tuple[Run, list[Json]]:
    """The one run that all files are about, and every statement; the same one counts once.

    Raises:
        InvalidPlan: not such a file, or of different runs.
    """
    found: list[Json] = []
    runs: dict[bytes, Run] = {}
    for path in paths:
        value = load_json(path, "receipt")
        try:
            if set(value) != _KEYS or value["kind"] != KIND:
                raise ValueError
            run = Run.from_agreed(table(value["run"]))
            statements = [table(one) for one in value["statements"]]
        except Exception:
            raise InvalidPlan("receipt", Path(path).name,
                              "one of privledger federate serve or join") from None
        runs[run.digest] = run
        found += [one for one in statements if one not in found]
    if len(runs) > 1:
        raise InvalidPlan("receipts", f"{len(runs)} runs", "all of one run")
    return next(iter(runs.values())), found
