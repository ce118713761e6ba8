"""The guard: private arrays that only a session with an open grant can reach."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.data.plain import fixed
from privledger.data.table import MISSING, Columns, has_label
from privledger.errors import NotGranted


class Permission(Protocol):
    """What opens a vault: a grant that is durable and not yet settled."""

    @property
    def covers(self) -> str:
        """Identity of the data that the grant was given for."""

    @property
    def active(self) -> bool:
        """Whether the grant still stands."""

    @property
    def _guardian(self) -> object:
        """The history that gave the grant."""


@define(eq=False, repr=False)
class Rows:
    """Encoded private columns and what was derived from them. Lives inside the guard.

    Attributes:
        features: encoded features.
        target: float64 or int32, shape (n_records,), or None.
        source: the ledger's noise source, for private coins.
        cache: arrays derived per handle object (bin codes, running scores, samples).
        last: the tree whose cells were computed last, and those cells.
        parent: the table that this one is a part of, and its members' positions there.
    """

    features: Columns
    target: NDArray[Any] | None
    source: Any = None
    cache: WeakKeyDictionary[Any, Any] = field(factory=WeakKeyDictionary)
    last: tuple[object, NDArray[Any]] | None = None
    parent: tuple[Rows, NDArray[Any]] | None = None

    @property
    def n(self) -> int:
        return self.features.n_rows

    def subset(self, members: NDArray[Any]) -> Rows:
        """The records at `members` (positions, in order) as a table of their own."""
        arrays = tuple(array[members] for array in self.features.arrays)
        columns = Columns(self.features.schema, arrays, len(members))
        target = None if self.target is None else self.target[members]
        return Rows(columns, target, self.source, parent=(self, members))

    def __repr__(self) -> str:
        return "Rows(private)"


def _lasting(rows: Rows) -> Rows:
    """The same records, with features that nobody can change: learners will hold them too."""
    arrays = tuple(fixed(array) for array in rows.features.arrays)
    return Rows(Columns(rows.features.schema, arrays, rows.n), rows.target, rows.source)


def _public_side(rows: Rows) -> Rows:
    """The features, and which records have a label; of the label itself nothing."""
    blank = None if rows.target is None else np.where(has_label(rows.target), 0, MISSING)
    return Rows(rows.features, blank)


class Vault:
    """Holds the rows of one data set. No method gives them away without a permission.

    Attributes:
        relation: the neighbouring relation of the ledger that guards them.
        unlabelled: whether records may lack a label.
        public: where the owner declared the features public: everything but the labels.
    """

    def __init__(self, identity: str, rows: Rows, guardian: Any = None, *,
                 relation: str = "add_remove", public_features: bool = False,
                 unlabelled: bool = False) -> None:
        self.identity = identity
        self._guardian = guardian
        self.relation = relation
        self.unlabelled = unlabelled
        rows = _lasting(rows) if public_features else rows
        self.public = _public_side(rows) if public_features else None
        self.schema = rows.features.schema
        self.has_target = rows.target is not None
        self._n_rows = rows.n
        self.__rows = rows
        self.opened = 0
        self.reading = False
        self.lock = threading.RLock()

    @contextmanager
    def open(self, permission: Permission) -> Iterator[Rows]:
        """The rows, for the length of one release under `permission`.

        Raises:
            NotGranted: the grant is over, or was given for other data.
        """
        if not permission.active:
            raise NotGranted("the grant is over; nothing was read")
        if permission.covers != self.identity or permission._guardian is not self._guardian:
            raise NotGranted("the grant was given for other data; nothing was read")
        with self.lock:
            self.opened += 1
            self.reading = True
            try:
                yield self.__rows
            finally:
                self.reading = False

    def grown(self, features: Columns, target: NDArray[Any] | None) -> Vault:
        """A vault of the same identity with more rows after the old ones."""
        old = self.__rows
        arrays = tuple(np.concatenate([a, b])
                       for a, b in zip(old.features.arrays, features.arrays, strict=True))
        both = None
        if old.target is not None and target is not None:
            both = np.concatenate([old.target, target])
        columns = Columns(old.features.schema, arrays, old.n + features.n_rows)
        return Vault(self.identity, Rows(columns, both, old.source), self._guardian,
                     relation=self.relation, public_features=self.public is not None,
                     unlabelled=self.unlabelled)

    def __repr__(self) -> str:
        return "Vault(private)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("guarded data cannot be pickled; protect it again in the other process")

    def __copy__(self) -> Vault:
        return self

    def __deepcopy__(self, memo: object) -> Vault:
        return self
