"""Nobody outside the codec reads an entry's body by string keys, or compares its kind as text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import privledger
from tests.all_cases import all_cases

ROOT = Path(privledger.__file__).parent
READS = re.compile(
    r"\b(?:entry|line|grant|scope|found|paid|known)\.(?:settled|crashed)\b"
    r"|\bentry(?:\.event)?\.kind *(?:==|!=|in\b|not in\b)|\bstate\.(?:data|created)\b"
    r"|\bgrant\.corrections\b")
CODEC = ("ledger/codec", "standalone/")


def reads(text: str) -> int:
    """How often; `.body` counts on whatever it is asked for."""
    bodies = [node for node in ast.walk(ast.parse(text))
              if isinstance(node, ast.Attribute) and node.attr == "body"]
    return len(READS.findall(text)) + len(bodies)


FILES = {name: path for path in sorted(ROOT.rglob("*.py"))
         if not (name := path.relative_to(ROOT).as_posix()).startswith(CODEC)}


@all_cases("package", sorted({name.partition("/")[0] for name in FILES}))
def test_events_are_read_and_no_bodies(package):
    assert not {name: count for name, path in FILES.items() if name.partition("/")[0] == package
                and (count := reads(path.read_text(encoding="utf-8")))}


def test_the_counter_counts():
    text = ('entry.body["units"], grant.settled.get("vector"), entry.kind == "granted", '
            'state.data, what().body')
    assert reads(text) == 5
