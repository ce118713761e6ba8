"""Run files: one TOML file says what to train, on what, and how much it may cost."""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from privledger.accounting import check_relation, check_unit
from privledger.broker.allowance import DEFAULTS, Limits
from privledger.engines.engine_choice import KEYS, EngineChoice
from privledger.errors import InvalidPlan
from privledger.guard.reserve import patience
from privledger.ledger import Budget, plain_labels
from privledger.ledger.filters import KINDS
from privledger.plugins import Holdout
from privledger.reading import load_toml, path_in
from privledger.rounding import positive, probability
from privledger.storage import is_url, shown
from privledger.tables.listing import members
from privledger.tables.schema import Schema

ENVIRONMENT = "PRIVLEDGER_DATA"
FILTERS = ("auto", *KINDS)
_KEYS = {
    "run": ("learner",),
    "params": None,  # the learner's own names; it refuses what it does not know
    "data": ("schema", "table", "name"),
    "budget": ("epsilon", "delta", "failure"),
    "ledger": ("path", "relation", "filter", "unit", "people_key", "wait"),
    "labels": None,  # the owner's own; caps match them
    "isolation": None,  # limits of the learner's process; `Limits` knows their names
    "engine": KEYS,
    "evaluate": ("test", "holdout", "public", "epsilon"),
}
_ELSEWHERE = {"schema": "[data]", "relation": "[ledger]"}
_SEEDS = ("seed", "random_state", "random_seed", "rng")


@frozen
class Evaluation:
    """What a model is scored on: rows that are public, so that a score on them costs nothing (a
    file, or a part split off); or private ones that a coin holds out, for a score that is paid."""

    test: str | None = None
    holdout: float | None = None
    score: Holdout | None = None


@frozen
class RunFile:
    """A checked run file.

    Attributes:
        path: where it was read from.
        learner: an installed learner's name.
        params: its constructor parameters; `epsilon` and `delta` default to the budget's.
        schema, table: file names, relative to the data folder; the table may be a folder, or a
            pattern such as `folder/*.parquet`.
        data_name: a stable identity of the rows, or None.
        budget: of the ledger, if it has to be created.
        ledger: file name, relative to the run file; or the URL of a ledger in a database.
        relation, filter: of the ledger, if it has to be created.
        unit: whom its promise is about; None for what the schema says, else the row.
        people_key: the key file of its people, relative to the run file.
        evaluate: what to score on, or None.
        labels: what the run's grants carry, so that caps match them. The learner has no say.
        limits: what the learner's process may use up, where it is isolated.
        engine: who answers chunks of the table; None for this process, from memory.
        wait: seconds that each of its grants waits for budget, in line; at most an hour.
        without_delta: the file gives none, so that it is 0: the author may not have meant that.
    """

    path: Path
    learner: str
    schema: str
    table: str
    budget: Budget
    ledger: str = field(repr=shown)
    params: dict[str, Any] = field(factory=dict)
    data_name: str | None = None
    relation: str = "add_remove"
    filter: str = "auto"
    evaluate: Evaluation | None = None
    labels: dict[str, str] = field(factory=dict)
    limits: Limits = DEFAULTS
    unit: str | None = None
    people_key: str | None = None
    engine: EngineChoice | None = None
    wait: float = 0.0
    without_delta: bool = False

    @property
    def score(self) -> Holdout | None:
        """What is held out for a private score; None without one."""
        return None if self.evaluate is None else self.evaluate.score

    @property
    def data(self) -> str:
        """The name that the ledger knows the rows by: one for one table and one way of splitting
        it, so that runs add up per record."""
        held = self.evaluate.holdout if self.evaluate is not None else None
        return self.data_name or (f"{self.table}, holdout {held:g}" if held else self.table)

    @staticmethod
    def load(path: str | Path) -> RunFile:
        """Read a run file.

        Raises:
            InvalidPlan: not TOML, an unknown key, or something missing; the key is named.
            InvalidValue: a number that can never be right.
        """
        place = Path(path)
        return RunFile.from_dict(load_toml(place, "run file"), place)

    @staticmethod
    def from_dict(value: dict[str, Any], path: Path) -> RunFile:
        """The run in a parsed TOML document."""
        tables = {name: _table(value, name) for name in _KEYS}
        for name in value:
            if name not in _KEYS:
                raise InvalidPlan("run file table", shown(name), f"one of {', '.join(_KEYS)}")
        data, ledger = tables["data"], tables["ledger"]
        budget = _budget(tables["budget"])
        chosen = ledger.get("filter", "auto")
        if chosen not in FILTERS:
            raise InvalidPlan("ledger filter", chosen, f"one of {', '.join(FILTERS)}")
        if chosen == "basic" and budget.failure:
            raise InvalidPlan("[budget] failure", budget.failure, "left out with filter = "
                              '"basic", under which all of delta adds up')
        return RunFile(
            path=path, learner=_text(tables["run"], "run", "learner"),
            params=_params(tables["params"], budget), schema=_path(data, "data", "schema"),
            table=_path(data, "data", "table"),
            data_name=_text(data, "data", "name") if "name" in data else None, budget=budget,
            ledger=_path(ledger, "ledger", "path", f"{path.stem}.ledger"),
            relation=check_relation(ledger.get("relation", "add_remove")), filter=chosen,
            evaluate=_evaluation(tables["evaluate"]) if "evaluate" in value else None,
            labels=dict(plain_labels(tables["labels"])), limits=Limits.of(tables["isolation"]),
            unit=check_unit(ledger["unit"]) if "unit" in ledger else None,
            people_key=_path(ledger, "ledger", "people_key") if "people_key" in ledger else None,
            engine=(EngineChoice.of(tables["engine"], path.parent) if "engine" in value else None),
            wait=patience(ledger.get("wait", 0.0)), without_delta="delta" not in tables["budget"],
        )

    @property
    def key_path(self) -> Path | None:
        """The key file of the ledger's people; None if none is named."""
        return None if self.people_key is None else self.path.parent / self.people_key

    def unit_for(self, schema: Schema) -> str:
        """Whom the promise is about.

        Raises:
            SchemaError: the schema's table is not for a ledger of that unit.
            InvalidPlan: a ledger of people without their key, or a key without people.
        """
        unit = self.unit or schema.unit or "row"
        schema.check_unit(unit, self.relation)
        if (unit == "person") != (self.people_key is not None):
            raise InvalidPlan("[ledger] people_key", self.people_key,
                              "named for a ledger with unit person, and for no other")
        return unit

    def data_path(self, name: str, data_dir: str | Path | None = None, *,
                  must_exist: bool = True, several: bool = False) -> Path:
        """Where a data file is: below `data_dir`, else $PRIVLEDGER_DATA, else beside the run.

        Args:
            several: it may be a folder of files, or a pattern such as `folder/*.parquet`.
        """
        base = data_dir or os.environ.get(ENVIRONMENT) or self.path.parent
        found = Path(base) / name
        if several and not found.exists() and glob.has_magic(name):
            found = Path(glob.escape(str(base))) / name
        there = found.is_file() or (several and bool(members(found)) and (
            found.is_dir() or glob.has_magic(name)))
        if must_exist and not there:
            where = (f"the folder {base}" if data_dir or os.environ.get(ENVIRONMENT)
                     else "the run file's folder")
            raise InvalidPlan("data file", name, f"a file in {where}",
                              f"{name}: no such file in {where}. To name another folder, use "
                              f"--data-dir or {ENVIRONMENT}")
        return found

    def ledger_path(self, chosen: str | Path | None = None) -> Path | str:
        """The ledger: `chosen`, else the file's own, beside the run file. Or a URL, as a text.

        Beside the run file and not in the working directory, so that the same run always meets
        the same budget. A URL may hold a password: print `storage.shown` of it, never itself.
        """
        if is_url(chosen or self.ledger):
            return str(chosen or self.ledger)
        return Path(chosen) if chosen else self.path.parent / self.ledger


