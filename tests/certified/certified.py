"""A certificate of one node, and the page that lists all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import frozen

from privledger.tables.values import Json, table
from privledger.testing.lockstep.neighbours import TablePair
from tests.certified.claims import Claim
from tests.certified.learner_certificates import LearnerCertificate
from tests.certified.pairs import RELATIONS, pair_from_json, pair_to_json

PAGE = "certificates.md"
WANTED = 0.99
"""Part of the ceiling that every stored witness reaches."""

_SAME = 1e-9  # relative: the same floats on another machine's exp and log


@frozen(eq=False)
class Certificate:
    """One claim with its witness.

    Attributes:
        ratio: loss over price on `witness`, as it was found. tables: pairs looked at.
        ceiling, why: as in `Node`.
    """

    claim: Claim
    ratio: float
    witness: TablePair
    ceiling: float = 1.0
    why: str = ""
    tables: int = 0

    @property
    def tight(self) -> bool:
        """Whether the witness comes near what is possible."""
        return self.ratio >= WANTED * self.ceiling

    def faults(self) -> list[str]:
        """What is wrong with it today; nothing if it holds."""
        name = f"{self.claim.name} under {self.claim.relation}"
        if self.witness.schema != self.claim.schema:
            return [f"{name}: its tables have another schema"]
        found = self.claim.ratio(self.witness)
        faults = []
        if not found <= 1:
            faults.append(f"{name}: loses {found:.9g} times its price")
        if not found <= self.ceiling * (1 + _SAME):
            faults.append(f"{name}: {found:.9g} is above its ceiling {self.ceiling:.9g}")
        if not abs(found - self.ratio) <= _SAME:
            faults.append(f"{name}: the ratio is {found:.12g}, stored is {self.ratio:.12g}")
        return faults

    def to_json(self) -> Json:
        """Plain values that say everything."""
        return {"claim": self.claim.to_json(), "ratio": self.ratio, "ceiling": self.ceiling,
                "why": self.why, "tables": self.tables, "witness": pair_to_json(self.witness)}

    @classmethod
    def from_json(cls, value: Json) -> Certificate:
        """The inverse of `to_json`."""
        return cls(Claim.from_json(table(value["claim"])), float(value["ratio"]),
                   pair_from_json(table(value["witness"])), float(value["ceiling"]),
                   str(value["why"]), int(value["tables"]))


_HEADS = ("| Node | Worst ratio found | Possible | Records |\n|---|---|---|---|\n",
          "| Learner | Relation | Worst ratio | Least of its releases | Releases | Records |\n"
          "|---|---|---|---|---|---|\n")
_FROM, _TO = "<!-- made by tests.certified -->\n", "<!-- end -->\n"


def page(text: str, certificates: Iterable[Certificate],
         learners: Iterable[LearnerCertificate]) -> str:
    """docs/certificates.md with its tables made anew, one after every mark in its text."""
    held = list(certificates)
    made = [_HEADS[0] + "".join(_rows([one for one in held if one.claim.relation == relation]))
            for relation in RELATIONS]
    made.append(_HEADS[1] + "".join(_learner_rows(learners)))
    before, *parts = text.split(_FROM)
    return before + "".join(
        f"{_FROM}\n{body}\n{_TO}{part.partition(_TO)[2]}"
        for body, part in zip(made, parts, strict=True))


def _learner_rows(learners: Iterable[LearnerCertificate]) -> Iterator[str]:
    for one in learners:
        first, second = one.witness.n_records
        least = min((ratio for ratio in one.releases if ratio > 0), default=0.0)
        yield (f"| {one.learner} | {one.relation} | {one.ratio:.4f} | {least:.4f} "
               f"| {len(one.releases)} | {first} and {second} |\n")


def _rows(certificates: Iterable[Certificate]) -> Iterator[str]:
    for one in certificates:
        first, second = one.witness.n_records
        most = "1" if one.ceiling == 1 else f"{one.ceiling:.3f}: {one.why}"
        yield f"| {one.claim.name} | {one.ratio:.5f} | {most} | {first} and {second} |\n"
