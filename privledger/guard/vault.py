"""The guard: private arrays that only a session with an open grant can reach.

What stands behind the handles that learners hold is found by identity, here only. A handle has no
fields: whatever walks fields, copies, pickles, weak references, closures or bound methods finds
nothing there. `_hide` and `_behind` have private names; code that calls them in the same process
breaks in (docs/known-limits.md), and no other code gets at rows or at an owner's ledger.
"""

from __future__ import annotations

import os
import secrets
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privledger.engines.driver import ChunkTable
from privledger.errors import NotGranted
from privledger.guard.enrolling import EnrolmentState
from privledger.mutex import Mutex, Uncopied, deliver
from privledger.questions.asking import Held, Task
from privledger.tables.chunk import Rows
from privledger.tables.columns import MISSING, Columns, TableFacts, has_label
from privledger.tables.values import fixed


class _Place(weakref.ref[Any]):
    """A weak reference that knows its entry. It leads to a number, not to what is hidden."""

    __slots__ = ("number",)
    number: int


_BEHIND: dict[int, tuple[_Place, type, Any]] = {}


def _forget(place: _Place) -> None:
    # As `delivered`, without a line of it: handles go at any time, and so often that it costs.
    try:
        held = _BEHIND.get(place.number)
        if held is not None and held[0] is place:
            del _BEHIND[place.number]
    except KeyboardInterrupt:
        deliver()


def _hide(handle: object, what: object) -> None:
    """Put `what` behind a handle, for as long as the handle lives.

    `what` must not lead back to the handle: the two would keep each other for ever.
    """
    # A function of the module, not a bound method: callbacks can be read by a holder of the handle.
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


class Pass:
    """What opens one vault: a grant that is durable and not yet settled. Never leaves the guard.

    Attributes:
        over: set when the grant is settled.
        touched: whether rows were shown under the grant; set by the vault itself.
    """

    __slots__ = ("_guardian", "_identity", "_pid", "over", "touched")

    def __init__(self, identity: str, guardian: object) -> None:
        self._identity, self._guardian, self._pid = identity, guardian, os.getpid()
        self.over = self.touched = False

    @property
    def at_home(self) -> bool:
        """Whether this is the process that the grant was given to."""
        return self._pid == os.getpid()

    @property
    def active(self) -> bool:
        """Whether the grant still stands: not settled, and not in a forked child."""
        return not self.over and self.at_home


def _lasting(rows: Rows) -> Rows:
    """The same records, with features that cannot change: learners will hold them too."""
    arrays = tuple(fixed(array) for array in rows.features.arrays)
    return Rows(Columns(rows.features.schema, arrays, rows.n), rows.target, rows.source,
                people=rows.people)


def _public_side(rows: Rows) -> Rows:
    """The features, whose they are, and which records have a label; of the label nothing."""
    blank = None if rows.target is None else np.where(has_label(rows.target), 0, MISSING)
    return Rows(rows.features, blank, people=rows.people)


def _in_chunks(table: ChunkTable, relation: str, public_features: bool,
               unlabelled: bool) -> TableFacts:
    layout = table.ingested.layout
    return TableFacts(layout.schema, relation, layout.has_target, unlabelled, public_features,
                      n_rows=table.n if relation != "add_remove" else None, chunked=True)


def facts_of(rows: Rows, relation: str, public_features: bool, unlabelled: bool) -> TableFacts:
    """What is public about rows under `relation`. Under unit person the number of people is what
    the number of rows is elsewhere; rows are counted only where everything but labels is public."""
    known, by_person = relation != "add_remove", rows.people is not None
    most = None
    if rows.people is not None and public_features:
        most = int(np.bincount(rows.people).max(initial=0))
    return TableFacts(
        rows.features.schema, relation, rows.target is not None, unlabelled, public_features,
        n_rows=rows.n if known and (public_features or not by_person) else None,
        unit="person" if by_person else "row",
        n_people=rows.n_people if known else None, most_rows=most)


