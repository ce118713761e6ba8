"""What every kind of question says about itself, and who carries what it says.

A kind is a frozen record in a file of its own, named once in `closed_set.py`. The guard makes a
copy of its own (`own`), checks it against public facts (`check`), prices it (`prepare`), and
answers it: `sketch` every chunk of rows, `merge` the sketches in any order, `finish` with noise.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

from attrs import frozen

from privledger.facts.columns import Copier, Describer, Reader, TableFacts
from privledger.facts.values import Json
from privledger.noise.source import NoiseSource
from privledger.tables.chunk import Rows


@frozen
class Noise:
    """What `finish` draws with.

    Attributes:
        mechanism: the release's own mechanism, as the plan reserved it.
        state: what `prepare` gave: grids and scales, or a selection rate. Public.
        source: the ledger's source of exact noise.
        one: steps that whoever is protected weighs in a sketch: 1 under unit row.
    """

    mechanism: Any
    state: Any
    source: NoiseSource
    one: int = 1


class Question(Protocol):
    """One kind of question; docs/extending.md shows one from outside.

    Attributes:
        data: a `Derivation`: which records it is asked of.
        what: a few public words for the ledger.
        label: what the ledger records: `what`, marked if something is asserted.
        asserted: whether somebody merely vouches for part of the sensitivity.
        cell_count: how many answers the release gives.
        by_person: present and true where the bound also holds for everything of one person, each
            row of mass `Rows.mass`. A kind without it is refused under unit person.
    """

    @property
    def data(self) -> Any:
        """The derivation it is asked of: which records."""
    @property
    def what(self) -> str:
        """A few public words for the ledger."""
    @property
    def label(self) -> str:
        """What the ledger records: `what`, marked if something is asserted."""
    @property
    def asserted(self) -> bool:
        """Whether part of the sensitivity rests on unverified claims."""
    @property
    def cell_count(self) -> int:
        """How many answers the release gives."""

    def own(self, to: Copier) -> Self:
        """The guard's copy. Every nested object is copied by `to`, by exact type."""

    def check(self, facts: TableFacts) -> None:
        """Refuse by name what cannot be asked of this table. Decided by public facts alone."""

    def prepare(self, mechanism: Any, relation: str) -> Any:
        """The state of one release, from the derived sensitivity: refuses a mechanism that
        promises less noise than its node is priced at."""

    def sketch(self, chunk: Rows, state: Any) -> Any:
        """Inside the guard: whole numbers of one chunk, exact, and nothing else."""

    def merge(self, a: Any, b: Any) -> Any:
        """Two chunks' sketches as one. The order never matters."""

    def finish(self, merged: Any, noise: Noise) -> Any:
        """The only place where noise meets an answer: what is released."""

    def to_wire(self, to: Describer) -> Json:
        """Plain values that say everything but the handle."""

    @classmethod
    def from_wire(cls, wire: Json, reader: Reader) -> Self:
        """The inverse, by the package's own constructor, on a handle of this side."""
