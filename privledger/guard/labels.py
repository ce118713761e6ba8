"""Releases of single labels: randomised response, where only labels are protected."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privledger.errors import DataError, UnsupportedNode
from privledger.guard.inside import FAILED, Inside, guarded
from privledger.mechanisms import RandomizedResponse
from privledger.noise.source import NoiseSource
from privledger.questions.blocks import target_of
from privledger.questions.label_query import LabelQuery


def release_labels(inside: Inside, mechanism: Any, query: LabelQuery) -> NDArray[Any]:
    """One noisy class position per record, int64, shape (records asked,).

    Raises:
        NotGranted: nothing reserved covers it; nothing was read.
        UnsupportedNode, RelationMismatch, InvalidValue: not a question about labels that can be
            answered here; nothing was read.
    """
    query.check(inside.vault.facts)
    if type(mechanism) is not RandomizedResponse:
        raise UnsupportedNode("single labels take RandomizedResponse; nothing was read")
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
        with inside.vault.open(inside.leave) as rows:
            codes = target_of(rows)[chosen].astype(np.int64)
            return respond(inside.source, codes, query.candidates, mechanism)
    except Exception:
        return None


def respond(source: NoiseSource, codes: NDArray[np.int64],
            candidates: NDArray[np.int64] | None,
            mechanism: RandomizedResponse) -> NDArray[np.int64]:
    """Randomised response over every class, or over each record's own candidates.

    A label outside of its candidates counts as a uniform draw from them, so what is answered
    is randomised response of some candidate (docs/proofs/relations.md).
    """
    buckets, noise = mechanism.num_buckets, mechanism.noise_parameter
    if candidates is None:
        return source.randomized_response(codes, buckets, noise)
    held = candidates == codes[:, None]
    others = source.uniform_below(np.full(len(codes), buckets))
    slots = np.where(held.any(axis=1), held.argmax(axis=1), others)
    answered = source.randomized_response(slots.astype(np.int64), buckets, noise)
    return np.take_along_axis(candidates, answered[:, None], axis=1)[:, 0]
