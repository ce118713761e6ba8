"""One release: the only way a noisy answer leaves the guard.

What was asked is copied first (mirror.py), then checked against the policy, the plan and
the grant's filters, then charged. Only then are rows read, and noise is added before anything
goes on. Nothing here takes a lock: the session that calls holds its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from privledger.errors import NotGranted, UnsupportedNode
from privledger.guard.dataset import Dataset
from privledger.guard.inside import Inside
from privledger.guard.labels import release_labels
from privledger.guard.mirror import own_leaf, own_question
from privledger.guard.policing import keep
from privledger.ledger import Origins
from privledger.mechanisms import Gaussian
from privledger.questions.cells import follows_records
from privledger.questions.label_query import LabelQuery
from privledger.questions.one_voice import Voices
from privledger.questions.query import Query
from privledger.questions.question import Noise
from privledger.rounding import MOST_COUNT, count
from privledger.tables.chunk import Rows
from privledger.tables.weighing import ONE


def release(inside: Inside, mechanism: Any, query: Any, rollover: int) -> Any:
    """As `Session.release`, on an open grant."""
    question, leaf = own_question(query, inside.vault), own_leaf(mechanism)
    asserted = getattr(question, "asserted", False)
    if asserted and not inside.vouched:
        raise NotGranted("a trial that asks something asserted says why, to `best_of`; "
                         "nothing was read")
    _refuse_rows(question, inside)
    if isinstance(question, LabelQuery):
        return release_labels(inside, leaf, question)
    question.check(inside.vault.facts)
    if asserted:  # nothing else of a policy can change after the request
        keep(inside.policy, Origins(asserted=(question.label,)))
    state = question.prepare(leaf, inside.vault.relation)
    noise = Noise(leaf, state, inside.source,
                  ONE if inside.vault.facts.unit == "person" else 1)
    filters = _filters(inside, question.data)
    if isinstance(question, Query):
        rounds = int(count("rollover", rollover, least=0, most=MOST_COUNT))
        inside.charge(leaf, question.data.chain, question.label, question.cell_count)
        return inside.read(lambda rows: _sums(inside, question, noise, rows, rounds),
                           lambda sums: question.finish(sums, noise))
    if filters:
        raise UnsupportedNode("individual filters take Gaussian releases only")
    inside.charge(leaf, question.data.chain, question.label, question.cell_count)
    # Finished before the rows are closed: some sketches are the records themselves.
    return inside.read(
        lambda rows: question.finish(
            question.sketch(inside.members.of(question.data, rows), state), noise),
        lambda answer: answer)


def _refuse_rows(question: Any, inside: Inside) -> None:
    """Under unit person a kind of question is asked only if it says what one person may move."""
    if inside.vault.facts.unit == "person" and not getattr(question, "by_person", False):
        raise UnsupportedNode(f"{type(question).__name__} bounds what one row may move, and this "
                              "ledger protects people, who have several; nothing was read")


def _filters(inside: Inside, data: Dataset) -> list[str]:
    """Tokens of the individual filters above a handle, each of them this grant's."""
    found = [step.context for step in data.steps if step.context.kind == "filter"]
    for context in found:
        inside.spends.check(context)
    return [context.token for context in found]


def _sums(inside: Inside, query: Query, noise: Noise, rows: Rows,
          rollover: int) -> tuple[NDArray[np.int64], ...]:
    """Whole numbers, before noise: one array per block, shape (cells, width)."""
    steps, state = query.data.steps, noise.state
    whole = not steps or (follows_records(query.cells) and all(
        step.context.kind == "part" for step in steps))
    if whole:  # a part is a table of its own, so that only its records cost
        return query.sketch(inside.members.of(query.data, rows) if steps else rows, state)
    if rows.people is not None:
        return query.told(_voices(inside, query, noise, rows, rollover), state)
    values = query.contributions(rows, state)
    mask = _mask(inside, query, noise, rows, rollover, values)
    return query.sketch(rows, evolve(state, values=values, mask=mask))


def _mask(inside: Inside, query: Query, noise: Noise, rows: Rows, rollover: int,
          values: list[NDArray[np.float64] | None]) -> NDArray[np.bool_] | None:
    """Who is behind a derived handle and can pay, shape (rows,); None for everybody."""
    members, data = inside.members, query.data
    mask, rate = members.mask(data, rows)
    tokens = _filters(inside, data)
    if tokens:
        if not isinstance(noise.mechanism, Gaussian):
            raise UnsupportedNode("individual filters take Gaussian releases only")
        active = inside.spends.admit(
            tokens[0], values, [block.clip for block in query.blocks],
            [recipe.weight for recipe in noise.state.recipes], mask, rows.n, rate, rollover)
        mask = active if mask is None else mask & active
    if rate < 1.0:
        if tokens:
            members.check_fresh(data)
        sampled = members.sample(data, rows)
        mask = sampled if mask is None else mask & sampled
    return mask


def _voices(inside: Inside, query: Query, noise: Noise, rows: Rows, rollover: int) -> Voices:
    """Under unit person: what those behind a derived handle say who can pay for it."""
    members, data = inside.members, query.data
    assert rows.n_people is not None
    mask, rate = members.mask(data, rows)
    said = query.voices(rows, evolve(noise.state, mask=mask))
    tokens = _filters(inside, data)
    if tokens:
        if not isinstance(noise.mechanism, Gaussian):
            raise UnsupportedNode("individual filters take Gaussian releases only")
        said = inside.spends.admit_people(
            tokens[0], said, [block.clip for block in query.blocks],
            [recipe.weight for recipe in noise.state.recipes], rows.n_people, rate, rollover)
    if rate < 1.0:
        if tokens:
            members.check_fresh(data)
        sampled = np.zeros(rows.n_people, dtype=np.bool_)
        sampled[rows.people] = members.sample(data, rows)
        said = said.of(sampled)
    return said
