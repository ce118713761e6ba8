"""Certificates: for every released node a pair of tables on which its price is (nearly) lost.

A certificate is a lower bound with a witness. It shows that the price is not too high, and each
time it is computed again that it is still not too low on this pair. docs/certificates.md.

    python -m privledger.testing.lockstep.certificates            # every stored one, again
    python -m privledger.testing.lockstep.certificates --search 4 # look for worse tables
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attrs import frozen

from privledger.errors import PrivledgerError
from privledger.facts.values import Json, table
from privledger.reading import parse_json
from privledger.testing.lockstep.claims import Claim
from privledger.testing.lockstep.neighbours import Pair
from privledger.testing.lockstep.released_nodes import Node, released_nodes
from privledger.testing.lockstep.worst_tables import NEAR, search

FOLDER = Path(__file__).parents[3] / "docs" / "certificates"
WANTED = 0.99
"""Part of the ceiling that every stored witness reaches."""

_ENOUGH = 0.999  # of the ceiling, where a search ends
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
    witness: Pair
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
                "why": self.why, "tables": self.tables, "witness": self.witness.to_json()}

    @classmethod
    def from_json(cls, value: Json) -> Certificate:
        """The inverse of `to_json`."""
        return cls(Claim.from_json(table(value["claim"])), float(value["ratio"]),
                   Pair.from_json(table(value["witness"])), float(value["ceiling"]),
                   str(value["why"]), int(value["tables"]))


def stored(folder: Path = FOLDER) -> list[Certificate]:
    """Every certificate of a folder, by file and place."""
    found = []
    for path in sorted(folder.glob("*.json")):
        held = parse_json(path.read_text(encoding="utf-8"), path.name, "certificates")
        found += [Certificate.from_json(table(one)) for one in held["certificates"]]
    return found


def store(certificates: Iterable[Certificate], folder: Path = FOLDER) -> None:
    """One file per kind of question, one certificate per line."""
    files: dict[str, list[str]] = {}
    for one in certificates:
        line = json.dumps(one.to_json(), allow_nan=False)
        files.setdefault(one.claim.asked.replace(" ", "-"), []).append(line)
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in files.items():
        text = '{"version": 1, "certificates": [\n' + ",\n".join(lines) + "\n]}\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


def look_again(nodes: Sequence[Node], known: Sequence[Certificate], seconds: float,
               seed: int = 0) -> Iterator[Certificate]:
    """Search every node, beginning with what is known; the worst table of each."""
    before = {(one.claim.name, one.claim.relation): one for one in known}
    found: list[Certificate] = []
    for node in nodes:
        claim = node.claim
        old = before.get((claim.name, claim.relation))
        # Tables that are bad for one score are often bad for another.
        near = [one.witness for one in (*known, *found)
                if (one.claim.task, one.claim.relation) == (claim.task, claim.relation)]
        first = dict.fromkeys([*([] if old is None else [old.witness]), *near])
        worst = search(claim.ratio, claim.schema, claim.relation, seed=seed, seconds=seconds,
                       first=tuple(first), most_rows=2048,
                       target=max(node.ceiling, 1e-9) * _ENOUGH / NEAR)
        found.append(Certificate(claim, worst.value, worst.pair, node.ceiling, node.why,
                                 worst.tables + (0 if old is None else old.tables)))
        yield found[-1]


def page(certificates: Iterable[Certificate]) -> str:
    """The tables of docs/certificates.md."""
    lines: list[str] = []
    for relation in ("add_remove", "replace_one", "replace_label"):
        lines += [f"### {relation}", "", "| Node | Worst ratio found | Possible | Records |",
                  "|---|---|---|---|"]
        for one in certificates:
            if one.claim.relation == relation:
                first, second = one.witness.n_records
                most = "1" if one.ceiling == 1 else f"{one.ceiling:.3f}: {one.why}"
                lines.append(f"| {one.claim.name} | {one.ratio:.5f} | {most} "
                             f"| {first} and {second} |")
        lines.append("")
    return "\n".join(lines)


def _searched(known: list[Certificate], chosen: argparse.Namespace) -> list[Certificate]:
    """Stored after every node, so that an interrupt loses nothing."""
    nodes = {(node.claim.name, node.claim.relation): node for node in released_nodes()}
    held = {(one.claim.name, one.claim.relation): one for one in known}
    asked = [node for key, node in nodes.items() if chosen.only in node.claim.name and not (
        chosen.loose and key in held and held[key].tight)]
    for one in look_again(asked, known, chosen.search, chosen.seed):
        held[one.claim.name, one.claim.relation] = one
        print(f"{one.ratio:.5f} of {one.ceiling:.3f}  {one.claim.relation:13}  {one.claim.name}",
              flush=True)
        store([held[key] for key in nodes if key in held], chosen.folder)
    return [held[key] for key in nodes if key in held]


def main(arguments: Sequence[str] | None = None) -> int:
    """Zero if every stored ratio is what it was and at most one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--search", type=float, metavar="SECONDS",
                        help="CPU seconds per node to look for worse tables; then stores them")
    parser.add_argument("--only", default="", help="nodes whose name holds this")
    parser.add_argument("--loose", action="store_true",
                        help="nodes whose worst table is not near what is possible")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    chosen = parser.parse_args(arguments)
    known = stored(chosen.folder)
    if chosen.search:
        known = _searched(known, chosen)
    faults = [fault for one in known for fault in one.faults()]
    faults += [] if known else [f"no certificates in {chosen.folder}"]
    for fault in faults:
        print(fault, file=sys.stderr)
    loose = [one for one in known if not one.tight]
    print(f"{len(known)} certificates, {len(known) - len(loose)} within 1 % of what is possible, "
          f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PrivledgerError as error:
        sys.exit(str(error))
