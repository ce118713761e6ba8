"""Which of a stream of sums is above its threshold: sparse vector (docs/proofs/sparse-vector.md).

A run pays once, for its threshold's noise and for so many times "above", however many questions
say "below". What is published is single bits: no numbers, and no gaps.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privledger.errors import UnsupportedNode
from privledger.graph.selection import SparseVector
from privledger.questions.cells import follows_records
from privledger.questions.query import Query, Running, RunStep, Summing
from privledger.questions.question import Noise
from privledger.questions.sums import MORE, Recipe, grid_for
from privledger.rounding import count, downward, moderate, number, upward
from privledger.tables.columns import TableFacts

MOST_DEPTH = 100
MOST_STEPS = 1 << 62
"""Of a threshold: beyond that every answer is known."""


def _depth(value: object) -> int:
    return count("depth", value, least=0, most=MOST_DEPTH)


def _threshold(value: object) -> float:
    return number("threshold", value)


@frozen(eq=False, repr=False)
class ThresholdRun:
    """One run of sparse vector on one handle; made by `Dataset.sparse_vector`.

    Attributes:
        depth: how many steps of a question's derivation lead to the handle of the run: the node
            stands there in the plan.
    """

    depth: int = field(default=0, converter=_depth)

    def above(self, query: Query, threshold: float) -> AboveThreshold:
        """Whether a sum is above a public number.

        Args:
            query: of one number without cells, such as `count` and `sum`, of the run's handle or
                of a part of it that records decide. It may follow from earlier answers.
            threshold: in the unit of the query's answer; may follow from earlier answers.
        """
        if type(query) is not Query or len(query.blocks) != 1 or query.cells is not None:
            raise UnsupportedNode("sparse vector compares one number without cells; nothing was "
                                  "read")
        return AboveThreshold(query.data, query.blocks[0], query.what, self, threshold)

    def check(self, facts: TableFacts) -> None:
        """Nothing of a table goes into it."""


@frozen(eq=False)
class Crossing(Summing):
    """How one comparison is made, in whole steps of the node's grid. Public.

    Attributes:
        threshold: rounded down to whole steps.
        run_noise, noise: Laplace parameters of the threshold, and of the sum.
        level: the threshold with the run's noise, once it is drawn; that is not public.
    """

    threshold: int = 0
    run_noise: float = 0.0
    noise: float = 0.0
    level: int | None = None


@frozen(eq=False, repr=False)
class AboveThreshold(RunStep):
    """Whether one sum with noise is at least a threshold with the run's noise.

    Attributes:
        run: which run it belongs to. threshold: public, in the unit of the sum.
    """

    run: ThresholdRun
    threshold: float = field(converter=_threshold)
    stream = "sums above thresholds"

    def prepare(self, mechanism: object, relation: str) -> Crossing:
        """As `Ask.prepare`: one grid for the whole run, from the node alone.

        Raises:
            UnsupportedNode: another mechanism, or a sum that moves further than the node says, or
                in another direction than other sums may.
        """
        if type(mechanism) is not SparseVector:
            raise UnsupportedNode("a stream of thresholds takes SparseVector; nothing was read")
        bound = self.sensitivity(self.block, relation, 1)
        if not bound <= mechanism.sensitivity * MORE:
            raise UnsupportedNode(f"one record moves the sum by {upward(bound)}, the mechanism "
                                  f"says {downward(mechanism.sensitivity)}; nothing was read")
        if mechanism.monotone and (relation != "add_remove" or self.block.signed):
            raise UnsupportedNode("a monotone stream is of sums that no record lowers, in a "
                                  "ledger of relation add_remove; nothing was read")
        scales = [moderate("noise", scale * MORE * MORE)
                  for scale in (mechanism.threshold_scale, mechanism.query_scale)]
        grid = grid_for(mechanism.sensitivity, max(scales))
        threshold = math.floor(Fraction(self.threshold) / Fraction(grid))
        return Crossing((Recipe(grid, scales[1] / grid, 0.0),), 1, relation=relation,
                        threshold=max(-MOST_STEPS, min(threshold, MOST_STEPS)),
                        run_noise=scales[0] / grid, noise=scales[1] / grid)

    def begin(self, noise: Noise) -> tuple[int, int]:
        """As `RunStep.begin`: the node's cutoff, and the noise of the threshold."""
        return noise.mechanism.cutoff, int(noise.source.laplace(noise.state.run_noise, 1)[0])

    def turn(self, noise: Noise, run: Running, facts: TableFacts) -> tuple[AboveThreshold, Noise]:
        """As `RunStep.turn`."""
        level = noise.state.threshold + run.held
        return self, evolve(noise, state=evolve(noise.state, level=level))

    def takes(self, answer: NDArray[np.int64]) -> int:
        """As `RunStep.takes`: 1 for above; what is below is free."""
        return int(answer)

    def finish(self, merged: tuple[NDArray[np.int64], ...], noise: Noise) -> NDArray[np.int64]:
        """As `Ask.finish`: 1 for above and 0 for below, shape ()."""
        state: Crossing = noise.state
        assert state.level is not None, "the run's noise is drawn first"
        drawn = int(noise.source.laplace(state.noise, 1)[0])
        return np.array(int(int(merged[0][0, 0]) + drawn >= state.level), dtype=np.int64)

    def fits(self, facts: TableFacts) -> None:
        """As `Ask.fits`: as the query, and below the run's handle only what follows from
        the records: a sample there would be asked at the price of all."""
        super().fits(facts)
        if self.asserted or self.block.width != 1:
            raise UnsupportedNode("sparse vector compares one number whose sensitivity is "
                                  "derived; nothing was read")
        above, below = self.data.steps[:self.run.depth], self.data.steps[self.run.depth:]
        if len(above) != self.run.depth or any(
                step.context.kind == "filter" for step in above) or not all(
                step.context.kind == "part" and follows_records(step.cells) for step in below):
            raise UnsupportedNode("a run of sparse vector asks its own handle, which is behind no "
                                  "filter, and parts of it that records decide; nothing was read")