class Vault(Uncopied):
    """Holds the rows of one data set. No method gives them away without a permission.

    Attributes:
        relation: the neighbouring relation of the ledger that guards them.
        unlabelled: whether records may lack a label.
        facts: what is public about the rows; questions are checked against it.
        version: tells these rows from all others, by public means; see `guard.recalled`.
        sealing: key that tells kept answers about these rows from made-up ones.
        standing: where its people stand in the ledger's roster; None under unit row.
        public: where the owner declared the features public: everything but the labels.
    """

    def __init__(self, identity: str, rows: Rows | ChunkTable, guardian: Any = None, *,
                 relation: str = "add_remove", public_features: bool = False,
                 unlabelled: bool = False) -> None:
        self.identity = identity
        self._guardian = guardian
        self.relation = relation
        self.unlabelled = unlabelled
        self.version = f"here:{secrets.token_hex(16)}"  # of this object: it ends with the process
        self.sealing = secrets.token_bytes(32)  # ends with this object too, unless a key was given
        self.standing: EnrolmentState | None = None
        if isinstance(rows, ChunkTable):
            self.facts = _in_chunks(rows, relation, public_features, unlabelled)
            self.public = _public_side(_lasting(rows.loaded())) if public_features else None
        else:
            rows = _lasting(rows) if public_features else rows
            self.facts = facts_of(rows, relation, public_features, unlabelled)
            self.public = _public_side(rows) if public_features else None
        self.schema = self.facts.schema
        if isinstance(rows, ChunkTable) or rows.people is None:
            self.schema.check_size(rows.n)
        else:
            self.schema.check_size(int(rows.n_people or 0))
        self._n_rows = rows.n
        self.__rows = rows
        self.opened = 0
        self.reading = False
        self.lock = Mutex()
        self.copies: dict[int, tuple[Any, Any]] = {}  # of what strangers described: trusted_copy.py
        self.blocks: dict[tuple[object, ...], object] = {}  # by all that they say: trusted_copy.py

    def check(self, task: Task) -> None:
        """Refuse what cannot be asked where the rows are; nothing is read.

        Raises:
            UnsupportedNode: a function that another process cannot load.
        """
        if isinstance(self.__rows, ChunkTable):
            self.__rows.check(task)

    def forget(self, session: str) -> None:
        """Drop what chunks keep for a session that is over."""
        if isinstance(self.__rows, ChunkTable):
            self.__rows.forget(session)

    def discard(self) -> None:
        """Remove the copy of the rows on disk, if there is one that was not to be kept."""
        if isinstance(self.__rows, ChunkTable):
            self.__rows.close()

    @contextmanager
    def open(self, leave: Pass) -> Iterator[Held]:
        """The rows, for the length of one release under a grant, which is touched from here on.

        Raises:
            NotGranted: the grant is over, or was given for other data.
        """
        if type(leave) is not Pass or not leave.active:
            raise NotGranted("the grant is settled. Nothing was read")
        if leave._identity != self.identity or leave._guardian is not self._guardian:
            raise NotGranted("the grant covers other data. Nothing was read")
        with self.lock:
            leave.touched = True  # first: whatever happens now, nothing is handed back
            self.opened += 1
            self.reading = True
            try:
                yield self.__rows
            finally:
                self.reading = False

    def grown(self, features: Columns, target: NDArray[Any] | None,
              people: NDArray[np.int32] | None = None) -> Vault:
        """A vault of the same identity with more rows after the old ones.

        Args:
            people: as `Rows.people`, of all rows; given exactly where the unit is a person. What
                rows weigh is found anew, since a person may have more of them now.
        """
        old = self.__rows
        if isinstance(old, ChunkTable):
            raise NotGranted("rows "
                             "in memory cannot be added to a table in chunks. Nothing was read")
        if (people is None) != (old.people is None):
            raise NotGranted("rows without a person cannot be added to a table of people. Nothing "
                             "was read")
        arrays = tuple(np.concatenate([a, b])
                       for a, b in zip(old.features.arrays, features.arrays, strict=True))
        both = None
        if old.target is not None and target is not None:
            both = np.concatenate([old.target, target])
        columns = Columns(old.features.schema, arrays, old.n + features.n_rows, {
            name: key.plus(features.keys[name]) for name, key in old.features.keys.items()})
        rows = Rows(columns, both, old.source, people=people)
        return self.with_rows(rows)

    def with_chunks(self, more: Callable[[ChunkTable], ChunkTable]) -> Vault:
        """A vault of the same identity with more chunks after the old ones.

        Raises:
            NotGranted: its rows are in memory.
        """
        old = self.__rows
        if not isinstance(old, ChunkTable):
            raise NotGranted("chunks cannot be added to a table in memory: append rows. Nothing "
                             "was read")
        return self.with_rows(more(old))

    def with_rows(self, rows: Rows | ChunkTable) -> Vault:
        """A vault of the same identity and other rows."""
        return Vault(self.identity, rows, self._guardian,
                     relation=self.relation, public_features=self.public is not None,
                     unlabelled=self.unlabelled)

    def __repr__(self) -> str:
        return "Vault(private)"


class Seal(Uncopied):
    """Stands for guarded rows in every handle. It has no fields, and no way to the rows."""

    __slots__ = ("__weakref__",)

    @property
    def identity(self) -> str:
        """The name under which the ledger knows the records."""
        return str(_vault_of(self).identity)

    @property
    def unlabelled(self) -> bool:
        """Whether the owner said that records may lack a label."""
        return bool(_vault_of(self).unlabelled)

    @property
    def opened(self) -> int:
        """How many releases have looked at the records, of every grant together."""
        return int(_vault_of(self).opened)

    @property
    def reading(self) -> bool:
        """Whether a release looks at the records now, in any thread."""
        return bool(_vault_of(self).reading)

    def __repr__(self) -> str:
        return "Seal(private)"


def _sealed(vault: Any) -> Seal:
    """A seal on a vault, or on what stands for one in another process."""
    seal = Seal()
    _hide(seal, vault)
    return seal


def _vault_of(seal: object) -> Any:
    """The vault behind a seal.

    Raises:
        NotGranted: this is no seal, or one that was put on nothing.
    """
    vault = _behind(seal) if type(seal) is Seal else None
    if vault is None:
        raise NotGranted("this handle has no guarded records. Nothing was read")
    return vault
