"""Which tests the next tree has, from public bins and what earlier trees released: no rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from attrs import define, field, frozen

import privledger as pl

Tests = tuple[list[pl.questions.Test], int]  # a tree's tests, and how many leaves they make
ONE_FIRST, ONE_LAST = 0.70, 0.30  # share of one-feature trees, falling from first to last
GAIN_WEIGHT, ORDERED = 0.85, 0.50
TRUST_ALONE, TRUST_MIXED = 1.0, 0.5  # how far a leaf's mass may lie from what was expected


@frozen
class Feature:
    """A feature as trees see it: category or number, and its bins (the last one is missing)."""

    categorical: bool
    bins: int


def _chosen(upto: np.ndarray, total: float, rng: np.random.Generator) -> int:
    """A place by its weight, from running sums of the weights."""
    return min(int(upto.searchsorted(rng.random() * total)), len(upto) - 1)


@define(eq=False)
class FeatureMemory:
    """What released answers taught about features: masses, profiles, gains.

    Attributes:
        gain: estimated gain of each feature.
        visits: one-feature trees grown on each feature.
        rng: public randomness; it protects no person and need not.
    """

    features: tuple[Feature, ...]
    gain: np.ndarray
    visits: np.ndarray
    rng: np.random.Generator
    _density: dict[int, np.ndarray] = field(factory=dict)
    _profile: dict[int, np.ndarray] = field(factory=dict)

    @classmethod
    def blank(cls, bins: pl.questions.Bins, rng: np.random.Generator) -> FeatureMemory:
        """Of public bins, before any tree: equal weights, flat densities."""
        features = tuple(
            Feature(column.kind == "categorical", size)
            for column, size in zip(bins.schema.features, bins.sizes(), strict=True)
        )
        n = len(features)
        return cls(features, np.zeros(n), np.zeros(n), rng)

    def density(self, j: int) -> np.ndarray:
        """Estimated share of the mass in each bin of feature j, shape (bins,).

        Uniform on the public bins, almost nothing missing, until something is released. Made
        when first needed: there may be many features.
        """
        found = self._density.get(j)
        if found is None:
            found = np.ones(self.features[j].bins)
            if not self.features[j].categorical:
                found[-1] = 1e-6
            found = self._density[j] = found / found.sum()
        return found

    def profile(self, j: int) -> np.ndarray:
        """Summed leaf values of the one-feature trees on j, by bin, shape (bins,)."""
        return self._profile.setdefault(j, np.zeros(self.features[j].bins))

    def schedule(self, rounds: int, depth: int) -> Iterator[Tests]:
        """Tree after tree: every feature alone once, then ever more mixed ones."""
        n = len(self.features)
        leaves = max(4, 1 << depth)
        first = [int(j) for j in self.rng.permutation(n)[: min(n, rounds // 2)]
                 if not self.visits[j]]
        for number in range(rounds):
            if number < len(first):
                yield self.one_feature(first[number], leaves)
                continue
            weights = self.weights()
            done = (number - len(first)) / max(rounds - len(first) - 1, 1)
            if n == 1 or self.rng.random() < ONE_FIRST + (ONE_LAST - ONE_FIRST) * done:
                yield self.one_feature(self.choose(weights), leaves)
            else:
                yield self.mixed(weights, depth)

    def weights(self) -> np.ndarray:
        """Probability of choosing each feature, shape (features,)."""
        gain = np.maximum(self.gain, 0)
        n = len(gain)
        share = gain / gain.sum() if gain.sum() > 0 else np.full(n, 1 / n)
        return np.asarray(GAIN_WEIGHT * share + (1 - GAIN_WEIGHT) / n)

    def choose(self, weights: np.ndarray) -> int:
        """A feature by its weight, by public coins; weights need not add up to one."""
        return _chosen(weights.cumsum(), weights.sum(), self.rng)

    def one_feature(self, j: int, leaves: int) -> Tests:
        """A tree on one feature: a leaf per category, or cells of equal estimated mass."""
        feature = self.features[j]
        if feature.categorical:
            table = np.minimum(np.arange(feature.bins), 255).astype(np.uint8)
            return [pl.questions.Test(j, table)], int(table.max()) + 1
        mass = self.density(j)[:-1]
        shift = self.rng.uniform(0, 0.5) if self.visits[j] else 0.0
        place = np.floor((mass.cumsum() - mass / 2) / mass.sum() * leaves + shift)
        place = np.minimum(np.maximum.accumulate(place), leaves - 1)  # rounding may step back
        cells = (place != np.append(place[:1], place[:-1])).cumsum()
        # Missing values share the first leaf: they have no place in the order.
        table = np.append(cells, 0).astype(np.uint8)
        return [pl.questions.Test(j, table)], int(table.max()) + 1

    def mixed(self, weights: np.ndarray, depth: int) -> Tests:
        """A complete tree with one test per level, so that all leaves are always there."""
        tests: list[pl.questions.Test] = []
        used: set[int] = set()
        upto, total = weights.cumsum(), weights.sum()
        for level in range(depth):
            j = _chosen(upto, total, self.rng)
            for _ in range(7):  # a yes-no feature has nothing to say twice
                if not (self.features[j].bins <= 3 and j in used):
                    break
                j = _chosen(upto, total, self.rng)
            used.add(j)
            side = self._category_test(j) if self.features[j].categorical else \
                self._numeric_test(j)
            tests.append(pl.questions.Test(j, (side.astype(np.uint16) << level).astype(
                np.uint8 if depth <= 8 else np.uint16)))
        return tests, 1 << depth

    def _numeric_test(self, j: int) -> np.ndarray:
        bins = self.features[j].bins
        below = self.density(j)[:-1].cumsum()
        place = below.searchsorted(self.rng.uniform(0.02, 0.98) * below[-1])
        cut = min(int(place), max(bins - 3, 0))
        side = np.arange(bins) > cut
        side[-1] = self.rng.random() < 0.5
        return side

    def _category_test(self, j: int) -> np.ndarray:
        bins = self.features[j].bins
        if self.rng.random() >= ORDERED:
            return self.rng.random(bins) < 0.5
        order = np.argsort(self.profile(j) + 1e-9 * self.rng.random(bins))  # ties fall by chance
        reach = self.density(j)[order].cumsum().searchsorted(self.rng.uniform(0.05, 0.95))
        side = np.zeros(bins, dtype=bool)
        side[order[min(int(reach), bins - 2) + 1 :]] = True
        return side

    def uniform_test(self, j: int) -> np.ndarray:
        """The paper's split: uniform on the public range, or one category against the rest."""
        bins = self.features[j].bins
        if self.features[j].categorical:
            return np.asarray(np.arange(bins) == self.rng.integers(bins))
        side = np.arange(bins) > self.rng.integers(max(bins - 2, 1))
        side[-1] = self.rng.random() < 0.5
        return side

    def random_tree(self, depth: int, numeric_weight: float) -> Tests:
        """A complete random tree as in the paper, one test per level."""
        weights = np.array([1.0 if f.categorical else numeric_weight for f in self.features])
        tests = []
        for level in range(depth):
            j = self.choose(weights)
            table = self.uniform_test(j).astype(np.uint16) << level
            tests.append(pl.questions.Test(j, table.astype(np.uint8 if depth <= 8 else np.uint16)))
        return tests, 1 << depth

    def mass(self, tests: list[pl.questions.Test], H: np.ndarray, total: float, sd_h: float, *,
             alone: bool) -> tuple[np.ndarray, np.ndarray]:
        """Mass of every leaf from the released H, and its variance, shapes (leaves,).

        Args:
            total: estimated mass of all records. sd_h: standard deviation of each H.
        """
        if alone:
            return self._mass_alone(tests[0].feature, tests[0].table, H, total, sd_h)
        return self._mass_mixed(tests, H, total, sd_h)

    def _mass_alone(self, j: int, table: np.ndarray, H: np.ndarray, total: float,
                    sd_h: float) -> tuple[np.ndarray, np.ndarray]:
        """Cell masses of a one-feature tree from the released H, and their variances.

        A Kalman step around the density of feature j, which is updated too.
        """
        density = self.density(j)
        leaves = len(H)
        share = np.bincount(table, density, minlength=leaves)
        variance = (TRUST_ALONE * total * np.maximum(share, 1 / leaves)) ** 2 / (1 + self.visits[j])
        weight = variance / (variance + sd_h**2)
        mass = np.maximum(share * total + weight * (H - share * total), 0.02 * total / leaves)
        updated = density * (mass / mass.sum() / np.maximum(share, 1e-12))[table]
        self._density[j] = updated / updated.sum()
        return mass, weight * sd_h**2

    def _mass_mixed(self, tests: list[pl.questions.Test], H: np.ndarray, total: float,
                    sd_h: float) -> tuple[np.ndarray, np.ndarray]:
        """The same for a mixed tree, around the product of the marginal densities."""
        share = np.ones(1)
        for test in tests:  # later tests set higher bits of the cell number
            one = float(self.density(test.feature) @ (test.table > 0))
            share = np.concatenate([share * (1 - one), share * one])
        variance = (TRUST_MIXED * total * share) ** 2 + (0.1 * total / len(H)) ** 2
        weight = variance / (variance + sd_h**2)
        mass = np.maximum(share * total + weight * (H - share * total), 0)
        return mass, weight * sd_h**2

    def learn(self, j: int, table: np.ndarray, S: np.ndarray, values: np.ndarray,
              sd_s: float) -> None:
        """Update gain and profile of feature j from the released S of a one-feature tree."""
        gain = float((S * S).sum() - S.size * sd_s**2) / (S.shape[1] - 1 if S.ndim == 2 else 1)
        self.gain[j] = gain if self.visits[j] == 0 else max((self.gain[j] + gain) / 2, 0)
        by_leaf = values if values.ndim == 1 else np.abs(values - values.mean(0)).sum(1)
        self._profile[j] = self.profile(j) + by_leaf[table]
        self.visits[j] += 1
