"""Nobody outside the codec reads an entry's body by string keys, or compares its kind as text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import privledger

ROOT = Path(privledger.__file__).parent
READS = re.compile(
    r"\b(?:entry|line|grant|scope|found|paid|known)\.(?:body|settled|crashed)\b"
    r"|\bentry\.kind *(?:==|!=|in\b|not in\b)|\bstate\.(?:data|created)\b|\bgrant\.corrections\b")
CODEC = ("ledger/codec", "standalone/")
REMAIN: dict[str, int] = {}
"""Files that still do, and how often. This list only ever gets shorter."""


def reads(path: Path) -> int:
    return len(READS.findall(path.read_text(encoding="utf-8")))


FILES = {name: path for path in sorted(ROOT.rglob("*.py"))
         if not (name := path.relative_to(ROOT).as_posix()).startswith(CODEC)}


@pytest.mark.parametrize("package", sorted({name.partition("/")[0] for name in FILES}))
def test_events_are_read_and_no_bodies(package):
    found = {name: count for name, path in FILES.items()
             if name.partition("/")[0] == package and (count := reads(path))}
    assert found == {name: count for name, count in REMAIN.items()
                     if name.partition("/")[0] == package}


def test_the_counter_counts():
    text = 'entry.body["units"], grant.settled.get("vector"), entry.kind == "granted", state.data'
    assert len(READS.findall(text)) == 4
