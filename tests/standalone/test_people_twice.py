"""Doctored indexes and pieces of people, hashed again up to the entries: two readers, one word."""

from __future__ import annotations

import random
from hashlib import sha256

import pytest

from privledger.ledger.vectors import _INDEX_HEAD, MAGIC
from tests.standalone import histories
from tests.standalone.conftest import chained
from tests.standalone.test_two_verifiers import alone, ours


@pytest.fixture(scope="module")
def world():
    return histories.of_people()


def again(lines, kept, name, data):
    """The same history around a blob that somebody changed: every hash above it is made anew."""
    kept = {**kept, name: data}
    top, _, number = name.partition("/")
    if number:
        index, at = kept[top], _INDEX_HEAD + 32 * int(number)
        kept[top] = index[:at] + sha256(data).digest() + index[at + 32:]
    found = []
    for line in lines:
        body = dict(line["body"])
        for field in ("people", "members", "vector"):
            if isinstance(body.get(field), dict) and body[field]["name"] == top:
                body[field] = {"name": top, "sha256": sha256(kept[top]).hexdigest()}
        found.append({**line, "body": body})
    return chained(found), kept


def edits(source, data):
    """A few of what could be done to some bytes."""
    if data:
        at = source.randrange(len(data))
        yield data[:at] + bytes([data[at] ^ (1 << source.randrange(8))]) + data[at + 1:]
        yield data[:at]
        yield data[:at] + data[at + 1:]
    yield data + b"\0"
    yield b""
    if data.startswith(MAGIC):
        for at in range(24, 40):
            yield data[:at] + bytes([source.randrange(256)]) + data[at + 1:]
        yield data[:_INDEX_HEAD] + bytes(32) + data[_INDEX_HEAD + 32:]
        yield data + bytes(32)
        yield data[:20]
    elif len(data) % 16 == 0:
        yield b"".join(sorted((data[at:at + 16] for at in range(0, len(data), 16)), reverse=True))
        yield data[:16] * (len(data) // 16)


def test_both_say_the_same_of_doctored_pieces(world):
    lines, kept = world
    assert ours(lines, kept) == [] == alone(lines, kept)
    source, found, seen = random.Random(14), 0, 0
    for name, data in kept.items():
        for other in edits(source, data):
            if other != data:
                case = again(lines, kept, name, other)
                here, there = ours(*case), alone(*case)
                assert bool(here) == bool(there), (name, other, here[:2], there[:2])
                found, seen = found + bool(here), seen + 1
    assert seen > 200 and found > seen // 2


def test_a_unit_that_nobody_knows_is_refused_by_both(world):
    lines, kept = world
    for change in ({"unit": "house"}, {"unit": "row"}, {"unit": None}, {"key_check": None},
                   {"key_check": "0" * 31}, {"format": 3}):
        doctored = chained([{**lines[0], "body": lines[0]["body"] | change}, *lines[1:]])
        assert ours(doctored, kept) and alone(doctored, kept), change
