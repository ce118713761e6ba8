"""Groups that are not known before: which names of a column of texts have enough people.

docs/proofs/partition-selection.md has the price; docs/groups.md shows the use.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from statistics import NormalDist

import numpy as np
from attrs import frozen

import privledger as pl

SHARES = (0.3, 0.6, 0.9, 0.97, 0.99, 0.999)
"""Of delta, that all groups of one person alone show. The noise's own delta is in another case, so
that it is not added."""


@frozen(eq=False)
class SelectedGroups:
    """Released names, and about how many people each has. Free to use from then on.

    Attributes:
        names: sorted. counts: noisy, at least the threshold: larger than true ones on average,
            where these are near to it. Shape (groups,).
        node: what was paid for; its `threshold` is the size at which half of the groups show.
        noise_sd: standard deviation of the noise on each count.
        receipt: the ledger's head afterwards.
    """

    names: tuple[str, ...]
    counts: np.ndarray
    node: pl.nodes.PartitionSelection
    noise_sd: float
    receipt: pl.Receipt | None = None

    def column(self, name: str) -> pl.Column:
        """A categorical column with these names as its public categories; others are missing."""
        return pl.Column(name, "categorical", categories=self.names, missing=True,
                         provenance="released")

    def within(self, values: Iterable[object]) -> list[object]:
        """An owner's own cells for that column: None in place of every name that is not here."""
        known = set(self.names)
        return [value if value in known else None for value in values]

    def __len__(self) -> int:
        return len(self.names)


def group_node(epsilon: float, delta: float,
               groups_per_person: int = 1) -> pl.nodes.PartitionSelection:
    """The mechanism of this price that names groups from the smallest size on.

    Args:
        epsilon: nats. delta: above zero: without it no name can be released.
        groups_per_person: groups that one person speaks for, at most; public.

    Raises:
        InvalidValue: a budget that can never be right.
    """
    pl.Budget(epsilon, delta)
    if not delta > 0:
        raise pl.InvalidValue("delta", delta, "above 0: a name that only one person has may show")
    pl.nodes.PartitionSelection(2.0, 1.0, groups_per_person)  # says what is wrong with their number
    k = groups_per_person
    each = -math.expm1(math.log1p(-delta * (1 - 1e-9)) / k)
    scale = k / epsilon * (1 + 1e-12)
    found = [pl.nodes.PartitionSelection(1 + scale * max(math.log(0.5 / each), 1e-6), scale, k)]
    with suppress(pl.InvalidValue):  # what geometric noise cannot be drawn for has the others
        far = math.log(math.tanh(0.5 / scale) / each)
        found = [pl.nodes.PartitionSelection(1 + scale * far, scale, k, "geometric")]
    if k > 1:
        found += [_gaussian(epsilon, delta, k, share) for share in SHARES]
    return min(found, key=lambda node: node.threshold)


def _gaussian(epsilon: float, delta: float, k: int, share: float) -> pl.nodes.PartitionSelection:
    """The least noise where a person's own groups show with this share of delta."""
    each = -math.expm1(math.log1p(-delta * share * (1 - 1e-9)) / k)
    far = max(-NormalDist().inv_cdf(each), 1e-6)

    def node(scale: float) -> pl.nodes.PartitionSelection:
        return pl.nodes.PartitionSelection(1 + scale * far, scale, k, "gaussian")

    scale: float = pl.calibrate(node, epsilon, delta)
    return node(scale)


def select_groups(data: pl.Dataset, name: str, *, epsilon: float, delta: float,
                  groups_per_person: int = 1) -> SelectedGroups:
    """The groups of a column of kind `text` that have enough people, under one grant.

    Args:
        data: a guarded table. name: of the column.
        epsilon, delta: what it may cost. groups_per_person: as in `group_node`; the ledger's own
            coins choose for a person of more groups. In a ledger that protects rows each row is a
            person of one group.

    Raises:
        BudgetExceeded: the ledger refused; nothing was read.
        RelationMismatch: a ledger of another relation than add_remove.
    """
    node = group_node(epsilon, delta, groups_per_person)
    question = data.groups(name)
    with data.ledger.request(node, data, learner="select-groups", delta=delta) as session:
        found = session.release(node, question)
    spread = node.scale * (1.0 if node.noise == "gaussian" else math.sqrt(2))
    return SelectedGroups(found.names, found.counts, node, spread, session.receipt)


__all__ = ["SelectedGroups", "group_node", "select_groups"]
