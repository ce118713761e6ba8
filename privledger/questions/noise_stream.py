"""Sums with correlated noise: the rows of C x plus noise, one step after another.

A run pays once for all its steps, by its `Correlated` node. The raw sums of the last steps stay in
the guard, as whole numbers; what leaves is each row with noise of its own. Proof:
docs/proofs/correlated.md, "How it is released".
"""

from __future__ import annotations

import secrets
from collections import deque

import numpy as np
from attrs import Factory, define, evolve, field, frozen
from numpy.typing import NDArray

from privledger.errors import UnsupportedNode
from privledger.graph import Context, Correlated
from privledger.graph.correlated import GRID, whole_coefficients
from privledger.questions.cells import Cells
from privledger.questions.query import Query, Running, RunStep, Summing
from privledger.questions.question import Noise, Step, follows_people
from privledger.tables.columns import TableFacts


@frozen(eq=False, repr=False)
class NoiseStream:
    """One run of sums with correlated noise on one handle; made by `Dataset.correlated`.

    Attributes:
        groups: cells of which each record, or person, is in one for the whole run; step t asks
            the records of cell t modulo their number. None: every step asks all records.
    """

    groups: Cells | None = None
    depth = None  # the node stands where all steps of a question's derivation lead

    def step(self, query: Query) -> CorrelatedSum:
        """The next row of the run: C times the sums so far, with noise. `nodes.step_sums` makes of
        the rows so far the sum of each step with correlated noise.

        Args:
            query: of one block, with cells or without, of the run's handle. It may follow from
                earlier rows; its clip and its shape are the same in every step.
        """
        if type(query) is not Query or len(query.blocks) != 1:
            raise UnsupportedNode("correlated noise is added to a query of one block; nothing was "
                                  "read")
        return CorrelatedSum(query.data, query.blocks[0], query.what, self, query.cells)

    def check(self, facts: TableFacts) -> None:
        """Each group is asked as a part of the handle, which checks its cells."""


@define(eq=False, repr=False)
class Strand:
    """What the guard keeps of one run. Never leaves it.

    Attributes:
        form: grid, noise and shape of every step.
        coefficients: of C, in whole steps. rate: of each step's sample; 1 for none.
        past: raw sums of the last steps, the newest first.
        token: tells the run's groups and samples from all others.
    """

    form: tuple[object, ...]
    coefficients: tuple[int, ...]
    rate: float
    past: deque[NDArray[np.int64]] = field(
        init=False, default=Factory(lambda own: deque(maxlen=len(own.coefficients)),
                                    takes_self=True))
    token: str = field(init=False, factory=lambda: secrets.token_hex(8))

    def row(self, sums: NDArray[np.int64]) -> NDArray[np.object_]:
        """The next row of C x, exactly: Python's whole numbers, of any size."""
        self.past.appendleft(sums)
        row: NDArray[np.object_] = np.zeros(sums.shape, dtype=object)
        for coefficient, earlier in zip(self.coefficients, self.past, strict=False):
            row += coefficient * earlier.astype(object)
        return row


@frozen(eq=False)
class Stepping(Summing):
    """How one step is made; the strand is not public."""

    strand: Strand | None = None


@frozen(eq=False, repr=False)
class CorrelatedSum(RunStep):
    """One step of a run: its row of C x, with noise drawn for this row alone.

    Attributes:
        run: which run it belongs to. cells: the block is added up once for each of these.
    """

    run: NoiseStream
    cells: Cells | None
    stream = "sums with correlated noise"

    def prepare(self, mechanism: object, relation: str) -> Stepping:
        """As `Ask.prepare`: grid and noise of one step.

        Raises:
            UnsupportedNode: another mechanism or relation, coefficients that are not whole steps,
                or records that may take part more often than the node says.
        """
        if type(mechanism) is not Correlated or relation != "add_remove":
            raise UnsupportedNode("a stream of correlated noise takes its Correlated node, in a "
                                  "ledger of relation add_remove; nothing was read")
        groups = 1 if self.run.groups is None else self.run.groups.count
        if groups < mechanism.separation or (
                -(-mechanism.steps // groups) > mechanism.participations):
            raise UnsupportedNode(
                f"in {mechanism.steps} steps of {groups} groups in turn a record takes part more "
                "often, or at smaller distances, than the Correlated node says; nothing was read")
        made = super().prepare(mechanism.gaussian, relation)
        recipe = made.recipes[0]
        form = recipe.grid, recipe.noise, self.cell_count, self.block.width
        return Stepping(made.recipes, made.norm,
                        strand=Strand(form, whole_coefficients(mechanism), mechanism.rate))

    def begin(self, noise: Noise) -> tuple[int, Strand]:
        """As `RunStep.begin`: the node's steps, and the strand that this first one made."""
        return noise.mechanism.steps, noise.state.strand

    def turn(self, noise: Noise, run: Running, facts: TableFacts) -> tuple[CorrelatedSum, Noise]:
        """As `RunStep.turn`.

        Raises:
            UnsupportedNode: a step of another clip or shape.
        """
        strand: Strand = run.held
        if strand.form != noise.state.strand.form:
            raise UnsupportedNode("every step of correlated noise has the same clip and shape. "
                                  "Nothing was read")
        return (self.at(noise.mechanism.steps - run.left, strand, facts),
                evolve(noise, state=evolve(noise.state, strand=strand)))

    def at(self, step: int, strand: Strand, facts: TableFacts) -> CorrelatedSum:
        """The same question of the records whose turn it is, and who are drawn.

        Raises:
            PrivledgerError: the groups do not fit the table; nothing was read.
        """
        groups, steps = self.run.groups, self.data.steps
        if groups is not None:
            steps += (Step(Context(
                "part", strand.token, part=step % groups.count, parts=groups.count,
                certificate=groups.certificate(facts.public_features)), groups),)
        if strand.rate < 1:
            steps += (Step(Context("poisson", f"{strand.token}-{step}", rate=strand.rate)),)
        data = evolve(self.data, steps=steps)
        data.check(facts)
        data.check_labelled(facts, self.reads_target, self.wording)
        return evolve(self, data=data)

    def noised(self, merged: tuple[NDArray[np.int64], ...], noise: Noise
               ) -> list[NDArray[np.float64]]:
        """As `Sum.noised`: the row and its noise, in whole steps of the coefficients' grid."""
        state: Stepping = noise.state
        assert state.strand is not None
        (recipe,), row = state.recipes, state.strand.row(merged[0])
        drawn = noise.source.gaussian(recipe.noise * GRID, row.size).reshape(row.shape)
        return [(row + drawn).astype(np.float64) * (recipe.grid / GRID)]

    def fits(self, facts: TableFacts) -> None:
        """As `Ask.fits`: as the query, of the whole table or of parts."""
        super().fits(facts)
        groups = self.run.groups
        if self.asserted or any(step.context.kind != "part" for step in self.data.steps):
            raise UnsupportedNode("no price is proved for correlated noise on a sample or behind a "
                                  "filter, or on an asserted sensitivity; nothing was read")
        if groups is not None and facts.unit == "person" and not follows_people(groups, facts):
            raise UnsupportedNode("groups that may split one person's records: a person would take "
                                  "part in several steps. Use groups by coins; nothing was read")
