"""What a label-private fit reserves and asks: every label answers once."""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.ensembles.labels_only import among_labelled, labelled
from privledger_learners.responses.soft_forest import SoftForest, positive_shares

RELATION = "replace_label"


def response(epsilon: float, buckets: int) -> pl.RandomizedResponse:
    """Randomised response of pure cost a hair below `epsilon`."""
    return pl.RandomizedResponse(buckets / (buckets + math.expm1(epsilon * (1 - 1e-9))), buckets)


def likelihood(answers: np.ndarray, lists: np.ndarray | None, mechanism: pl.RandomizedResponse,
               classes: int) -> np.ndarray:
    """Chance of each answer under every true class, shape (n, classes).

    Args:
        answers: class positions. lists: candidates of each record, shape (n, k), or None.
    """
    other = mechanism.noise_parameter / mechanism.num_buckets
    found = np.full((len(answers), classes), other)
    if lists is not None:
        found[:] = 1 / mechanism.num_buckets  # a class outside of the list answers uniformly
        np.put_along_axis(found, lists, other, axis=1)
    found[np.arange(len(answers)), answers] = 1 - mechanism.noise_parameter + other
    return found


def best_lists(shares: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """How many candidates each record should answer among, and classes by falling share.

    The number that makes a true answer most likely, at least two (Ghazi, Golowich, Kumar,
    Manurangsi, Zhang 2021, arXiv:2102.06062, Algorithm 2, where it may be one).
    """
    order = np.argsort(-shares, axis=1, kind="stable")
    covered = np.cumsum(np.take_along_axis(shares, order, axis=1), axis=1)
    kept = math.exp(min(epsilon, 700.0))
    truthful = covered * (kept / (kept + np.arange(shares.shape[1])))
    return truthful[:, 1:].argmax(axis=1) + 2, order


@frozen
class LabelRecipe:
    """Two classes: one response each. More: half of the records first, the others among few.

    Attributes:
        first: part of the records that answers among all classes.
    """

    schema: pl.Schema
    epsilon: float
    first: float

    @property
    def classes(self) -> int:
        """How many classes the schema lists for the target."""
        return len(self.schema.target.categories)

    @property
    def _staged(self) -> bool:
        return self.classes > 2 and self.first < 1

    def _responses(self) -> list[pl.RandomizedResponse]:
        """Among 2, 3, ... all classes."""
        return [response(self.epsilon, size) for size in range(2, self.classes + 1)]

    @property
    def plan(self) -> pl.Node:
        """Labels only. Parts by position: a label answers in one of them."""
        node: pl.Node = response(self.epsilon, self.classes)
        if self._staged:
            node = pl.Parallel([node, pl.Parallel(self._responses(), "index")], "index")
        return pl.nodes.LabelOnly(pl.Sequential([
            pl.nodes.Public("features, and who has a label"), among_labelled(node),
            pl.nodes.PostProcess("a model of the answers")]))

    def ask(self, session: pl.Session, data: pl.Dataset, table: np.ndarray, forest: SoftForest,
            rng: np.random.Generator) -> np.ndarray:
        """Likelihood of every record's answer, shape (n_records, classes); 1 where none came.

        Args:
            table: public features of all records. forest: unfitted; models the first answers.
        """
        known = np.flatnonzero(data.public_labelled)
        if not len(known):
            raise pl.errors.DataError("no record has a label: there is nothing to learn from")
        found = np.ones((data.public_rows, self.classes))
        everything = response(self.epsilon, self.classes)
        if not self._staged or len(known) < 4:
            part = labelled(data)
            if self._staged:
                part = part.partition(pl.questions.IndexCells(np.zeros(len(found), dtype=np.int64),
                                                              2))[0]
            answers = session.release(everything, part.labels())
            found[known] = likelihood(answers, None, everything, self.classes)
            return found
        early = rng.permutation(known)[: max(2, int(self.first * len(known)))]
        stage = np.ones(len(found), dtype=np.int64)
        stage[early] = 0
        halves = labelled(data).partition(pl.questions.IndexCells(stage, 2))
        early, late = known[stage[known] == 0], known[stage[known] == 1]
        answers = session.release(everything, halves[0].labels())
        found[early] = likelihood(answers, None, everything, self.classes)
        shares = forest.fit(table[early], found[early]).shares(table[late])
        self._ask_among(session, halves[1], late, positive_shares(shares), found)
        return found

    def _ask_among(self, session: pl.Session, data: pl.Dataset, late: np.ndarray,
                   shares: np.ndarray, found: np.ndarray) -> None:
        """The rest of the records, in parts by the length of their lists."""
        sizes, order = best_lists(shares, self.epsilon)
        places = np.zeros(len(found), dtype=np.int64)
        places[late] = sizes - 2
        parts = data.partition(pl.questions.IndexCells(places, self.classes - 1))
        for place, mechanism in enumerate(self._responses()):
            rows = np.flatnonzero(sizes == place + 2)
            if len(rows):
                lists = np.sort(order[rows, : place + 2], axis=1)
                answers = session.release(mechanism, parts[place].labels(candidates=lists))
                found[late[rows]] = likelihood(answers, lists, mechanism, self.classes)

    def claimed(self) -> tuple[pl.ClaimStep, ...]:
        """No paper claims this learner; what Laplace counts would cost is in partitioning.md."""
        sound = pl.epsilon(self.plan, 0.0, RELATION)
        return (pl.ClaimStep("labels", "RRWithPrior, arXiv:2102.06062", self.epsilon, sound, 0.0,
                             "LABELS ONLY; every label answers once, and whatever follows is "
                             "post-processing"),)
