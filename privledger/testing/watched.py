"""A small table behind a guard that notices every reading outside a release."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.data import (
    Column,
    Columns,
    Dataset,
    Rows,
    Schema,
    Vault,
    encode_features,
    encode_target,
)
from privledger.session import Ledger

Table = tuple[dict[str, NDArray[Any]], NDArray[Any]]


def example_schema(task: str) -> Schema:
    """Two numbers and a category, one of them with missing cells; a number or two classes."""
    target = (Column("target", "numeric", "target", 0.0, 10.0) if task == "regression"
              else Column("target", "categorical", "target", categories=("no", "yes")))
    return Schema("example", (
        Column("size", "numeric", "feature", 0.0, 1.0),
        Column("weight", "numeric", "feature", -5.0, 5.0, missing=True),
        Column("colour", "categorical", "feature", categories=("red", "green", "blue")),
        target,
    ))


def example_table(task: str, rows: int = 240) -> Table:
    """Features and target made by arithmetic, so that every run sees the same table."""
    place = np.arange(rows)
    size = (place * 0.61803398875) % 1.0
    weight = ((place * 0.41421356237) % 1.0) * 10 - 5
    weight[place % 17 == 0] = np.nan
    colour = np.array(["red", "green", "blue"])[place % 3]
    value = 10 * size * (0.5 + 0.5 * (colour == "red"))
    y: NDArray[Any] = value if task == "regression" else np.where(value > 4, "yes", "no")
    return {"size": size, "weight": weight, "colour": colour}, y


@define(eq=False, repr=False, slots=False)
class WatchedRows(Rows):
    """Rows that remember whether they were read while no release was running."""

    watch: WatchedTable | None = field(default=None, kw_only=True)

    def __getattribute__(self, name: str) -> Any:
        if name in ("features", "target", "cache"):
            watch = object.__getattribute__(self, "__dict__").get("watch")
            if watch is not None and not watch.reading():
                watch.early += 1
        return object.__getattribute__(self, name)


@define(eq=False)
class WatchedTable:
    """A guarded example table that counts readings outside a release.

    Attributes:
        data: the handle to give to a learner.
        early: readings while no release was running.
    """

    ledger: Ledger
    data: Dataset
    vault: Vault
    early: int = 0

    @classmethod
    def build(cls, ledger: Ledger, task: str, table: Table | None = None, *,
              unlabelled: bool = False) -> WatchedTable:
        """`unlabelled` takes every third label away."""
        schema = example_schema(task)
        X, y = example_table(task) if table is None else table
        if unlabelled:
            y = y.astype(object)
            y[::3] = None
        columns: Columns = encode_features(X, schema)
        target = encode_target(y, schema, unlabelled=unlabelled)
        rows = WatchedRows(columns, target, ledger._source)
        vault = Vault("example", rows, ledger._history, relation=ledger.relation,
                      public_features=ledger.relation == "replace_label",
                      unlabelled=unlabelled)
        watched = cls(ledger, Dataset(schema, vault, ledger=ledger), vault)
        rows.watch = watched
        return watched

    def reading(self) -> bool:
        """Whether a release is running right now."""
        return self.vault.reading
