"""OpenDP: pay for a measurement by its own map, then run it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol, TypeVar

from privledger.errors import RelationMismatch, UnsupportedNode
from privledger.graph.additive import Asserted, AssertedZCDP
from privledger.guard.ledger import Ledger
from privledger.rounding import count, positive, probability

Data = TypeVar("Data", contravariant=True)
Answer = TypeVar("Answer", covariant=True)

NEIGHBOURS = {
    ("SymmetricDistance", "add_remove"): 1, ("InsertDeleteDistance", "add_remove"): 1,
    ("ChangeOneDistance", "replace_one"): 1, ("HammingDistance", "replace_one"): 1,
    ("SymmetricDistance", "replace_one"): 2, ("InsertDeleteDistance", "replace_one"): 2,
}
"""Metric and relation -> the distance of neighbours. What is not here is refused."""
WHY = "OpenDP's map says so, of the distance that it was given"


class Measurement(Protocol[Data, Answer]):
    """What is used of `opendp.Measurement`."""

    @property
    def input_metric(self) -> object:
        """How far two tables are apart."""

    @property
    def output_measure(self) -> object:
        """What `map` returns."""

    def map(self, d_in: int) -> object:
        """The cost for tables so far apart."""

    def __call__(self, arg: Data) -> Answer:
        """The noisy answer."""


def price(measurement: Measurement[Data, Answer], d_in: int,
          relation: str) -> Asserted | AssertedZCDP:
    """What a measurement costs neighbours of `relation`, by its own map. Reads nothing.

    Args:
        d_in: distance of two tables that differ in all rows of whom the ledger protects.

    Raises:
        RelationMismatch: neighbours of this ledger are not so near, or in no known metric.
        UnsupportedNode: the map speaks in another measure.
    """
    metric, measure = (_name(each) for each in (
        measurement.input_metric, measurement.output_measure))
    least = NEIGHBOURS.get((metric, relation))
    if least is None:
        raise RelationMismatch(f"OpenDP's {metric} says nothing of {relation} neighbours here; "
                               "nothing was read")
    if count("d_in", d_in) < least:
        raise RelationMismatch(f"neighbours under {relation} are {least} apart in {metric}; "
                               "nothing was read")
    found = measurement.map(d_in)
    if measure == "MaxDivergence":
        return Asserted(positive("map", found), WHY)
    if measure == "ZeroConcentratedDivergence":
        return AssertedZCDP(positive("map", found), WHY)
    if measure in ("Approximate(MaxDivergence)", "FixedSmoothedMaxDivergence"):
        if not (isinstance(found, tuple) and len(found) == 2):
            raise UnsupportedNode(f"OpenDP's {measure} without a pair; nothing was read")
        return Asserted(positive("map", found[0]), WHY, probability("map", found[1], zero=True))
    raise UnsupportedNode(f"OpenDP's {measure} has no price here; nothing was read")


def _name(value: object) -> str:
    """`SymmetricDistance()` and `MaxDivergence` by their names, without types of atoms."""
    text = str(value)
    if text.startswith("Approximate("):
        return "Approximate(" + _name(text[len("Approximate("):].rstrip(")")) + ")"
    return text.split("(")[0].split("<")[0].strip()


def invoke(ledger: Ledger, measurement: Measurement[Data, Answer], data: Data, *, d_in: int,
           table: str, learner: str = "",
           labels: Mapping[str, str] | None = None) -> Answer:
    """Reserve what the measurement's map says, durably; then run it on `data`.

    Args:
        data: what the measurement takes. table, learner, labels: as of `Ledger.foreign`.

    Raises:
        BudgetExceeded: it does not fit; nothing was read or charged.
        RelationMismatch, UnsupportedNode: as `price`.
    """
    plan = price(measurement, d_in, ledger.relation)
    try:
        number = version("opendp")
    except PackageNotFoundError:
        number = "unknown"
    share = plan.delta if isinstance(plan, Asserted) else 0.0
    with ledger.foreign(plan, table=table, library="opendp", version=number, hook="map",
                        learner=learner, labels=labels, delta=share):
        return measurement(data)
