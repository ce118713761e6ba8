"""Running scores of an additive model, kept per record inside the guard.

A learner describes the model (public start, released leaf values on public cells); the guard
keeps each record's score and hands out only queries about gradients. Updating scores is
post-processing plus a function of single records: it releases nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import define, field, frozen, setters
from numpy.typing import NDArray

from privledger.errors import InvalidValue, SchemaError
from privledger.questions.blocks import Block, runs, target_of
from privledger.questions.cells import (
    CategoryCells,
    Cells,
    CoinCells,
    IntervalCells,
    check_edges,
    to_edges,
)
from privledger.questions.grown import GrownCells, TreeCells
from privledger.questions.links import HIGHEST, MOST, curvatures, length, residuals, steps_of
from privledger.questions.row_encoding import MOST_COLUMNS, STEP, RowEncoding
from privledger.rounding import finite_array, moderate, number
from privledger.tables.chunk import Rows
from privledger.tables.columns import TableFacts
from privledger.tables.values import refuse

NUMBERS = ("squared", "huber", "poisson")
LOSSES = (*NUMBERS, "logistic", "softmax")
UPDATES: tuple[type, ...] = (TreeCells, GrownCells, CategoryCells, IntervalCells, CoinCells)
TERMS: tuple[type, ...] = (*UPDATES, RowEncoding)
"""What moves a score: a value for every cell, or a weight for every column of a row."""


def _start(value: Any) -> NDArray[np.float64]:
    return np.atleast_1d(finite_array("start", value))


def _largest(values: NDArray[np.float64]) -> int:
    return int(steps_of(np.abs(values).max()))


@define(eq=False)
class Score:
    """Score f(record) = start + sum of cell values and of linear terms; `loss` fixes gradient
    and hessian.

    The guard keeps it in whole steps of 2^-16, between -2^14 and 2^14: what is added is rounded to
    them once. Scale the target so that this is fine enough.

    Attributes:
        loss: `squared` (target scaled to (y - center) / scale), `huber` (the same, but no gradient
            beyond 1), `poisson` (the same of counts, whose mean is exp of the score), `logistic`
            (two classes), `softmax` (`width` classes).
        start: shape (width,), public or released.
        width: coordinates of a score: 1, or the number of classes for softmax.
    """

    loss: str = field(on_setattr=setters.frozen)
    start: NDArray[np.float64] = field(on_setattr=setters.frozen, converter=_start)
    center: float = field(default=0.0, on_setattr=setters.frozen)
    scale: float = field(default=1.0, on_setattr=setters.frozen)
    _updates: list[tuple[Any, NDArray[np.float64]]] = field(factory=list, init=False)
    _reach: int = field(default=0, init=False)  # no score is further from zero, in steps
    _checked: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise InvalidValue("loss", self.loss, f"one of {', '.join(LOSSES)}")
        if self.start.ndim != 1 or not len(self.start):
            raise InvalidValue("start", self.start.shape, "of shape (width,)")
        number("center", self.center)
        moderate("scale", self.scale)
        if self.loss not in NUMBERS and (self.center, self.scale) != (0.0, 1.0):
            raise InvalidValue("center, scale", self.loss, "left out: classes are not scaled")
        self._reach = _largest(self.start)

    @property
    def width(self) -> int:
        """Coordinates: 1, or the number of classes."""
        return len(self.start)

    def add(self, cells: Any, values: NDArray[np.float64]) -> None:
        """Add to every record's score.

        Args:
            cells: what a record has a value by: cells, or a `RowEncoding`, by which the record's
                vector is multiplied with `values` as weights.
            values: shape (cells.count,) or (cells.count, width).
        """
        if type(cells) not in TERMS:  # those of another score could change after the check
            refuse(cells)
        values = finite_array("leaf values", values)  # a copy: it does not change after the check
        expected = (cells.count,) if self.width == 1 else (cells.count, self.width)
        if values.shape != expected:
            raise InvalidValue("leaf values", values.shape, f"finite, of shape {expected}")
        more = cells.farthest(values) if type(cells) is RowEncoding else _largest(values)
        self._updates.append((cells, values))
        self._reach += more

    def updates(self, first: int = 0) -> list[tuple[Any, NDArray[np.float64]]]:
        """What was added so far, from the update numbered `first` on."""
        return self._updates[first:]

    def check(self, facts: TableFacts) -> None:
        """Refuse a loss that does not fit the target, or cells that do not fit the table."""
        target = facts.schema.target
        classes = len(target.categories)
        fits = {"logistic": classes == 2 and self.width == 1,
                "softmax": classes > 1 and self.width == classes}.get(
                    self.loss, facts.schema.task == "regression" and self.width == 1)
        if not fits:
            raise SchemaError(f"a {self.loss} score of width {self.width} does not fit the target "
                              f"column {target.name!r}")
        for cells, _ in self.updates(self._checked):  # of a copy: it belongs to one table
            cells.check(facts)
            self._checked += 1

    def gradient(self, clip: float, *, filtered: bool = False,
                 coordinate: int | None = None) -> Gradient:
        """Block of negative gradients, clipped to norm `clip`.

        Args:
            filtered: records whose gradient has L2 norm above `clip` contribute nothing.
            coordinate: one class of a softmax score only; then the block has width one.
        """
        width = self.width if coordinate is None else 1
        return Gradient(self, clip, width, filtered, coordinate)

    def hessian(self, within: float | None = None) -> Hessian:
        """Block of hessians scaled into [0, 1]: 1, 4p(1-p), or (1 - sum p^2) / (1 - 1/K).

        Args:
            within: records whose gradient has L2 norm above it contribute nothing.
        """
        return Hessian(self, within)

    def begin(self, n: int) -> NDArray[np.int32]:
        """Scores of `n` records before any update, in steps of 2^-16, (n,) or (n, width)."""
        start = steps_of(self.start)
        shape = (n,) if self.width == 1 else (n, self.width)
        return np.broadcast_to(start, shape).copy()

    def apply(self, scores: NDArray[np.int32], term: Any, values: NDArray[np.float64],
              rows: Rows) -> None:
        """Inside the guard: add one of the updates, in place."""
        if type(term) is RowEncoding:
            moves, cells = term.moves(rows, values), None
            np.clip(moves, -MOST, MOST, out=moves)
        else:
            steps, cells = steps_of(values), term.index(rows)
        room = self._reach <= MOST  # public: no score can leave the range
        for at in runs(len(scores)):
            here = scores[at]
            more = (moves[at].astype(np.int32) if cells is None
                    else steps.take(cells[at], axis=0))
            if room:
                here += more
            else:
                here[...] = np.clip(here.astype(np.int64) + more, -MOST, MOST)

    def of(self, rows: Rows) -> ScoresSoFar:
        """Inside the guard: scores with every update applied, in place."""
        running = rows.cache.get(self)
        kept = None if running is not None or rows.keep is None else rows.keep.scores(self)
        if kept is not None and kept[0] <= len(self._updates) and kept[1].dtype == np.int32:
            running = rows.cache[self] = ScoresSoFar(kept[1], kept[0])
        news = len(self._updates) > (running.applied if running is not None else -1)
        if running is None:
            running = rows.cache[self] = ScoresSoFar(self.begin(rows.n))
        for cells, values in self._updates[running.applied :]:
            self.apply(running.scores, cells, values, rows)
            running.applied += 1
        if rows.keep is not None and news:
            rows.keep.keep_scores(self, running.applied, running.scores)
        return running


@define(eq=False, repr=False)
class ScoresSoFar:
    """Scores of some records, int32, and how many updates are in them."""

    scores: NDArray[np.int32]
    applied: int = 0


def probabilities(loss: str, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean that a score stands for: identity, exp, logistic, or softmax along the last axis."""
    if loss == "poisson":
        return np.exp(np.clip(scores, -16.0, HIGHEST))
    if loss in NUMBERS:
        return scores
    if loss == "logistic":
        from scipy.special import expit

        return expit(scores)  # type: ignore[no-any-return]
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]


