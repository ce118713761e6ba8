"""A tree of released tables: made consistent, sampled from, and shown. Post-processing only.

Every column is counted in fine cells beside the target; pairs of columns that the tree joins are
counted in coarse bins of these cells. docs/synthetic.md says how, and what it comes to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from attrs import evolve, frozen

import privledger as pl
from privledger_learners.linear_model import wide_range

GRID, MOST_FINE, ROUNDS, TINY = 4096, 100, 60, 1e-12


@frozen(eq=False)
class FineCells:
    """The public fine cells of one column.

    Attributes:
        column: of the schema.
        of_bin: fine cell of each bin of a `Bins` of GRID cells, the one for missing included.
        borders: of the cells of numbers, shape (cells + 1,); empty for categories.
        size: how many cells, with one for missing values where the schema allows them.
    """

    column: pl.Column
    of_bin: np.ndarray
    borders: np.ndarray
    size: int

    @property
    def categories(self) -> bool:
        """Whether cells are categories, which have no order unless the schema says so."""
        return self.column.kind == "categorical"

    def values(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A value of the column for each cell, uniform within it; the lower bound in the first
        cell of a one-sided wide range."""
        column, known = self.column, self.size - column_gap(self.column)
        gone = cells >= known
        inside = np.where(gone, 0, cells)
        if self.categories:
            found = np.asarray(column.labels)[inside]
            if gone.any():
                found = found.astype(object)
                found[gone] = None
            return found
        low, high, at = self.borders[inside], self.borders[inside + 1], rng.random(len(cells))
        if column.integer:
            first = np.ceil(low)
            last = np.maximum(np.where(inside == known - 1, np.floor(high), np.ceil(high) - 1),
                              first)
            value = first + np.floor(at * (last - first + 1))
        else:
            value = low + at * (high - low)
        if wide_range(column):
            value = np.where(inside == 0, column.lower, value)
        value = np.clip(value, column.lower, column.upper)
        if column.integer and not gone.any():
            return np.asarray(value.astype(np.int64))
        return np.where(gone, np.nan, value)


def column_gap(column: pl.Column) -> int:
    """One cell more where values may be missing."""
    return 1 if column.missing else 0


def fine_cells(schema: pl.Schema) -> tuple[FineCells, ...]:
    """The public fine cells of every feature."""
    bins = pl.questions.Bins(schema, GRID)
    return tuple(_fine(bins, place, column) for place, column in enumerate(schema.features))


def _fine(bins: pl.questions.Bins, place: int, column: pl.Column) -> FineCells:
    size = bins.sizes()[place] - 1
    if column.kind == "categorical" or size <= MOST_FINE:
        starts = np.arange(size)
    elif wide_range(column):
        starts = np.unique(np.r_[0, np.rint(np.geomspace(1, size, MOST_FINE))]).astype(int)[:-1]
    else:
        starts = np.unique(np.floor(np.linspace(0, size, MOST_FINE + 1))).astype(int)[:-1]
    of_bin = np.searchsorted(starts, np.arange(size + 1), side="right") - 1
    of_bin[-1] = len(starts) if column.missing else 0
    borders = (np.zeros(0) if column.kind == "categorical"
               else np.r_[bins.edges(place)[starts], bins.edges(place)[-1]])
    return FineCells(column, of_bin.astype(np.uint16), borders, len(starts) + column_gap(column))


def target_cells(schema: pl.Schema) -> FineCells:
    """The same of a numeric target, which is a column like the others in a tree of pairs."""
    alone = evolve(schema.target, role="feature", missing=False, missing_value_marker=None)
    return fine_cells(pl.Schema("target", (alone,)))[0]


