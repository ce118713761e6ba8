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

from privledger.errors import DataError, InvalidValue, NotGranted, UnsupportedNode
from privledger.graph import Context
from privledger.guard.inside import FAILED, Inside, Running, guarded
from privledger.guard.mirror import own_leaf, own_question
from privledger.guard.policing import keep_policy
from privledger.kernels.asking import Held, Round, Task, ask, round_of, sampling_rate_of
from privledger.ledger import Origins
from privledger.mechanisms import Gaussian, RandomizedResponse, SparseVector
from privledger.questions.cells import follows_records
from privledger.questions.derivation import Derivation
from privledger.questions.label_query import LabelQuery
from privledger.questions.query import Query
from privledger.questions.question import Noise
from privledger.questions.sums import DISCRETE
from privledger.questions.threshold import AboveThreshold, Crossing
from privledger.rounding import MOST_COUNT, count
from privledger.tables.chunk import ONE


def release(inside: Inside, mechanism: Any, query: Any, rollover: int,
            under: Context | None = None) -> Any:
    """As `Session.release`, on an open grant.

    Args:
        under: the part that `Session.within` confines the question to.
    """
    question, leaf = own_question(query, inside.vault), own_leaf(mechanism)
    if under is not None and question.data.chain[:1] != (under,):
        raise NotGranted("a question about other records than those of its part; "
                         "nothing was read")
    asserted = getattr(question, "asserted", False)
    if asserted and not inside.vouched:
        raise NotGranted("a trial with an asserted question needs a reason: pass why to `best_of`. "
                         "Nothing was read")
    _refuse_rows(question, leaf, inside)
    rounds = int(count("rollover", rollover, least=0, most=MOST_COUNT))
    if rounds and not (isinstance(question, Query) and any(
            step.context.kind == "filter" for step in question.data.steps)):
        raise InvalidValue("rollover", rounds, "left out: the handle is behind no individual "
                                               "filter. Nothing was read")
    if isinstance(question, LabelQuery):
        return release_labels(inside, leaf, question)
    question.check(inside.vault.facts)
    _refuse_places(question.data, question)
    if asserted:  # nothing else of a policy can change after the request
        keep_policy(inside.policy, Origins(asserted=(question.label,)))
    state = question.prepare(leaf, inside.vault.relation)
    if isinstance(question, AboveThreshold):
        return release_above(inside, leaf, question, state)
    task = Task(question, state, _round(inside, question, leaf, state, rounds))
    noise = Noise(leaf, state, inside.source,
                  ONE if inside.vault.facts.unit == "person" else 1)
    inside.vault.check(task)
    if task.round is not None:
        inside.members.check_fresh(question.data)
    inside.charge(leaf, question.data.chain, question.label, question.cell_count)
    if question.data.steps:
        inside.members.note(question.data)

    def look(held: Held) -> Any:
        # Finished before the rows are closed: some sketches are the records themselves.
        return question.finish(ask(held, task, inside.members, inside.spends), noise)

    return inside.read(look)


def _refuse_rows(question: Any, leaf: object, inside: Inside) -> None:
    """Under unit person a kind of question is asked only if it says what one person may move."""
    if inside.vault.facts.unit == "person" and type(leaf) in DISCRETE:
        raise UnsupportedNode(f"{type(leaf).__name__} is priced for one number, but a person may "
                              "contribute to several cells and parts. Use Gaussian or Laplace. "
                              "Nothing was read")
    if inside.vault.facts.unit == "person" and not getattr(question, "by_person", False):
        raise UnsupportedNode(f"{type(question).__name__} bounds what one row may change, but this "
                              "ledger protects people, who may have several rows. Nothing was "
                              "read")


def _refuse_places(data: Derivation, question: object) -> None:
    """A sample whose size counts is asked what follows from its records, wherever they stand."""
    if data.is_sized and (
            getattr(question, "votes", None) is not None
            or not follows_records(getattr(question, "cells", None))):
        raise UnsupportedNode("no price is proved for cells or votes by coins or positions on a "
                              "fixed-size or truncated sample. Nothing was read")


def _round(inside: Inside, question: Any, leaf: Any, state: Any, rollover: int) -> Round | None:
    """What records behind an individual filter pay; None where the handle is behind none."""
    tokens = _filters(inside, question.data)
    if not tokens:
        return None
    if not (isinstance(question, Query) and isinstance(leaf, Gaussian)):
        raise UnsupportedNode("individual filters accept Gaussian releases only")
    return round_of(tokens[0], inside.spends.node(tokens[0]),
                    [block.clip for block in question.blocks],
                    [recipe.weight for recipe in state.recipes],
                    sampling_rate_of(question.data), rollover)


def _filters(inside: Inside, data: Derivation) -> list[str]:
    """Tokens of the individual filters above a handle, each of them this grant's."""
    found = [step.context for step in data.steps if step.context.kind == "filter"]
    for context in found:
        inside.spends.check(context)
    return [context.token for context in found]


# Releases of single labels: randomised response, where only labels are protected.


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


# Runs of sparse vector: charged once, and over after so many times "above".


OVER = "the sparse-vector run has ended. Nothing was read"
"""After its last "above", and after anything went wrong: who sees a failure sees something."""


def release_above(inside: Inside, leaf: SparseVector, question: AboveThreshold,
                  state: Crossing) -> NDArray[np.int64]:
    """One answer of a run, 1 or 0; the first one takes the run's node off the plan.

    Raises:
        NotGranted: nothing reserved covers it, the run is over, or it is asked with another
            mechanism or of another handle than before; nothing was read.
    """
    query = question.query
    task = Task(query, state.summing)
    inside.vault.check(task)
    running = _running(inside, leaf, question, state)
    noise = Noise(leaf, evolve(state, level=state.threshold + running.noise), inside.source,
                  ONE if inside.vault.facts.unit == "person" else 1)
    left, running.left = running.left, 0

    def look(held: Held) -> NDArray[np.int64]:
        return question.finish(ask(held, task, inside.members, inside.spends), noise)

    answer: NDArray[np.int64] = inside.read(look)
    running.left = left - int(answer)
    return answer


def _running(inside: Inside, leaf: SparseVector, question: AboveThreshold,
             state: Crossing) -> Running:
    """The run so far, or a fresh one that was charged."""
    chain = question.data.chain[:question.run.depth]
    found = inside.runs.get(question.run)
    if found is None:
        inside.charge(leaf, chain, question.label, 1)
        inside.members.note(question.data)
        drawn = int(inside.source.laplace(state.run_noise, 1)[0])
        found = inside.runs[question.run] = Running(leaf, chain, drawn, leaf.cutoff)
    if found.leaf != leaf or found.chain != chain:
        raise NotGranted("a sparse-vector run must keep its mechanism and its handle. Nothing was "
                         "read")
    if not found.left:
        raise NotGranted(OVER)
    return found
