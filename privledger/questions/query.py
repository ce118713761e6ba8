"""Queries: what to add up over which cells, with the sensitivity that follows.

Sensitivities (docs/proofs/queries.md). A record touches one cell of each block. With c the
clip of a block:

    add_remove            L1 and L2: c
    replace_one, 1 cell   signed 2c, unsigned of width 1 c, unsigned and wider as k cells
    replace_one, k cells  signed 2c; unsigned: L2 sqrt(2) c, L1 2c
    replace_label         as replace_one; as 1 cell if a label cannot decide the cell
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.graph import Context
from privledger.graph.additive import Laplace
from privledger.questions.blocks import Block, ClassIs
from privledger.questions.cells import Cells, MappedCells, depends_on_label
from privledger.questions.person_vectors import BoundRule, PersonVectors, person_vectors
from privledger.questions.question import Ask, Derivation, Noise, derivation_of
from privledger.questions.sums import DISCRETE, Recipe, add_noise, cell_sums, recipes, whole_recipe
from privledger.questions.two_classes import looked_up
from privledger.rounding import up
from privledger.tables.chunk import Rows
from privledger.tables.columns import TableFacts


def _blocks(value: Any) -> tuple[Any, ...]:
    return tuple(value)


@frozen(eq=False, repr=False)
class Summing:
    """How one release adds up. Public, but for what the guard puts in where a handle is derived.

    Attributes:
        recipes: grid and noise of every block.
        norm: in which contributions are clipped, 1 or 2.
        values: contributions of the chunk after a filter, one array or None per block.
        mask: who takes part, shape (n,); None for all.
        relation: the neighbouring relation. shares: of the mechanism, empty for one block.
    """

    recipes: tuple[Recipe, ...]
    norm: int
    values: list[NDArray[np.float64] | None] | None = None
    mask: NDArray[np.bool_] | None = None
    relation: str = "add_remove"
    shares: tuple[float, ...] = ()


@frozen(eq=False, repr=False)
class Sum(Ask):
    """Clipped summands of records, added up in every group, with noise on the sums."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The summands, released together."""
        raise NotImplementedError

    @property
    def clips(self) -> tuple[float, ...]:
        """As `Ask.clips`: of every block."""
        return tuple(block.clip for block in self.blocks)

    @property
    def reasons(self) -> tuple[str, ...]:
        """As `Ask.reasons`: of blocks that an author vouches for."""
        return tuple(block.why for block in self.blocks if block.asserted)

    @property
    def apart(self) -> bool:
        """As `Ask.apart`: for parts by records alone, so that only theirs cost. Else every row is
        looked at, and those who are not asked, or cannot pay, add nothing."""
        steps = self.data.steps
        return not steps or (self.follows_records and all(
            step.context.kind == "part" for step in steps))

    def sensitivity(self, block: Block, relation: str, norm: int) -> float:
        """Bound on how far one neighbour moves the block, in the L1 or L2 norm."""
        if relation == "add_remove":
            return block.clip
        if block.signed:
            return 2 * block.clip
        if not self._moves(relation) and block.width == 1:
            return block.clip
        return up(math.sqrt(2) * block.clip) if norm == 2 else 2 * block.clip

    def _moves(self, relation: str) -> bool:
        """Whether a neighbour may leave one cell and come into another."""
        return relation != "add_remove" and self.cell_count > 1 and (
            relation != "replace_label" or depends_on_label(self.cells))

    def prepare(self, mechanism: Any, relation: str) -> Summing:
        """As `Ask.prepare`: a grid and a noise scale for every block."""
        if type(mechanism) in DISCRETE:
            whole = whole_recipe(mechanism, self.blocks, relation, self._moves(relation))
            return Summing((whole,), 2, relation=relation)
        made = recipes(mechanism, lambda norm: [self.sensitivity(block, relation, norm)
                                                for block in self.blocks], self._per_class())
        made = tuple(Recipe(one.grid * block.finer, one.noise / block.finer, one.weight)
                     for one, block in zip(made, self.blocks, strict=True))
        return Summing(made, 1 if type(mechanism) is Laplace else 2, relation=relation,
                       shares=() if type(mechanism) is Laplace else mechanism.shares)

    def _per_class(self) -> str:
        """What to do instead of asking for counts of several classes, one by one."""
        if len(self.blocks) < 2 or not any(type(block) is ClassIs for block in self.blocks):
            return ""
        return ("; counts per class are one count per cell, of sensitivity 1: "
                "CrossCells(cells, data.cells(TARGET)), or data.histogram(TARGET) without cells")

    def contributions(self, chunk: Rows, state: Summing) -> list[NDArray[np.float64] | None]:
        """Inside the guard: what every record adds to each block, clipped; None means one."""
        return [block.on_grid(chunk, state.norm, recipe.grid)
                for block, recipe in zip(self.blocks, state.recipes, strict=True)]

    def sketch(self, chunk: Rows, state: Summing) -> tuple[NDArray[np.int64], ...]:
        """As `Ask.sketch`: sums in grid steps, one array of shape (cells, width) per block.

        Contributions are cut towards zero to whole steps first, so sums do not depend on the
        order or the chunk (docs/proofs/gaussian.md). Under unit person a chunk holds everything
        that its people have in the table or part.
        """
        if chunk.people is not None:
            return self.told(self.person_vectors(chunk, state), state)
        cells, mask = self._places(chunk, state)
        if state.values is None and cells is None:
            whole = [block.total(chunk, state.norm, recipe.grid, mask)
                     for block, recipe in zip(self.blocks, state.recipes, strict=True)]
            if all(one is not None for one in whole):
                return tuple(one for one in whole if one is not None)
        if state.values is None and cells is not None and mask is None:
            known = looked_up(self.blocks, state.recipes, state.norm, chunk, cells, self.cell_count)
            if known is not None:
                return known
        values = self.contributions(chunk, state) if state.values is None else state.values
        n_rows = chunk.n
        if mask is not None:
            cells = None if cells is None else cells[mask]
            values = [array if array is None else array[mask] for array in values]
            n_rows = int(mask.sum())
        return self._added(values, cells, n_rows, state)

    def person_vectors(self, chunk: Rows, state: Summing) -> PersonVectors:
        """Inside the guard, under unit person: what each person says (docs/proofs/people.md)."""
        assert chunk.people is not None
        assert chunk.mass is not None
        assert chunk.n_people is not None
        values = self.contributions(chunk, state) if state.values is None else state.values
        cells, here = self._places(chunk, state)
        people, mass = chunk.people, chunk.mass
        if here is not None:
            values = [array if array is None else array[here] for array in values]
            people, mass, cells = people[here], mass[here], None if cells is None else cells[here]
        return person_vectors(values, people, mass, chunk.n_people, cells, self.cell_count,
                      self._bound_rule(state))

    def _places(self, chunk: Rows, state: Summing
                ) -> tuple[NDArray[Any] | None, NDArray[np.bool_] | None]:
        """Cell of each record, and who takes part; None for all. Rows that the cells leave
        aside do not: for people, too, it is as if they were not there."""
        cells = None if self.cells is None else np.asarray(self.cells.index(chunk))
        mask = state.mask
        if cells is not None and type(self.cells) is MappedCells and self.cells.rest:
            inside = cells < self.cells.count - 1
            mask = inside if mask is None else mask & inside
        return cells, None if mask is None or mask.all() else mask

    def _bound_rule(self, state: Summing) -> BoundRule:
        shares = state.shares or (1.0,)
        total = math.fsum(shares)
        return BoundRule(state.norm, state.relation, self.clips,
                      None if state.norm == 1 else [share / total for share in shares],
                      any(step.context.kind == "part" for step in self.data.steps))

    def told(self, said: PersonVectors, state: Summing) -> tuple[NDArray[np.int64], ...]:
        """Inside the guard: what people say, in whole grid steps, added up."""
        return self._added(said.values, said.cell, len(said.who), state)

    def _added(self, values: Sequence[NDArray[np.float64] | None], cells: NDArray[Any] | None,
               n: int, state: Summing) -> tuple[NDArray[np.int64], ...]:
        return tuple(
            cell_sums(array, recipe.grid, cells, self.cell_count, n, block.width,
                      math.ceil(block.clip / recipe.grid))
            for block, recipe, array in zip(self.blocks, state.recipes, values, strict=True))

    def noised(self, merged: tuple[NDArray[np.int64], ...], noise: Noise
               ) -> list[NDArray[np.float64]]:
        """The sums with their noise, in the query's own unit, shape (cells, width) each."""
        return add_noise(noise.mechanism, merged, noise.state.recipes, noise.source)

    def finish(self, merged: tuple[NDArray[np.int64], ...], noise: Noise) -> Any:
        """As `Ask.finish`: one array per block, and without a list if there is one block."""
        noisy = [array if self.cells is not None else array[0]
                 for array in self.noised(merged, noise)]
        answers = [array[..., 0] if array.shape[-1] == 1 else array for array in noisy]
        return answers[0] if len(answers) == 1 else answers

    @property
    def reads_target(self) -> bool:
        """If a block or the cells do."""
        return any(block.reads_target for block in self.blocks) or (
            self.cells is not None and self.cells.reads_label)

    def fits(self, facts: TableFacts) -> None:
        """As `Ask.fits`: blocks and cells fit the table."""
        for block in self.blocks:
            block.check(facts)
        if self.cells is not None:
            self.cells.check(facts)


