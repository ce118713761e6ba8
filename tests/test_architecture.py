"""The page about the architecture is true, and no room grows."""

from __future__ import annotations

import re

import networkx as nx

from tests import house, rooms

# Lines of code in each room. A number here may only fall: lower it with the code.
MOST = {
    "": 17, "__main__": 2, "accounting": 6184, "adapters": 195, "broker": 1277, "cli": 4428,
    "engines": 1040, "errors": 94, "federation": 876, "findings": 5, "former": 30, "gate": 73,
    "graph": 2225, "guard": 2770, "ledger": 5737, "mutex": 152, "nodes": 6, "noise": 883,
    "notebook": 13, "numerals": 87, "plot": 67, "plugins": 825, "pytest_plugin": 99,
    "questions": 4345, "reading": 109, "reports": 2842, "rounding": 168, "runs": 164,
    "standalone": 3239, "storage": 1855, "tables": 3177, "testing": 3942,
}


def test_no_room_grows():
    now = {name: lines for name, (_, lines) in rooms.sizes().items()}
    assert set(now) == set(MOST)
    assert {name: lines for name, lines in now.items() if lines > MOST[name]} == {}


def test_rooms_form_layers_and_the_page_shows_them():
    """After a change of rooms: python -m tests.rooms --write"""
    page = rooms.PAGE.read_text(encoding="utf-8")
    shown = set(re.findall(r"^\| `(\w+)` \| \d", page, re.M))
    drawn = rooms.FIGURE.read_text(encoding="utf-8")
    found = rooms.graph()
    assert nx.is_directed_acyclic_graph(found)
    assert shown == set(found) == set(re.findall(r">(\w+)</text>", drawn))


def test_every_file_that_the_page_names_is_there():
    page = rooms.PAGE.read_text(encoding="utf-8")
    for name in re.findall(r"`([\w/]+\.py)`", page):
        assert (rooms.ROOT / name).is_file() or (rooms.DOCS.parent / name).is_file(), name


def test_names_of_classes_and_public_functions_are_unique():
    """One name, one thing: a reader who searches for it finds one place.

    A command's function has the command's name.
    """
    homes: dict[str, set[str]] = {}
    for module in house.OURS:
        if module.startswith("privledger.") and not module.startswith("privledger.standalone"):
            for name, node in house.defined(module):
                inside = name.removeprefix(f"{module}.")
                command = module.startswith("privledger.cli.") and node.decorator_list
                if "." not in inside and not command:
                    homes.setdefault(inside, set()).add(module)
    twice = {name: found for name, found in homes.items() if len(found) > 1}
    assert twice == {}
