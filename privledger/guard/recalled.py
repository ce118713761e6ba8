"""One question in one grant, and its answer again for nothing (docs/proofs/recall.md).

An answer that was released, and that the history keeps, is a published value: giving it out again
reads nothing. What has to hold is that the same thing is asked again, so everything that is not
certainly the same is paid for afresh.
"""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
from attrs import define, evolve, field, frozen

from privledger.errors import InvalidValue, LedgerCorrupt
from privledger.graph import Node, canonical, to_json
from privledger.guard.trusted_copy import own_leaf, own_question
from privledger.guard.vault import Seal, Vault, _vault_of
from privledger.ledger import History
from privledger.ledger.entries import GENESIS, is_whole
from privledger.ledger.events import Answer, Corrected, Granted, KeptArray, Settled
from privledger.questions.blocks import (
    ClassIs,
    ColumnMoments,
    ColumnValue,
    Ones,
    RowValues,
    TargetShares,
)
from privledger.questions.cells import CategoryCells, Cells, CrossCells, IntervalCells, MappedCells
from privledger.questions.closed_set import is_wire, to_wire
from privledger.questions.query import Query
from privledger.questions.question import Derivation
from privledger.tables.schema import Schema
from privledger.tables.values import Json

MOST_NUMBERS = 10_000
_BLOCKS = (Ones, ColumnValue, ClassIs, TargetShares, ColumnMoments, RowValues)
_CELLS = (CategoryCells, IntervalCells, CrossCells, MappedCells)
_KINDS = {"float": np.dtype(np.float64), "int": np.dtype(np.int64)}


@frozen
class Answered:
    """What `Ledger.answer` gives.

    Attributes:
        value: as `Session.release`; an array of the caller's own.
        grant: what paid for it, now or when it was asked first.
        recalled: whether it was there already: nothing was read or charged.
    """

    value: object
    grant: str
    recalled: bool


@frozen(eq=False)
class KeptQuestion:
    """One question as the guard asks it, in copies that no caller holds.

    Attributes:
        seal, vault: of the table.
        key: what tells it from every other question; None where that is not certain.
    """

    leaf: Node
    question: object
    seal: Seal
    vault: Vault
    key: str | None


def asked_of(mechanism: object, query: object, history: History, *, keep: bool) -> KeptQuestion:
    """The guard's own copy of a question about a whole table of this ledger.

    Raises:
        InvalidValue: about a part, a sample, or another ledger's table; nothing was read.
    """
    about = getattr(query, "data", None)
    seal: object = about.seal if type(about) is Derivation and not about.steps else None
    vault: Vault | None = _vault_of(seal) if type(seal) is Seal else None
    if type(seal) is not Seal or vault is None or vault._guardian is not history:
        raise InvalidValue("query", type(query).__name__, "asked about a whole table of this "
                                                          "ledger: parts and samples are asked "
                                                          "about in a session")
    leaf, question = own_leaf(mechanism), own_question(query, vault)
    private = history.state.mode == "private"
    return KeptQuestion(leaf, question, seal, vault,
                 _key(leaf, question, vault) if keep and private else None)


def _key(leaf: Node, question: object, vault: Vault) -> str | None:
    """sha256 of all that an answer's law depends on besides the rows, and of the rows' version."""
    if type(question) is not Query or question.asserted or not _plain(question):
        return None
    words = _Words(question.data.schema)
    wire = to_wire(question, words)
    whole = {
        "form": 1, "data": vault.identity, "version": vault.version, "table": vault.schema.digest,
        "handle": question.data.schema.digest, "relation": vault.relation,
        "unit": vault.facts.unit, "public": vault.public is not None,
        "unlabelled": vault.unlabelled, "mechanism": to_json(leaf),
        "query": wire, "cells": words.told}
    return hashlib.sha256(canonical(whole).encode("ascii")).hexdigest()


def _plain(question: Query) -> bool:
    """Whether it is about columns alone: no coins, no positions, nothing that earlier releases
    went into, and no function."""
    return all(type(block) in _BLOCKS for block in question.blocks) and (
        question.cells is None or _by_columns(question.cells))


def _by_columns(cells: Cells) -> bool:
    return type(cells) in _CELLS and all(map(_by_columns, getattr(cells, "below", ())))


