"""One release: the only way a noisy answer leaves the guard.

What was asked is copied first (trusted_copy.py), then checked against the policy, the plan and
the grant's filters, then charged. Only then are rows read, and noise is added before anything
goes on. Nothing here takes a lock: the session that calls holds its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from privledger.errors import InvalidValue, NotGranted, UnsupportedNode
from privledger.graph import Context
from privledger.graph.additive import Gaussian
from privledger.guard.inside import Inside
from privledger.guard.policing import keep_policy
from privledger.guard.trusted_copy import own_leaf, own_question
from privledger.ledger import Origins
from privledger.questions.asking import Held, Round, Task, ask, round_of, sampling_rate_of
from privledger.questions.label_query import LabelQuery
from privledger.questions.query import Running, RunStep
from privledger.questions.question import Ask, Derivation, Noise
from privledger.questions.sums import DISCRETE
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
    if question.asserted and not inside.vouched:
        raise NotGranted("a trial with an asserted question needs a reason: pass why to `best_of`. "
                         "Nothing was read")
    _refuse_rows(question, leaf, inside)
    rounds = int(count("rollover", rollover, least=0, most=MOST_COUNT))
    if rounds and not (question.clips and any(
            step.context.kind == "filter" for step in question.data.steps)):
        raise InvalidValue("rollover", rounds, "left out: the handle is behind no individual "
                                               "filter. Nothing was read")
    question.check(inside.vault.facts)
    if question.data.is_sized and not question.follows_records:
        raise UnsupportedNode("no price is proved for cells or votes by coins or positions on a "
                              "fixed-size or truncated sample. Nothing was read")
    if question.asserted:  # nothing else of a policy can change after the request
        keep_policy(inside.policy, Origins(asserted=(question.label,)))
    state = question.prepare(leaf, inside.vault.relation)
    if question.by_position:
        state = _positions(inside, question)
    task = Task(question, state, _round(inside, question, leaf, state, rounds))
    noise = Noise(leaf, state, inside.source,
                  ONE if inside.vault.facts.unit == "person" else 1)
    inside.vault.check(task)
    if question.run is not None:
        return _step(inside, question, task, noise)
    if task.round is not None:
        inside.members.check_fresh(question.data)
    inside.charge(leaf, question.data.chain, question.noted(state), question.cell_count)
    if question.data.steps:
        inside.members.note(question.data)
    answer = _answer(inside, task, noise)
    _let_go(inside, question.data.chain)
    return answer


def _let_go(inside: Inside, chain: tuple[Context, ...]) -> None:
    """Free the samples of a derivation that the plan has no release left for. A run was charged
    when it began: while one goes on, all are kept."""
    if not any(run.left for run in inside.runs.values()):
        for place, step in enumerate(chain):
            if step.is_sample and inside.meter.is_over(chain[:place + 1]):
                inside.members.let_go(step)


def _answer(inside: Inside, task: Task, noise: Noise) -> Any:
    def look(held: Held) -> Any:
        # Finished before the rows are closed: some sketches are the records themselves.
        return task.question.finish(ask(held, task, inside.members, inside.spends), noise)

    return inside.read(look)


def _refuse_rows(question: Ask, leaf: object, inside: Inside) -> None:
    """Under unit person a kind of question is asked only if it says what one person may move."""
    if inside.vault.facts.unit == "person" and type(leaf) in DISCRETE:
        raise UnsupportedNode(f"{type(leaf).__name__} is priced for one number, but a person may "
                              "contribute to several cells and parts. Use Gaussian or Laplace. "
                              "Nothing was read")
    if inside.vault.facts.unit == "person" and not question.by_person:
        raise UnsupportedNode(f"{type(question).__name__} bounds what one row may change, but this "
                              "ledger protects people, who may have several rows. Nothing was "
                              "read")


def _positions(inside: Inside, question: LabelQuery) -> NDArray[np.int64]:
    """Positions of the records that answer: from public facts alone, before anything is read."""
    public = inside.vault.public
    assert public is not None
    within = inside.members.mask(question.data, public)
    return question.among(
        np.arange(public.n) if within is None else np.flatnonzero(within),
        len(inside.vault.schema.target.categories))


def _round(inside: Inside, question: Ask, leaf: Any, state: Any, rollover: int) -> Round | None:
    """What records behind an individual filter pay; None where the handle is behind none."""
    tokens = _filters(inside, question.data)
    if not tokens:
        return None
    if not question.clips or type(leaf) is not Gaussian:
        raise UnsupportedNode("individual filters accept Gaussian releases only")
    return round_of(tokens[0], inside.spends.node(tokens[0]),
                    question.clips,
                    [recipe.weight for recipe in state.recipes],
                    sampling_rate_of(question.data), rollover)


def _filters(inside: Inside, data: Derivation) -> list[str]:
    """Tokens of the individual filters above a handle, each of them this grant's."""
    found = [step.context for step in data.steps if step.context.kind == "filter"]
    for context in found:
        inside.spends.check(context)
    return [context.token for context in found]


OVER = "the run has ended. Nothing was read"
"""At its end, and after anything went wrong: who sees a failure sees something."""


def _step(inside: Inside, question: RunStep, task: Task, noise: Noise) -> Any:
    """One answer of a run; the first one takes the run's node, for all of them, off the plan.

    Raises:
        NotGranted: the run is over, or it is asked with another mechanism or of another handle
            than before; nothing was read.
    """
    leaf, chain = noise.mechanism, question.data.chain[:question.run.depth]
    run = inside.runs.get(question.run) or Running(leaf, chain, *question.begin(noise))
    own, noise = question.turn(noise, run, inside.vault.facts)
    if question.run not in inside.runs:
        inside.charge(leaf, chain, question.label, question.cell_count)
        inside.members.note(question.data)
        inside.runs[question.run] = run
    if run.leaf != leaf or run.chain != chain:
        raise NotGranted("a run must keep its mechanism and its handle. Nothing was read")
    if not run.left:
        raise NotGranted(OVER)
    left, run.left = run.left, 0  # until its answer is there
    answer = _answer(inside, evolve(task, question=own), noise)
    run.left = left - question.takes(answer)
    for step in own.data.chain[len(question.data.chain):]:  # drawn for this answer alone
        if step.is_sample:
            inside.members.let_go(step)
    _let_go(inside, question.data.chain)
    return answer
