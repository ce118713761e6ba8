"""Releases of one grant as columns in memory, itemised into entries when the grant settles."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
from attrs import asdict
from numpy.typing import NDArray

from privledger.errors import LedgerCorrupt
from privledger.graph import Context, Node, from_json, to_json

CHUNK = 2000
"""Releases per `released` entry."""

Chain = tuple[Context, ...]


class ReleaseLog:
    """Append-only columns: which node under which contexts, which question, how many cells."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[Chain, Node], int] = {}
        self._questions: dict[str, int] = {}
        self._node = array("i")
        self._question = array("i")
        self._cells = array("i")

    def __len__(self) -> int:
        return len(self._node)

    def add(self, chain: Chain, leaf: Node, question: str, cells: int) -> None:
        """Remember one release. O(1)."""
        key = (chain, leaf)
        index = self._nodes.get(key)
        if index is None:
            index = self._nodes[key] = len(self._nodes)
        asked = self._questions.get(question)
        if asked is None:
            asked = self._questions[question] = len(self._questions)
        self._node.append(index)
        self._question.append(asked)
        self._cells.append(cells)

    def columns(self) -> dict[str, NDArray[np.int32]]:
        """The releases so far as NumPy columns: `node`, `question` and `cells`, one row each."""
        return {"node": np.array(self._node, dtype=np.int32),
                "question": np.array(self._question, dtype=np.int32),
                "cells": np.array(self._cells, dtype=np.int32)}

    def bodies(self, grant: str) -> Iterator[dict[str, Any]]:
        """Bodies of the `released` entries; tables are local to each chunk."""
        nodes, questions = list(self._nodes), list(self._questions)
        for first in range(0, len(self), CHUNK):
            rows = slice(first, first + CHUNK)
            used = sorted(set(self._node[rows]))
            place = {index: local for local, index in enumerate(used)}
            yield {
                "grant": grant, "first": first, "questions": questions,
                "nodes": [node_body(*nodes[index]) for index in used],
                "items": [[place[node], question, cells] for node, question, cells in zip(
                    self._node[rows], self._question[rows], self._cells[rows], strict=True)],
            }


def node_body(chain: Chain, leaf: Node) -> dict[str, Any]:
    """A released node and the contexts it was released under, as JSON values."""
    return {"under": [asdict(step) for step in chain], "leaf": to_json(leaf)}


def read_node(body: dict[str, Any]) -> tuple[Chain, Node]:
    """The inverse of `node_body`."""
    try:
        return tuple(Context(**step) for step in body["under"]), from_json(body["leaf"])
    except (KeyError, TypeError):
        raise LedgerCorrupt("a released node is malformed") from None