@define(eq=False)
class _Words:
    """A `Describer` that numbers cells as they come, and keeps what each number stands for."""

    schema: Schema
    told: list[Json] = field(factory=list, init=False)

    def object(self, what: Cells) -> int:
        """A number of its own; those of the cells inside are smaller."""
        self.told.append(is_wire(what, self))
        return len(self.told)


def kept_answer(key: str | None, value: object) -> Answer | None:
    """What the history keeps of a released value; None where nothing is kept."""
    if key is None:
        return None
    arrays = value if type(value) is list else [value]
    found = [_written(array) for array in arrays]
    if not found or any(one is None for one in found) or sum(
            len(one["values"]) for one in found if one is not None) > MOST_NUMBERS:
        return None
    return Answer(key, [one for one in found if one is not None])


def _written(array: object) -> KeptArray | None:
    if not isinstance(array, np.ndarray | np.generic):
        return None
    kind = next((name for name, dtype in _KINDS.items() if array.dtype == dtype), None)
    if kind is None or not np.isfinite(array).all():
        return None
    return {"kind": kind, "shape": list(array.shape), "values": array.ravel().tolist()}


def value_of(answer: Answer) -> object:
    """The released value, bit for bit, in arrays that no caller holds."""
    arrays = [np.array(one["values"], dtype=_KINDS[one["kind"]]).reshape(one["shape"])
              for one in answer.values]
    return arrays[0] if len(arrays) == 1 else arrays


def _is_whole(event: Settled) -> bool:
    """Whether an answer is what we would have written: what is not is paid for afresh."""
    try:
        assert event.answer is not None
        again = kept_answer(event.answer.asked, value_of(event.answer))
        return event.releases == 1 and type(event.grant) is type(event.answer.asked) is str and (
            again == evolve(event.answer, seal=None))
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        return False


class Recall:
    """The answers that one history keeps, found by what was asked. Read on, never guessed."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._position, self._head = -1, GENESIS
        self._ledger = GENESIS  # hash of the first entry
        self._answers: dict[str, list[tuple[str, Answer]]] = {}
        self._scopes: dict[str, str] = {}  # grant -> the scope it drew on
        self._corrected: set[str] = set()  # grants and scopes that were not what they said

    def find(self, key: str, sealing: bytes) -> tuple[str, Answer] | None:
        """The grant and the answer of a question that was asked before; None if it was not.

        Args:
            sealing: the table's key. An answer with another seal than by it, or without one, may
                be the invention of a process that can settle a grant: it is as good as none.

        Raises:
            LedgerCorrupt: an entry does not follow the one before; nothing is recalled.
        """
        self._history.refresh()
        for entry in self._history.store.read(self._position):
            if entry.position != self._position + 1 or entry.previous != self._head or (
                    not is_whole(entry)):
                raise LedgerCorrupt(f"entry {entry.position} does not follow the one before. "
                                    "Nothing was recalled or read")
            self._take(entry.event)
            self._position, self._head = entry.position, entry.hash
            self._ledger = entry.hash if entry.position == 0 else self._ledger
        return next((found for found in self._answers.get(key, ()) if self._stands(found[0])
                     and hmac.compare_digest(str(found[1].seal).encode("utf-8", "replace"),
                                             self._seal(*found, sealing).encode("ascii"))), None)

    def _stands(self, grant: str) -> bool:
        return not {grant, self._scopes.get(grant)} & self._corrected

    def sealed(self, grant: str, answer: Answer | None, sealing: bytes) -> Answer | None:
        """An answer as `find` gives it out. Called after `find`, which knows the ledger."""
        return None if answer is None else evolve(answer, seal=self._seal(grant, answer, sealing))

    def _seal(self, grant: str, answer: Answer, sealing: bytes) -> str:
        """Of this answer in this grant of this ledger: a copy of it elsewhere has another."""
        whole = {"ledger": self._ledger, "grant": grant, "asked": answer.asked,
                 "values": answer.values}
        return hmac.digest(sealing, canonical(whole).encode("ascii"), "sha256").hex()

    def _take(self, event: object) -> None:
        if type(event) is Settled and event.answer is not None and not event.failed and (
                _is_whole(event)):
            self._answers.setdefault(event.answer.asked, []).append((event.grant, event.answer))
        elif isinstance(event, Granted) and event.scope:
            self._scopes[event.grant] = event.scope
        elif isinstance(event, Corrected):
            self._corrected.add(event.grant)
