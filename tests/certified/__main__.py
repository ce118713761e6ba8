"""Certificates: for every released node a pair of tables on which its price is (nearly) lost.

A certificate is a lower bound with a witness. It shows that the price is not too high, and each
time it is computed again that it is still not too low on this pair. docs/certificates.md.

    python -m tests.certified            # every stored one, again
    python -m tests.certified --search 4 # look for worse tables
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from privledger.errors import PrivledgerError
from privledger.reading import parse_json
from privledger.tables.values import table
from tests.certified.certified import PAGE, Certificate, page
from tests.certified.learner_certificates import (
    NAME,
    search_learners,
    store_learners,
    stored_learners,
)
from tests.certified.released_nodes import Node, released_nodes
from tests.certified.searching import NEAR, search

FOLDER = Path("docs", "certificates")
"""Of a clone, from its top: they are not part of the package."""

_ENOUGH = 0.999  # of the ceiling, where a search ends


def stored(folder: Path = FOLDER) -> list[Certificate]:
    """Every certificate of a folder, by file and place."""
    found = []
    for path in sorted(set(folder.glob("*.json")) - {folder / NAME}):
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
                if (one.claim.schema, one.claim.relation) == (claim.schema, claim.relation)]
        first = dict.fromkeys([*([] if old is None else [old.witness]), *near])
        worst = search(claim.ratio, claim.schema, claim.relation, seed=seed, seconds=seconds,
                       first=tuple(first), most_rows=2048,
                       target=max(node.ceiling, 1e-9) * _ENOUGH / NEAR)
        found.append(Certificate(claim, worst.value, worst.pair, node.ceiling, node.why,
                                 worst.tables + (0 if old is None else old.tables)))
        yield found[-1]


def _searched(known: list[Certificate], chosen: argparse.Namespace) -> None:
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Zero if every stored ratio is what it was and at most one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--search", type=float, metavar="SECONDS",
                        help="CPU seconds per node to look for worse tables; then stores them")
    parser.add_argument("--learners", type=float, metavar="SECONDS",
                        help="CPU seconds per learner and relation; then stores them")
    parser.add_argument("--only", default="", help="nodes whose name holds this")
    parser.add_argument("--loose", action="store_true",
                        help="nodes whose worst table is not near what is possible")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    chosen = parser.parse_args(arguments)
    if chosen.search:
        _searched(stored(chosen.folder), chosen)
    if chosen.learners:
        fresh = {(one.learner, one.relation): one for one in stored_learners(chosen.folder)}
        for found in search_learners(chosen.learners, chosen.only, chosen.seed):
            fresh[found.learner, found.relation] = found
            print(f"{found.ratio:.5f}  {found.relation:13}  {found.learner}", flush=True)
            store_learners(list(fresh.values()), chosen.folder)
    known, learners = stored(chosen.folder), stored_learners(chosen.folder)
    faults = [fault for one in known for fault in one.faults()]
    faults += [fault for other in learners for fault in other.faults()]
    faults += [] if known else [f"no certificates in {chosen.folder}"]
    for fault in faults:
        print(fault, file=sys.stderr)
    loose = [one for one in known if not one.tight]
    print(f"{len(known)} nodes, {len(known) - len(loose)} within 1 % of what is possible; "
          f"{len(learners)} learners; {len(faults)} faults")
    if (chosen.search or chosen.learners) and not faults:
        path = chosen.folder.parent / PAGE
        path.write_text(page(path.read_text(encoding="utf-8"), known, learners), encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PrivledgerError as error:
        sys.exit(str(error))