def _table(value: dict[str, Any], name: str) -> dict[str, Any]:
    table = value.get(name, {})
    if name == "ledger" and isinstance(table, str):
        table = {"path": table}
    if not isinstance(table, dict):
        raise InvalidPlan(name, table, f"a table, [{name}]")
    known = _KEYS[name]
    for key in table:
        if known is not None and key not in known:
            raise InvalidPlan(f"[{name}] key", shown(key), f"one of {', '.join(known)}")
    return table


def _text(table: Mapping[str, object], name: str, key: str, default: str | None = None) -> str:
    found = table.get(key, default)
    if not isinstance(found, str) or not found:
        raise InvalidPlan(f"[{name}] {key}", found, "given as a text")
    return found


def _path(table: Mapping[str, object], name: str, key: str, default: str | None = None) -> str:
    found = _text(table, name, key, default)
    return found if is_url(found) else path_in(f"[{name}] {key}", found)


def _budget(table: dict[str, Any]) -> Budget:
    if "epsilon" not in table:
        raise InvalidPlan("[budget]", "a table without it", "given epsilon")
    epsilon = positive("budget epsilon", table["epsilon"])
    return Budget(epsilon, probability("budget delta", table.get("delta", 0.0), zero=True),
                  probability("budget failure", table.get("failure", 0.0), zero=True))


def _params(table: dict[str, Any], budget: Budget) -> dict[str, Any]:
    params = {"epsilon": budget.epsilon, "delta": budget.delta} | table
    for key, item in params.items():
        if key in _SEEDS:
            raise InvalidPlan("[params] key", key,
                              "left out: noise that protects people has no seed")
        if key in _ELSEWHERE:
            raise InvalidPlan("[params] key", key, f"given under {_ELSEWHERE[key]}")
        if isinstance(item, float) and not math.isfinite(item):
            raise InvalidPlan(f"[params] {key}", item, "a finite number")
    params["epsilon"] = positive("[params] epsilon", params["epsilon"])
    params["delta"] = probability("[params] delta", params["delta"], zero=True)
    return params


def _evaluation(table: dict[str, Any]) -> Evaluation:
    if "epsilon" in table:
        if set(table) != {"holdout", "epsilon"}:
            raise InvalidPlan("[evaluate] epsilon", table["epsilon"], "given with holdout alone: "
                              "it pays for a score on private rows that are held out")
        return Evaluation(score=Holdout(probability("[evaluate] holdout", table["holdout"]),
                                        positive("[evaluate] epsilon", table["epsilon"])))
    if table.get("public") is not True:
        raise InvalidPlan(
            "[evaluate] public", table.get("public"),
            "true, and the test rows public: a score on private rows is a release of them, which "
            "holdout and epsilon pay for",
        )
    if ("test" in table) == ("holdout" in table):
        raise InvalidPlan("[evaluate]", "another choice", "given either test or holdout")
    if "test" in table:
        return Evaluation(test=_path(table, "evaluate", "test"))
    return Evaluation(holdout=probability("[evaluate] holdout", table["holdout"]))
