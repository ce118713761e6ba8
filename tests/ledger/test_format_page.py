"""docs/ledger-format.md names every field that an entry may have, where it speaks of that entry."""

from __future__ import annotations

import re
from pathlib import Path

from attrs import fields

import privledger as pl
from privledger.ledger.codec import ENTRIES, SHAPES
from privledger.ledger.rules import RULES, WHOLE
from tests.all_cases import all_cases
from tests.made_pages import renew

PAGE = Path(__file__).parents[2] / "docs" / "ledger-format.md"
OVER = {"aborted": "settled"}  # "as in `settled`"


def section(kind: str) -> str:
    """What the page says from the bold name of a kind to the next one."""
    parts = re.split(r"^(?=\*\*`)", PAGE.read_text(encoding="utf-8"), flags=re.M)
    own = [part for part in parts if f"`{kind}`" in part.split("\n", 1)[0].split(":")[0]]
    assert own, f"the page says nothing of {kind}"
    return "".join(own)


@all_cases("kind", SHAPES)
def test_every_field_of_an_entry_is_explained(kind: str) -> None:
    said = section(kind) + (section(OVER[kind]) if kind in OVER else "")
    missing = [field for field in SHAPES[kind]
               if not re.search(rf"`{field}`|\b{field}\b(?=[,}} ][^\n]*`)", said)]
    assert not missing, f"{kind}: {', '.join(missing)}"


def test_every_field_of_a_federation_is_explained() -> None:
    said = PAGE.read_text(encoding="utf-8").split("\n## Nodes\n")[1].split("\n## ")[0]
    names = [a.name for a in fields(pl.nodes.Federated) if a.name != "node"]
    assert not [name for name in names if f"| `{name}` |" not in said]


def test_every_rule_is_a_row_about_kinds_that_there_are():
    """A word that is no kind would be a rule that never runs."""
    kinds = {name.partition("@")[0] for name in ENTRIES if name[0].islower()}
    for rule in RULES:
        assert rule.kinds.split() and set(rule.kinds.split()) <= kinds, rule
    for kind in kinds:
        names = [rule.name for rule in RULES if kind in rule.kinds.split()]
        assert names[0] == WHOLE and len(set(names)) == len(names), kind


if __name__ == "__main__":
    renew()
