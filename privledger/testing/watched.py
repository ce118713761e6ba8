"""A small table behind a guard that notices every reading outside a release."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from privledger.facts.columns import Columns
from privledger.facts.schema import Schema
from privledger.guard import Ledger
from privledger.guard.dataset import Dataset
from privledger.guard.mirror import own_schema, remember
from privledger.guard.vault import Vault, _sealed
from privledger.tables.chunk import Rows
from privledger.tables.encode import encode_features, encode_target
from privledger.testing.examples import Table, example_schema, example_table


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
    def build(cls, ledger: Ledger, task: str, table: Table | None = None,
              schema: Schema | None = None, *, unlabelled: bool = False) -> WatchedTable:
        """Guard `table`, the example's own if it is None."""
        schema = example_schema(task) if schema is None else schema
        X, y = example_table(task) if table is None else table
        own = own_schema(schema)
        columns: Columns = encode_features(X, own)
        rows = WatchedRows(columns, encode_target(y, own, unlabelled=unlabelled),
                           ledger._source)
        vault = Vault("example", rows, ledger._history, relation=ledger.relation,
                      public_features=ledger.relation == "replace_label",
                      unlabelled=unlabelled)
        remember(vault, schema)
        watched = cls(ledger, Dataset(schema, _sealed(vault), ledger=ledger.handle), vault)
        rows.watch = watched
        return watched

    def reading(self) -> bool:
        """Whether a release is running right now."""
        return self.vault.reading