@define(eq=False, repr=False)
class Running:
    """One run of several questions that one node pays for, inside the guard.

    Attributes:
        leaf: the node that paid for it. chain: where it stands.
        left: how many times "above", or steps, are left.
        held: noise of a threshold, in steps, drawn once; or the strand of correlated noise.
    """

    leaf: Any
    chain: tuple[Context, ...]
    left: int
    held: Any


@frozen(eq=False, repr=False)
class RunStep(Sum):
    """One step of a run: several questions of one handle that one node pays for, at the first.

    Attributes:
        block: what is added up. stream: what the run's answers are, for the ledger.
    """

    data: Derivation = field(converter=derivation_of)
    block: Block
    what: str
    by_person = True
    stream = "sums"

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The summand."""
        return (self.block,)

    @property
    def label(self) -> str:
        """What the ledger records, of the first step of the run."""
        return f"a stream of {self.stream}, from: {self.what}"

    def begin(self, noise: Noise) -> tuple[int, Any]:
        """Inside the guard, at the first step: how much the node pays for, and what is kept until
        the run's end, which never leaves the guard."""
        raise NotImplementedError

    def turn(self, noise: Noise, run: Running, facts: TableFacts) -> tuple[Ask, Noise]:
        """This step's own question, and what is drawn with; nothing is read before."""
        raise NotImplementedError

    def takes(self, answer: Any) -> int:
        """How much of what is left this answer takes."""
        return 1


@frozen(eq=False, repr=False)
class Query(Sum):
    """One question about one handle.

    Attributes:
        blocks: statistics released together.
        cells: answered once per cell of a partition, or once for the whole handle.
    """

    blocks: tuple[Block, ...] = field(converter=_blocks)
    cells: Cells | None = None
    what: str = "query"
    by_person = True

    def __attrs_post_init__(self) -> None:
        if not self.blocks:
            raise InvalidValue("Query blocks", (), "at least one block")