@frozen(eq=False)
class TableTree:
    """Released values only: tables that agree with each other, along a tree of columns.

    Attributes:
        schema: of the table.
        level: records of each class of a categorical target; of all otherwise: shape (k,).
        fine: records by fine cell and class, of every column: shape (cells, k) each. The last
            column is a numeric target; the others are the features.
        coarse: bin of each fine cell of every column.
        parent: the column that each column follows, -1 for none but the class.
        joint: records by bin of the parent, bin and class: shape (bins, bins, k); empty arrays
            for columns without a parent.
    """

    schema: pl.Schema
    level: np.ndarray
    fine: tuple[np.ndarray, ...]
    coarse: tuple[np.ndarray, ...]
    parent: np.ndarray
    joint: tuple[np.ndarray, ...]

    @property
    def classed(self) -> bool:
        """Whether the target is the class beside which everything is counted."""
        return self.schema.target.kind == "categorical"

    @property
    def cells(self) -> tuple[FineCells, ...]:
        """Public cells of every column of the tree."""
        found = fine_cells(self.schema)
        return found if self.classed else (*found, target_cells(self.schema))

    @property
    def order(self) -> list[int]:
        """Columns, each behind the one that it follows."""
        placed: list[int] = []
        while len(placed) < len(self.parent):
            placed += [place for place, above in enumerate(self.parent.tolist())
                       if place not in placed and (above < 0 or above in placed)]
        return placed

    def binned(self, place: int) -> np.ndarray:
        """Records by coarse bin and class of one column, shape (bins, k)."""
        return together(self.fine[place], self.coarse[place])

    def given_parent(self, place: int) -> np.ndarray:
        """Probability of a bin given the parent's bin and the class; a parent of one bin stands
        for none: shape (bins of the parent, bins, k)."""
        own = self.binned(place)
        table = self.joint[place] if self.parent[place] >= 0 else own[None]
        whole = table.sum(axis=1, keepdims=True)
        usual = own / np.maximum(own.sum(axis=0), TINY)
        return np.asarray(np.where(whole > 1e-6, table / np.maximum(whole, TINY), usual[None]))

    def drawn_cells(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, list[np.ndarray]]:
        """Classes and fine cells of `n` synthetic records, with frequencies as near to the
        tables as whole numbers can be."""
        classes = rounded(self.level, n, rng)
        k, bins = len(self.level), list[np.ndarray](np.zeros((len(self.parent), n), dtype=int))
        cells = list[np.ndarray](np.zeros((len(self.parent), n), dtype=int))
        for place in self.order:
            above = int(self.parent[place])
            key = classes if above < 0 else classes + k * bins[above]
            shares = self.given_parent(place)
            for value, members in grouped(key):
                bins[place][members] = rounded(shares[value // k, :, value % k], len(members), rng)
            fine, coarse = self.fine[place], self.coarse[place]
            for value, members in grouped(classes + k * bins[place]):
                held = np.where(coarse == value // k, fine[:, value % k], 0.0)
                if not held.sum() > 0:
                    held = (coarse == value // k).astype(float)
                cells[place][members] = rounded(held, len(members), rng)
        return classes, cells

    def sample(self, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Columns of a synthetic table of `n` records, in the schema's types and order."""
        classes, cells = self.drawn_cells(n, rng)
        target = self.schema.target
        made = {one.column.name: one.values(held, rng)
                for one, held in zip(self.cells, cells, strict=True)}
        if self.classed:
            made[target.name] = np.asarray(target.labels)[classes]
        return {column.name: made[column.name] for column in self.schema.columns
                if column.name in made}

    def log_probabilities(self, X: object) -> np.ndarray:
        """Log probability of the fine cells of every row's features, the target summed over:
        shape (n,)."""
        columns = pl.encode_features(X, self.schema, strict=False)
        codes = pl.questions.Bins(self.schema, GRID).codes(columns)
        fine = [one.of_bin[code] for one, code in zip(fine_cells(self.schema), codes, strict=True)]
        bins = [self.coarse[place][held] for place, held in enumerate(fine)]
        prior, last = self.level, len(fine)
        if not self.classed:  # the target's own bins take the place of classes
            prior = self.binned(last)[:, 0]
        found = np.log(np.maximum(prior / max(prior.sum(), TINY), TINY))[None].repeat(
            columns.n_rows, axis=0)
        for place in range(last):
            shares, above = self.given_parent(place), int(self.parent[place])
            if above == last and not self.classed:
                chance = shares[:, bins[place], 0].T
            else:
                chance = shares[bins[above] if above >= 0 else 0, bins[place], :]
            held = self.fine[place][fine[place]] / np.maximum(
                self.binned(place)[bins[place]], TINY)
            found = found + np.log(np.maximum(chance, TINY)) + np.log(np.maximum(held, TINY))
        most = found.max(axis=1, keepdims=True)
        return np.asarray(np.log(np.exp(found - most).sum(axis=1)) + most[:, 0])

    def marginals(self, rng: np.random.Generator, n: int = 10_000) -> list[tuple[str, np.ndarray,
                                                                                np.ndarray]]:
        """Name, released shares and a sample's shares of the bins of every column."""
        classes, cells = self.drawn_cells(n, rng)
        shown = [(one.column.name, self.binned(place).sum(axis=1),
                  np.bincount(self.coarse[place][held], minlength=len(self.binned(place))))
                 for place, (one, held) in enumerate(zip(self.cells, cells, strict=True))]
        if self.classed:
            shown.append((self.schema.target.name, self.level,
                          np.bincount(classes, minlength=len(self.level))))
        return [(name, one / max(one.sum(), TINY), two / n) for name, one, two in shown]

    def _repr_html_(self) -> str:
        """Every released marginal beside a sample's, as bars."""
        return "<div>" + "".join(
            f"<figure style='display:inline-block;margin:4px'><figcaption>{escape(name)}"
            f"</figcaption>{_bars(one, two)}</figure>" for name, one, two in self.marginals(
                np.random.default_rng(0))) + "<p>Released, and of a sample of 10,000 (lighter)"
        "</p></div>"


def _bars(one: np.ndarray, two: np.ndarray) -> str:
    """Two rows of bars as SVG."""
    most, width = max(float(one.max()), float(two.max()), TINY), 160 / len(one)
    parts = [f"<rect x='{place * width + shift * width / 2:.1f}' width='{width * 0.4:.1f}' "
             f"y='{60 - 58 * share / most:.1f}' height='{58 * share / most:.1f}' fill='{ink}'>"
             f"<title>{share:.3f}</title></rect>"
             for shift, ink, shares in ((0, "#2a5d8f", one), (1, "#9dbbd6", two))
             for place, share in enumerate(shares.tolist())]
    return f"<svg width='160' height='60' role='img'>{''.join(parts)}</svg>"


# From noisy tables to tables that agree.


def together(table: np.ndarray, coarse: np.ndarray) -> np.ndarray:
    """Rows of fine cells added up to their bins."""
    found = np.zeros((int(coarse.max()) + 1, *table.shape[1:]))
    np.add.at(found, coarse, table)
    return found


def onto_simplex(table: np.ndarray, total: float) -> np.ndarray:
    """The nearest table in L2 that is at least zero and sums to `total`."""
    if not total > 0:
        return np.zeros_like(table)
    flat = np.sort(np.ravel(table))[::-1]
    shift = (np.cumsum(flat) - total) / np.arange(1, flat.size + 1)
    return np.asarray(np.maximum(table - shift[np.flatnonzero(flat > shift)[-1]], 0.0))


def to_level(table: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Each class's column, at least zero and of the class's size: shape (cells, k)."""
    return np.stack([onto_simplex(table[:, k], level[k]) for k in range(len(level))], axis=1)


def level_of(tables: Sequence[np.ndarray]) -> np.ndarray:
    """Class sizes from all tables, each weighed by how little noise its sums have: shape (k,)."""
    weight = np.array([1 / len(table) for table in tables])
    whole = np.stack([table.sum(axis=0) for table in tables])
    found = np.maximum(weight @ whole / weight.sum(), 0.0)
    return found if found.sum() > 0 else np.ones(len(found))


def pooled(two: Sequence[np.ndarray], coarse: Sequence[np.ndarray],
           three: Mapping[tuple[int, int], np.ndarray], noise: tuple[float, float],
           level: np.ndarray) -> list[np.ndarray]:
    """Bins by class of every column, from its own table and the margins of pairs, each weighed
    by its noise, at least zero and of each class's size.

    Args:
        noise: standard deviations of the cells of `two` and of `three`.
    """
    found = []
    for place, (table, bins) in enumerate(zip(two, coarse, strict=True)):
        trust = 1 / (noise[0] ** 2 * np.bincount(bins))[:, None]
        top, under = together(table, bins) * trust, trust
        for pair, block in three.items():
            if place in pair:
                other = 1 - pair.index(place)
                other_trust = 1 / (noise[1] ** 2 * block.shape[other])
                top, under = top + block.sum(axis=other) * other_trust, under + other_trust
        found.append(to_level(top / under, level))
    return found


def settled(two: Sequence[np.ndarray], coarse: Sequence[np.ndarray],
            three: Mapping[tuple[int, int], np.ndarray], noise: tuple[float, float],
            schema: pl.Schema, root: int | None) -> TableTree:
    """The consistent tree of noisy tables; pairs point from the root outwards."""
    level = level_of(two)
    bins = pooled(two, coarse, three, noise, level)
    fine = []
    for table, held, whole in zip(two, coarse, bins, strict=True):
        own = np.zeros_like(table)
        for k in range(len(level)):
            for one in range(len(whole)):
                own[held == one, k] = onto_simplex(table[held == one, k], whole[one, k])
        fine.append(own)
    parent, joint = np.full(len(two), -1), [np.zeros((0, 0, 0))] * len(two)
    for above, below in directed(len(two), list(three), root):
        block = three[above, below] if (above, below) in three else three[
            below, above].transpose(1, 0, 2)
        parent[below] = above
        joint[below] = np.stack([_fitted(block[:, :, k], bins[above][:, k], bins[below][:, k])
                                 for k in range(len(level))], axis=2)
    return TableTree(schema, level, tuple(fine), tuple(coarse), parent, tuple(joint))


def directed(columns: int, pairs: Sequence[tuple[int, int]],
             root: int | None) -> list[tuple[int, int]]:
    """The pairs of a forest, each from the column that is nearer to its root."""
    degree = np.bincount(np.ravel(pairs).astype(int), minlength=columns)
    first = [] if root is None else [root]
    seen, found = set[int](), list[tuple[int, int]]()
    for start in (*first, *np.argsort(-degree, kind="stable").tolist()):
        waiting = [] if start in seen else [start]
        seen.add(start)
        while waiting:
            here = waiting.pop(0)
            for one, two in pairs:
                there = two if one == here else one if two == here else here
                if there not in seen:
                    seen.add(there)
                    found.append((here, there))
                    waiting.append(there)
    return found


def _fitted(table: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The noisy table with these margins: moved onto them, cut at zero, proportionally fitted."""
    moved = table + ((rows - table.sum(axis=1)) / table.shape[1])[:, None]
    moved = moved + ((columns - moved.sum(axis=0)) / table.shape[0])[None]
    moved = onto_simplex(moved, float(rows.sum())) + 1e-9
    for _ in range(ROUNDS):
        moved = moved * (rows / np.maximum(moved.sum(axis=1), TINY))[:, None]
        moved = moved * (columns / np.maximum(moved.sum(axis=0), TINY))[None]
    return np.asarray(moved)


# Sampling with controlled rounding.


def grouped(key: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Every value of a key, and where it stands."""
    order = np.argsort(key, kind="stable")
    values, starts = np.unique(key[order], return_index=True)
    return list(zip(values.tolist(), np.split(order, starts[1:]), strict=True))


def rounded(shares: np.ndarray, many: int, rng: np.random.Generator) -> np.ndarray:
    """So many positions in random order, each as often as its share says, rounded up or down."""
    whole = float(shares.sum())
    part = shares / whole if whole > 0 else np.full(len(shares), 1 / len(shares))
    reached = np.floor(np.r_[0.0, np.cumsum(part)[:-1] * many] + rng.random())
    counts = np.diff(np.r_[np.minimum(reached, many), many]).astype(int)
    return np.asarray(rng.permutation(np.repeat(np.arange(len(shares)), counts)))


def coarse_bins(table: np.ndarray, noise: float, cells: FineCells, most: int) -> np.ndarray:
    """Bin of each fine cell from its noisy counts: numbers in runs of about equal mass, categories
    that stand out by themselves and the others together; missing values apart.

    Args:
        table: noisy counts, shape (cells, k). noise: of each. most: bins, at most.
    """
    counts, known = table.sum(axis=1), cells.size - column_gap(cells.column)
    spread = noise * math.sqrt(table.shape[1])
    if cells.categories and not cells.column.ordered:
        counts = counts[:known]
        clear = np.argsort(-counts, kind="stable")[:max(1, most - 1 if known > most else most)]
        clear = clear[counts[clear] > 2 * spread] if known > 2 else np.arange(known)
        found = np.full(known, len(clear))
        found[np.sort(clear)] = np.arange(len(clear))
        if len(clear) == known - 1:
            found = np.arange(known)
    else:
        found = runs_of_mass(counts[:known], spread, most)
    return np.asarray(np.r_[found, [found.max() + 1] * (cells.size - known)], dtype=np.int64)


def runs_of_mass(counts: np.ndarray, noise: float, most: int) -> np.ndarray:
    """Cells in order, in at most `most` runs of about equal mass; a cell that alone has a run's
    mass is a run."""
    if len(counts) <= most:
        return np.arange(len(counts))
    sure = np.where(counts > 2 * noise, counts, np.maximum(counts, 0.0) * 0.5)
    mass = sure / max(sure.sum(), TINY) + 0.02 / len(counts)
    mass = mass / mass.sum()
    found, run, held, left = np.zeros(len(counts), dtype=int), 0, 0.0, 1.0
    for place, one in enumerate(mass):
        share = left / max(most - run, 1)
        if held > 0 and held + one / 2 > share and run < most - 1:
            run, left, held = run + 1, left - held, 0.0
        found[place] = run
        held += one
    return found
