"""Releases of one grant as columns in memory, itemised into entries when the grant settles."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

import numpy as np
from attrs import asdict
from numpy.typing import NDArray

from privledger.graph import Node, canonical
from privledger.ledger.events import Chain, Released, released_node
from privledger.ledger.limits import MOST_BODY

CHUNK = 2000
"""Releases per `released` entry."""

_LONGEST = 2000  # characters of a question that are kept


class ReleaseLog:
    """Append-only columns: which node under which contexts, which question, how many cells."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[Chain, Node], int] = {}
        self._questions: dict[str, int] = {}
        self._items = array("i")  # node, question, cells of each; grown in one step

    def __len__(self) -> int:
        return len(self._items) // 3

    def add(self, chain: Chain, leaf: Node, question: str, cells: int) -> None:
        """Remember one release. O(1)."""
        key, question = (chain, leaf), question[:_LONGEST]
        index = self._nodes.get(key)
        if index is None:
            index = self._nodes[key] = len(self._nodes)
        asked = self._questions.get(question)
        if asked is None:
            asked = self._questions[question] = len(self._questions)
        self._items.extend(array("i", (index, asked, cells)))

    def columns(self) -> dict[str, NDArray[np.int32]]:
        """The releases so far as NumPy columns: `node`, `question` and `cells`, one row each."""
        items = np.array(self._items, dtype=np.int32).reshape(-1, 3)
        return {"node": items[:, 0], "question": items[:, 1], "cells": items[:, 2]}

    def events(self, grant: str, noise: str | None = None) -> Iterator[Released]:
        """The releases of a grant, each event within the limits of an entry; tables are local
        to each.

        Args:
            noise: the source of noise, in words.
        """
        released = [released_node(*key) for key in self._nodes]
        questions = list(self._questions)
        sizes = [len(canonical(asdict(node, recurse=False))) for node in released]
        for first, last in self._cuts(sizes, [6 * len(text) for text in questions]):
            rows = self._items[3 * first : 3 * last]
            nodes, asked = _table(rows[::3]), _table(rows[1::3])
            items = [[nodes[node], asked[question], cells] for node, question, cells in zip(
                rows[::3], rows[1::3], rows[2::3], strict=True)]
            yield Released(grant, first, [questions[index] for index in asked],
                           [released[index] for index in nodes], items, noise)

    def _cuts(self, nodes: list[int], questions: list[int]) -> Iterator[tuple[int, int]]:
        """Where entries begin and end: so many releases, or so many bytes, at most."""
        first, size, seen = 0, 0, set[tuple[str, int]]()
        for row, (node, question) in enumerate(zip(
                self._items[::3], self._items[1::3], strict=True)):
            fresh = {("node", node), ("question", question)} - seen
            more = 40 + sum((nodes if kind == "node" else questions)[index]
                            for kind, index in fresh)
            if row - first == CHUNK or (row > first and size + more > MOST_BODY // 2):
                yield first, row
                first, size, seen = row, 0, set()
                fresh = {("node", node), ("question", question)}
                more = 40 + nodes[node] + questions[question]
            size += more
            seen |= fresh
        if len(self):
            yield first, len(self)


def _table(used: Iterable[int]) -> dict[int, int]:
    """Index in the whole -> index in one entry."""
    return {index: place for place, index in enumerate(sorted(set(used)))}
