"""What every kind of question says about itself, and who carries what it says.

A kind is a frozen record, named once in `closed_set.py`. The guard makes a
copy of its own by its fields, checks it against public facts (`check`), prices it (`prepare`), and
answers it: `sketch` every chunk of rows, `merge` the sketches in any order, `finish` with noise.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import UnsupportedNode
from privledger.facts.columns import TableFacts
from privledger.mechanisms import Exponential, PermuteAndFlip, ReportNoisyMax, TopK, answering
from privledger.noise.source import NoiseSource
from privledger.rounding import down, moderate
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
    """One kind of question; docs/contributing.md shows one from outside.

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


# Exact selection: how sharply a mechanism may choose by a score of known sensitivity.


CHOOSERS = answering("choice")


class Derived:
    """A question whose bound follows from its fields, so nothing is asserted. One answer, unless
    it says otherwise."""

    __slots__ = ()
    what: str
    asserted: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """What the ledger records: `what`, as nothing is asserted."""
        return self.what

    @property
    def cell_count(self) -> int:
        """How many answers."""
        return 1


@frozen
class Bound:
    """How far a record that comes or goes moves a score.

    Attributes:
        sensitivity: the largest change, either way.
        change: smallest and largest change as a record comes, in units of the sensitivity.
    """

    sensitivity: float
    change: tuple[float, float]


class Scored(Protocol):
    """A question whose answer is a choice by a score."""

    @property
    def bound(self) -> Bound:
        """How far one neighbour moves a score, and which way."""

    def sensitivity(self, relation: str) -> float:
        """Bound on a neighbour's change of a score, with room for rounding."""

    def check_chooser(self, mechanism: Any) -> None:
        """Raise `UnsupportedNode` unless permute-and-flip, or top-k, chooses such things."""


def flips(mechanism: object) -> bool:
    """Whether a choice is drawn by permute-and-flip: what noisy max is with exponential noise."""
    return isinstance(mechanism, PermuteAndFlip) or (
        isinstance(mechanism, ReportNoisyMax) and mechanism.noise == "exponential")


def rate_of(mechanism: Any, choice: Scored, relation: str) -> float:
    """What a score is multiplied by, such that `mechanism` costs what its node says.

    Raises:
        UnsupportedNode: no exact sampler, or a score that moves further than the node says.
    """
    if type(mechanism) not in CHOOSERS:
        raise UnsupportedNode(f"{type(mechanism).__name__} is a sum's mechanism. A quantile, a cut "
                              "or a feature is selected, not summed: use Exponential, "
                              "PermuteAndFlip or ReportNoisyMax. Nothing was read")
    least, most = choice.bound.change
    sensitivity = choice.sensitivity(relation)
    epsilon = down(mechanism.epsilon)  # no more than `rounding.as_promised` of it, which is charged
    if isinstance(mechanism, Exponential):
        low, high = mechanism.score_change
        if not (low <= least and most <= high):
            raise UnsupportedNode(
                f"one record moves the score by {least:g} to {most:g} sensitivities, but the "
                f"mechanism is priced for {low:g} to {high:g}. Nothing was read")
        rate = epsilon / (2 * sensitivity)
    else:
        if isinstance(mechanism, ReportNoisyMax) and mechanism.noise == "laplace":
            raise UnsupportedNode("noisy max with Laplace noise has no exact sampler here: use "
                                  "exponential or gumbel noise. Nothing was read")
        choice.check_chooser(mechanism)
        # A common shift of all scores changes nothing: only the width of the interval counts.
        rate = epsilon / (sensitivity * (most - least))
    rate = down(down(rate))
    moderate("selection rate", rate)
    return rate


def drawn_choice(score: NDArray[np.float64], starts: NDArray[np.int64],
                 noise: Noise) -> NDArray[np.int64]:
    """One exact draw among the candidates of each group, by the release's own mechanism.

    Args:
        starts: where each group's candidates begin, and where the last ends: shape (groups + 1,).
    """
    if flips(noise.mechanism):
        return noise.source.permute_and_flip(score, starts, noise.state)
    return noise.source.choose(score, np.ones(len(score), dtype=np.int64), starts, noise.state)


def refuse_top_k(mechanism: Any) -> None:
    """Raise `UnsupportedNode` for top-k: leaves choose one by one."""
    if isinstance(mechanism, TopK):
        raise UnsupportedNode("top-k selects among the features of a table only. Nothing was read")
