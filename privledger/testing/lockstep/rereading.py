"""The histories of a lock's runs: alike in every world, and right to a second reader."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from types import ModuleType

from privledger.graph import canonical
from privledger.guard.teller import Teller
from privledger.ledger.codec import encode
from privledger.standalone.build import one_file
from privledger.testing.lockstep.kept import Broken

_NAMED = re.compile(r"\b(allocation|grant|data|scope|filter|sample|parts?|partition)-[0-9a-f]+")
_OTHER_EACH_TIME = ("time", "uuid", "holder", "vector", "lease", "members", "people")


def told(ledger: Teller) -> str:
    """What a history says, without times and names that are new in every run.

    Who is in a table and what a record spent are confidential: kept apart, by a hash that is
    left out here.
    """
    names: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        return names.setdefault(found.group(), f"{found.group(1)}-{len(names)}")

    lines = []
    for entry in ledger._history.store.read():
        held = {key: value for key, value in encode(entry.event).items()
                if key not in _OTHER_EACH_TIME}
        lines.append(_NAMED.sub(numbered, canonical({"kind": entry.event.kind, "body": held})))
    return "\n".join(lines)


@cache
def second_reader() -> ModuleType:
    """The stand-alone verifier, as its one file: it shares no code with the package."""
    found = ModuleType("verify_history")
    exec(compile(one_file(), "verify_history.py", "exec"), vars(found))
    return found


def reread(ledger: Teller) -> Iterator[Broken]:
    """P7: both verifiers find nothing wrong with a history, and price it again."""
    for finding in ledger.verify()[:1]:
        yield Broken("P7", -1, f"the history does not verify: {finding.message}")
    store, book = ledger._history.store, second_reader().Book()
    for entry in store.read():
        line = {"position": entry.position, "kind": entry.event.kind, "body": encode(entry.event),
                "previous": entry.previous, "hash": entry.hash}
        book.take(canonical(line).encode("ascii"))
    book.finish(store.vector)
    for _, text in book.faults[:1]:
        yield Broken("P7", -1, f"a second reader finds the history wrong: {text}")