def _residuals(score: Score, rows: Rows, into: NDArray[np.float64] | None,
               bound: float | None) -> NDArray[np.bool_] | None:
    """Target minus mean, column by column.

    Args:
        into: where to, shape (width, n); None for nowhere.
        bound: records whose gradient has an L2 norm above it, or none at all, are set to zero.

    Returns:
        Who is within the bound, shape (n,); None without one.
    """
    scores, target = score.of(rows).scores, target_of(rows)
    inside = None if bound is None else np.empty(rows.n, dtype=np.bool_)
    for at in runs(rows.n):
        found = residuals(score.loss, scores[at], target[at], score.center, score.scale)
        if inside is not None and bound is not None:
            inside[at] = length(found) <= bound
            for column in found:
                column[~inside[at]] = 0.0
        if into is not None:
            for place, column in enumerate(found):
                into[place, at] = column
    return inside


def residuals_of(score: Score, rows: Rows) -> NDArray[np.float64]:
    """Inside the guard: target minus mean of every record, shape (width, n)."""
    found = np.empty((score.width, rows.n))
    _residuals(score, rows, found, None)
    return found


@frozen(eq=False)
class Gradient(Block):
    """Negative gradient of the loss, target minus mean.

    Attributes:
        filtered: records beyond the clip are left out, instead of clipped. Whether a record
            is in depends on that record and past outputs (docs/proofs/queries.md).
        coordinate: which class of a softmax score; None for all, or the only one.
    """

    score: Score
    clip: float
    width: int
    filtered: bool = False
    coordinate: int | None = None
    signed = True

    def __attrs_post_init__(self) -> None:
        moderate("clip", self.clip)
        if not isinstance(self.filtered, bool):
            raise InvalidValue("filtered", self.filtered, "True or False")
        if self.coordinate is None:
            expected = self.score.width
        else:
            expected = 1
            if type(self.coordinate) is not int or not 0 <= self.coordinate < self.score.width:
                raise InvalidValue("coordinate", self.coordinate, "a class of the score")
        if self.width != expected:
            raise InvalidValue("width", self.width, "the score's width, or 1 for a coordinate")

    def check(self, facts: TableFacts) -> None:
        """As `Block.check`: the score fits."""
        self.score.check(facts)

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """Before clipping, shape (n,) or (n, width); zero for records that are left out."""
        found = np.empty((self.score.width, rows.n))
        _residuals(self.score, rows, found, self.clip if self.filtered else None)
        if self.coordinate is None and self.width > 1:
            return found.T
        one: NDArray[np.float64] = found[self.coordinate or 0]
        return one

    def inside(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Which records take part, shape (n,); None for all."""
        return _within(self.score, rows, self.clip) if self.filtered else None


@frozen(eq=False)
class LinearGradient(Block):
    """The negative gradient of a loss by the weights of a linear score: residual x encoded row.

    One vector per record for all classes, clipped as one; class by class, in each the columns of
    the encoding.

    Attributes:
        encoding: of the row.
        clip: largest L2 norm of one record's vector (L1 under Laplace noise); a longer one is
            shortened as a whole.
        score: whose residual, target minus mean; None for the encoded row itself.
    """

    encoding: RowEncoding
    clip: float
    score: Score | None = None
    signed = True
    finer = 2.0**-6  # residuals are cut to steps that are longer by 2^8: an encoded row is whole

    def __attrs_post_init__(self) -> None:
        moderate("clip", self.clip)
        if self.width > MOST_COLUMNS:
            raise InvalidValue("encoding", self.width, f"at most {MOST_COLUMNS} numbers a record")

    @property
    def width(self) -> int:
        """Numbers per record: columns times classes."""
        return self.encoding.count * (1 if self.score is None else self.score.width)

    @property
    def reads_target(self) -> bool:
        """Whether there is a residual."""
        return self.score is not None

    def check(self, facts: TableFacts) -> None:
        """As `Block.check`: encoding and score fit the table."""
        self.encoding.check(facts)
        if self.score is not None:
            self.score.check(facts)

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """Every record's vector before clipping, shape (n, width)."""
        return self._vectors(rows, self._factors(rows))

    def on_grid(self, rows: Rows, norm: int, grid: float) -> NDArray[np.float64]:
        """Every record's vector, clipped, in whole grid steps: residual cut to steps x row."""
        return self._vectors(rows, self._cut(rows, norm, grid)) * (grid / STEP)

    def total(self, rows: Rows, norm: int, grid: float,
              mask: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """What `on_grid` adds up to over the records of `mask`, in grid steps, exactly."""
        factors = self._cut(rows, norm, grid)
        if mask is not None:
            factors[:, ~mask] = 0.0
        return self.encoding.sums(rows, factors).reshape(1, -1)

    def _factors(self, rows: Rows) -> NDArray[np.float64]:
        """What the encoded row is multiplied by, shape (width of the score, n)."""
        return np.ones((1, rows.n)) if self.score is None else residuals_of(self.score, rows)

    def _cut(self, rows: Rows, norm: int, grid: float) -> NDArray[np.float64]:
        """The same, so short that the product is within the clip, in whole steps of grid / 2^-8;
        what rounding may add is left free. A factor that is not finite is zero."""
        factors, step = self._factors(rows), grid / STEP
        width = len(factors)
        room = step / 2 * (width if norm == 1 else math.sqrt(width))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            most = np.maximum(self.clip / self._lengths(rows, norm) - room, 0.0)
            most /= length(list(factors), norm)
            np.minimum(most, 1.0, out=most)
            most /= step
            factors *= most
        if not np.isfinite(factors).all():
            factors[~np.isfinite(factors)] = 0.0
        return np.rint(factors, out=factors)

    def _lengths(self, rows: Rows, norm: int) -> NDArray[np.float64]:
        held = self.encoding.of(rows)
        known = rows.cache.setdefault(held, {})
        if norm not in known:
            known[norm] = held.lengths(norm)
        found: NDArray[np.float64] = known[norm]
        return found

    def _vectors(self, rows: Rows, factors: NDArray[np.float64]) -> NDArray[np.float64]:
        held = self.encoding.dense(self.encoding.of(rows)).T
        found = np.empty((len(factors), len(held), rows.n))
        np.multiply(held, factors[:, None], out=found)
        return found.reshape(len(factors) * len(held), rows.n).T


def _within(score: Score, rows: Rows, bound: float) -> NDArray[np.bool_]:
    """Whose gradient has L2 norm at most `bound`; one that is not a number is out."""
    inside = _residuals(score, rows, None, bound)
    assert inside is not None
    return inside


@frozen(eq=False)
class Hessian(Block):
    """Second derivative of the loss, scaled so that its largest value is one.

    Attributes:
        within: records whose gradient is longer contribute nothing; None for no limit.
    """

    score: Score
    within: float | None = None

    def __attrs_post_init__(self) -> None:
        if self.within is not None:
            moderate("within", self.within)

    def check(self, facts: TableFacts) -> None:
        """As `Block.check`: the score fits."""
        self.score.check(facts)

    def values(self, rows: Rows) -> NDArray[np.float64] | None:
        """Scaled second derivatives, shape (n,); None where every record counts one."""
        if self.within is None:
            return self._all(rows)
        inside = _within(self.score, rows, self.within).astype(np.float64)
        every = self._all(rows)
        return inside if every is None else np.multiply(every, inside, out=inside)

    def _all(self, rows: Rows) -> NDArray[np.float64] | None:
        if self.score.loss in ("squared", "huber"):
            return None
        scores, found = self.score.of(rows).scores, np.empty(rows.n)
        for at in runs(rows.n):
            found[at] = curvatures(self.score.loss, scores[at])
        return found


@frozen(eq=False)
class ResidualCells(Cells):
    """Cells between public edges of |target - mean| under a score."""

    score: Score
    edges: tuple[float, ...] = field(converter=to_edges)
    has_coins = False

    def __attrs_post_init__(self) -> None:
        check_edges(self.edges)

    @property
    def count(self) -> int:
        """One cell more than edges: a residual is never missing."""
        return len(self.edges) + 1

    @property
    def below(self) -> tuple[Score]:
        """What may move on."""
        return (self.score,)

    def check(self, facts: TableFacts) -> None:
        """As `Cells.check`: the score fits."""
        self.score.check(facts)

    def index(self, rows: Rows) -> NDArray[Any]:
        """As `Cells.index`, under the score as it stands now."""
        size = length(list(residuals_of(self.score, rows)))
        return np.searchsorted(self.edges, size, side="right")
