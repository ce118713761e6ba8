"""Releases of single labels: randomised response, where only labels are protected."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privledger.errors import DataError, UnsupportedNode
from privledger.guard.inside import FAILED, Inside, guarded
from privledger.kernels.asking import Task, ask
from privledger.mechanisms import RandomizedResponse
from privledger.questions.label_query import LabelQuery
from privledger.questions.question import Noise


def release_labels(inside: Inside, mechanism: Any, query: LabelQuery) -> NDArray[Any]:
    """One noisy class position per record, int64, shape (records asked,).

    Raises:
        NotGranted: nothing reserved covers it; nothing was read.
        UnsupportedNode, RelationMismatch, InvalidValue: not a question about labels that can be
            answered here; nothing was read.
    """
    query.check(inside.vault.facts)
    query.prepare(mechanism, inside.vault.relation)
    chosen = _chosen(inside, mechanism, query)
    inside.charge(mechanism, query.data.chain, f"{query.label} of {len(chosen)} records", 1)
    answer = guarded(lambda: _answer(inside, mechanism, query, chosen))
    if answer is None:
        # Raised here, where no frame holds a label: tracebacks keep frames.
        raise DataError(FAILED)
    return answer


def _chosen(inside: Inside, mechanism: RandomizedResponse,
            query: LabelQuery) -> NDArray[np.int64]:
    """Positions of the records that answer: from public facts alone, before anything is read."""
    vault = inside.vault
    assert vault.public is not None
    classes = len(vault.schema.target.categories)
    within = np.ones(vault.public.n, dtype=np.bool_)
    for step in query.data.steps:
        within &= inside.members.part(step, vault.public)
    chosen = query.among(np.flatnonzero(within), classes)
    wanted = classes if query.candidates is None else query.candidates.shape[1]
    if mechanism.num_buckets != wanted:
        raise UnsupportedNode(f"the answer has {wanted} buckets, the mechanism says "
                              f"{mechanism.num_buckets}; nothing was read")
    return chosen


def _answer(inside: Inside, mechanism: RandomizedResponse, query: LabelQuery,
            chosen: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """None if it failed: what went wrong may depend on the labels."""
    try:
        with inside.vault.open(inside.leave) as held:
            found = ask(held, Task(query, chosen), inside.members, inside.spends)
            return query.finish(found, Noise(mechanism, None, inside.source))
    except Exception:
        return None
