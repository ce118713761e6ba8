"""Runs of sparse vector: charged once, and over after so many times "above"."""

from __future__ import annotations

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from privledger.errors import NotGranted
from privledger.guard.inside import Inside, Running
from privledger.kernels.asking import Held, Task, ask
from privledger.mechanisms import SparseVector
from privledger.questions.question import Noise
from privledger.questions.threshold import AboveThreshold, Crossing
from privledger.tables.chunk import ONE

OVER = "the run of sparse vector is over; nothing was read"
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
        raise NotGranted("a run of sparse vector keeps its mechanism and its handle; nothing was "
                         "read")
    if not found.left:
        raise NotGranted(OVER)
    return found
