"""A released linear model: a public map from rows to vectors, and weights for its columns."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from attrs import field, frozen

import privledger as pl

ONE_HOT, MOST_REACH, STEEP = 1.4, 64.0, 1e9


Encoded: TypeAlias = Any
"""What `pl.encode_features` makes of rows."""


@frozen(eq=False, slots=False)
class LinearModel:
    """Released values only: score = start + weights x encoded row.

    Attributes:
        schema: of the table. centers, scales: of every feature. wide: on a logarithmic scale.
        hinges: whether there is a second column for every number. reach: of a row's vector.
        start: shape (width,). weights: shape (columns, width).
        center, scale: target = center + scale x score (regression).
        waves: public turns of random Fourier features, shape (waves, numbers + 1); none.
        steep: of the logarithmic scale of a wide range, as `RowEncoding` has it.
        loss: by which it was found; empty where nothing was.
    """

    schema: pl.Schema
    centers: np.ndarray
    scales: np.ndarray
    wide: np.ndarray
    hinges: bool
    reach: float
    start: np.ndarray
    weights: np.ndarray
    center: float = 0.0
    scale: float = 1.0
    n_hat: float = field(default=0.0, metadata={"model": False})
    waves: np.ndarray = field(factory=lambda: np.zeros((0, 0)))
    loss: str = ""
    steep: float = 1000.0

    @classmethod
    def blank(cls, schema: pl.Schema, start: np.ndarray, center: float, scale: float) -> Self:
        """A model that says `start` of every row."""
        many = len(schema.features)
        columns = 1 + sum(len(column.categories) or 1 for column in schema.features)
        return cls(schema, np.zeros(many), np.ones(many), np.zeros(many, bool), False, 1.0, start,
                   np.zeros((columns, len(start))), center, scale)

    @cached_property
    def encoding(self) -> pl.questions.RowEncoding:
        """The public map from a row to its vector."""
        return encoding_of(self.schema, self.wide, self.centers, self.scales,
                           "hinge" if self.hinges else "", self.reach, self.waves,
                           self.steep)

    def added(self, score: pl.questions.Score) -> pl.questions.Score:
        """The same of guarded rows: a score that begins with `start`, and the weights on top."""
        weights = self.weights
        score.add(self.encoding, weights[:, 0] if weights.shape[1] == 1 else weights)
        return score

    def scores(self, columns: Encoded) -> np.ndarray:
        """Scores of encoded rows that the caller owns, shape (n,) or (n, classes)."""
        # Whole steps on both sides: exact, so the same for any batch and on any machine.
        exact = self.encoding.vectors(columns) @ np.rint(self.weights * 2.0**16)
        found = self.start + exact * 2.0**-16
        return np.asarray(found[:, 0] if found.shape[1] == 1 else found)

    def scores_of(self, codes: tuple[np.ndarray, ...], bins: pl.questions.Bins) -> np.ndarray:
        """Scores at the middles of public bins, from one array of codes per feature."""
        return self.scores(pl.encode_features(middles(codes, bins), self.schema, strict=False))


def middles(codes: tuple[np.ndarray, ...], bins: pl.questions.Bins) -> dict[str, np.ndarray]:
    """A table of the bins' middles and categories; the last bin of a feature is missing."""
    found = {}
    for place, column in enumerate(bins.schema.features):
        if column.kind == "numeric":
            edges = bins.edges(place)
            values = np.append((edges[:-1] + edges[1:]) / 2, np.nan)
        else:
            values = np.array([*column.categories, None], dtype=object)
        found[column.name] = values[codes[place]]
    return found


def encoding_of(schema: pl.Schema, wide: np.ndarray, centers: np.ndarray, scales: np.ndarray,
                beside: str, reach: float, waves: np.ndarray | tuple[()] = (),
                steep: float = 1000.0) -> pl.questions.RowEncoding:
    """The public map from a row to its vector, for all features of a schema."""
    return pl.questions.RowEncoding(
        [column.name for column in schema.features],
        [len(column.categories) for column in schema.features], centers, scales,
        [bool(one) for one in wide], beside, ONE_HOT, min(reach, MOST_REACH), waves, steep)


def fourier_waves(numbers: int, many: int, turns: float) -> np.ndarray:
    """Directions and phases of random Fourier features (Rahimi and Recht 2007), by public coins.

    Args:
        turns: standard deviation of the turns per unit, over all numbers together.
    """
    rng = np.random.default_rng(0)  # the same for every model of so many numbers
    coins = rng.uniform(size=(2, many, numbers))  # two make one of a normal law
    directions = np.sqrt(-2 * np.log1p(-coins[0])) * np.cos(2 * np.pi * coins[1])
    return np.column_stack([directions * turns / np.sqrt(max(numbers, 1)),
                            rng.uniform(size=many)])


def wide_range(column: pl.Column) -> bool:
    """A one-sided range that is wide, but for bytes, is read on a logarithmic scale."""
    return (column.kind == "numeric" and column.lower == 0 and column.upper >= 50
            and column.upper != 255)


def wide_around_zero(column: pl.Column) -> bool:
    """A wide range with zero inside: whether its values are far from it, only releases say."""
    return (column.kind == "numeric" and column.lower < 0 < column.upper
            and column.upper - column.lower >= 1000)


def log_scaled(column: pl.Column) -> bool:
    """Whether a logarithmic scale may say more of a number than its wide range does."""
    return wide_range(column) or wide_around_zero(column)


def on_the_range(column: pl.Column, center: float, scale: float) -> tuple[float, float]:
    """Center and spread by public bounds, of those on the logarithmic scale around zero."""
    middle, half = (column.lower + column.upper) / 2, (column.upper - column.lower) / 2
    ends = np.clip([center - scale, center + scale], -1.0, 1.0)
    low, high = (np.copysign(np.expm1(np.abs(ends) * np.log(1001.0)) / 1000, ends)
                 * max(-column.lower, column.upper))
    return ((low + high) / 2 - middle) / half, max((high - low) / 2 / half, 1e-3**0.5)
