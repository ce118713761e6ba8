"""One release: the only way a noisy answer leaves the guard.

What was asked is copied first (mirror.py), then checked against the policy, the plan and
the grant's filters, then charged. Only then are rows read, and noise is added before anything
goes on. Nothing here takes a lock: the session that calls holds its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import NotGranted, UnsupportedNode
from privledger.guard.aggregate import Recipe, add_noise, cell_sums, recipes
from privledger.guard.choosing import (
    Asked,
    choose,
    choose_features,
    choose_labels,
    rate_of,
)
from privledger.guard.dataset import Dataset
from privledger.guard.inside import Inside
from privledger.guard.labels import release_labels
from privledger.guard.mirror import own_leaf, own_question
from privledger.guard.policing import keep
from privledger.ledger import Origins
from privledger.mechanisms import Gaussian, Laplace
from privledger.questions.blocks import clipped
from privledger.questions.cells import follows_records
from privledger.questions.choice import LabelChoice
from privledger.questions.feature_choice import FeatureChoice
from privledger.questions.label_query import LabelQuery
from privledger.questions.query import Query
from privledger.rounding import MOST_COUNT, count
from privledger.tables.chunk import Rows

Answer = NDArray[np.float64]


def release(inside: Inside, mechanism: Any, query: Any, rollover: int) -> Any:
    """As `Session.release`, on an open grant."""
    question, leaf = own_question(query, inside.vault), own_leaf(mechanism)
    asserted = getattr(question, "asserted", False)
    if asserted and not inside.vouched:
        raise NotGranted("a trial that asks something asserted says why, to `best_of`; "
                         "nothing was read")
    if isinstance(question, LabelQuery):
        return release_labels(inside, leaf, question)
    sums = isinstance(question, Query)
    question.check(inside.vault.facts)
    if asserted:  # nothing else of a policy can change after the request
        keep(inside.policy, Origins(asserted=(question.label,)))
    return _measure(inside, leaf, question, rollover) if sums else _choose(inside, leaf, question)


def _measure(inside: Inside, mechanism: Any, query: Query,
             rollover: int) -> Answer | list[Answer]:
    """Noisy sums."""
    # Exact types: a stranger may say that it equals a reserved node and be quieter.
    if type(mechanism) not in (Gaussian, Laplace):
        raise UnsupportedNode(f"no exact sampler for {type(mechanism).__name__} in this "
                              "version; nothing was read")
    _filters(inside, query.data)
    rounds = int(count("rollover", rollover, least=0, most=MOST_COUNT))
    made = recipes(mechanism, query, inside.vault.relation)
    inside.charge(mechanism, query.data.chain, query.label, query.cell_count)
    noisy = inside.read(
        lambda rows: _sums(query, made, _taken(inside, query, mechanism, made, rows, rounds)),
        lambda sums: add_noise(mechanism, sums, made, inside.source))
    answers = [_shape(array, query) for array in noisy]
    return answers[0] if len(answers) == 1 else answers


def _choose(inside: Inside, mechanism: Any, choice: Asked) -> Any:
    """A selection in every leaf, or of features."""
    if _filters(inside, choice.data):
        raise UnsupportedNode("individual filters take Gaussian releases only")
    rate = rate_of(mechanism, choice, inside.vault.relation)
    inside.charge(mechanism, choice.data.chain, choice.label, choice.cell_count)
    chosen: Callable[..., Any] = choose
    if isinstance(choice, FeatureChoice):
        chosen = choose_features
    elif isinstance(choice, LabelChoice):
        chosen = choose_labels
    return inside.read(
        lambda rows: chosen(mechanism, choice, rate, inside.members.of(choice.data, rows),
                            inside.source),
        lambda picked: picked)


def _filters(inside: Inside, data: Dataset) -> list[str]:
    """Tokens of the individual filters above a handle, each of them this grant's."""
    found = [step.context for step in data.steps if step.context.kind == "filter"]
    for context in found:
        inside.spends.check(context)
    return [context.token for context in found]


@frozen
class _Taken:
    """What one release reads: contributions after clipping and filtering, and who is in."""

    values: list[NDArray[np.float64] | None]
    cells: NDArray[Any] | None
    mask: NDArray[np.bool_] | None
    n_rows: int


def _taken(inside: Inside, query: Query, mechanism: Any, made: tuple[Recipe, ...], rows: Rows,
           rollover: int) -> _Taken:
    steps, mask = query.data.steps, None
    whole = not steps or (follows_records(query.cells) and all(
        step.context.kind == "part" for step in steps))
    if steps and whole:  # a part is a table of its own, so that only its records cost
        rows = inside.members.of(query.data, rows)
    norm = 1 if isinstance(mechanism, Laplace) else 2
    values = [clipped(block, rows, norm) for block in query.blocks]
    if not whole:
        mask = _mask(inside, query, mechanism, made, rows, rollover, values)
    cells = None if query.cells is None else query.cells.index(rows)
    return _Taken(values, cells, mask, rows.features.n_rows)


def _mask(inside: Inside, query: Query, mechanism: Any, made: tuple[Recipe, ...], rows: Rows,
          rollover: int, values: list[NDArray[np.float64] | None]) -> NDArray[np.bool_] | None:
    """Who is behind a derived handle and can pay, shape (rows,); None for everybody."""
    members, data = inside.members, query.data
    mask, rate = members.mask(data, rows)
    tokens = _filters(inside, data)
    if tokens:
        if not isinstance(mechanism, Gaussian):
            raise UnsupportedNode("individual filters take Gaussian releases only")
        active = inside.spends.admit(
            tokens[0], values, [block.clip for block in query.blocks],
            [recipe.weight for recipe in made], mask, rows.n, rate, rollover)
        mask = active if mask is None else mask & active
    if rate < 1.0:
        if tokens:
            members.check_fresh(data)
        sampled = members.sample(data, rows)
        mask = sampled if mask is None else mask & sampled
    return mask


def _sums(query: Query, made: tuple[Recipe, ...], taken: _Taken) -> list[NDArray[np.int64]]:
    """Whole numbers, before noise: one array per block, shape (cells, width)."""
    cells, n_rows, mask = taken.cells, taken.n_rows, taken.mask
    if mask is not None and mask.all():
        mask = None
    if mask is not None:
        cells = None if cells is None else cells[mask]
        n_rows = int(mask.sum())
    sums = []
    for block, recipe, values in zip(query.blocks, made, taken.values, strict=True):
        kept = values if values is None or mask is None else values[mask]
        sums.append(cell_sums(kept, recipe.grid, cells, query.cell_count, n_rows,
                              block.width, math.ceil(block.clip / recipe.grid)))
    return sums


def _shape(array: NDArray[np.float64], query: Query) -> NDArray[np.float64]:
    if query.cells is None:
        array = array[0]
    if array.shape[-1] == 1:
        array = array[..., 0]
    return array
