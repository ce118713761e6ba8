"""Every trap, sprung on purpose: the searches notice each of them."""

import attrs
import numpy as np
import pytest

from privledger.noise.seeded import SeededSource
from privledger.questions import choice, feature_scores, options, person_vectors, votes
from privledger.questions.query import Query
from privledger.tables import chunk
from privledger.tables.chunk import Rows
from tests.voices import test_choices_of_people as choosing
from tests.voices import test_sums_of_people as summing
from tests.worlds import refused


def noticed(search):
    refused(AssertionError, search)


def test_weights_found_anew_in_a_part(make_ledger, monkeypatch):
    subset = Rows.subset

    def again(self, members):
        part = subset(self, members)
        held = np.bincount(part.people, minlength=part.n_people)
        part.mass = chunk.ONE // np.maximum(held, 1)[part.people]
        return part

    monkeypatch.setattr(Rows, "subset", again)
    noticed(lambda: summing.search_parts(make_ledger, False, 1, 20))


def test_nothing_for_several_cells(make_ledger, monkeypatch):
    monkeypatch.setattr(person_vectors, "_factor", lambda said, touched, terms, n_people, manner:
                        np.ones(n_people))
    noticed(lambda: summing.search(make_ledger, "add_remove", False, 1, 20))


def test_a_factor_of_other_cells_than_the_questions(make_ledger, monkeypatch):
    """As scaling before groups are merged: the norm was right for one cell per person."""
    manner_of = Query._bound_rule
    monkeypatch.setattr(Query, "_bound_rule", lambda self, state: attrs.evolve(
        manner_of(self, state), norm=2, shares=[1.0] * len(self.blocks)))
    noticed(lambda: summing.search(make_ledger, "add_remove", False, 1, 20))


def test_the_norm_where_labels_are_replaced(make_ledger, monkeypatch):
    """Clipping the person's own norm holds for people who come and go, not for other labels."""
    manner_of = Query._bound_rule
    monkeypatch.setattr(Query, "_bound_rule", lambda self, state: attrs.evolve(
        manner_of(self, state), relation="add_remove"))
    noticed(lambda: summing.test_other_labels_in_other_cells(make_ledger))


def test_none_counts_every_row(make_ledger, monkeypatch):
    mean = person_vectors._mean

    def rows_of_it(values, place, rows, clip, norm):
        return rows.astype(float) if values is None else mean(values, place, rows, clip, norm)

    monkeypatch.setattr(person_vectors, "_mean", rows_of_it)
    noticed(lambda: summing.search(make_ledger, "add_remove", False, 1, 20))


def test_masses_below_one_over_one(monkeypatch):
    def at_least_one(counts):
        held = counts.astype(np.float64)
        return np.einsum("ij,ij->i", held, held) / np.maximum(held.sum(axis=1), 1.0)

    monkeypatch.setattr(options, "_squares_over", at_least_one)
    noticed(lambda: choosing.error_search(True, 1, 40))


@pytest.mark.parametrize("score", ["gini", "entropy"])
def test_impurities_of_several_leaves(monkeypatch, score):
    monkeypatch.setattr(choice, "in_main_cell", lambda people, cells, n: np.ones(len(people), bool))
    every = choosing.choices

    def only(data, rng):
        return (one for one in every(data, rng) if one.score == score)

    monkeypatch.setattr(choosing, "choices", only)
    noticed(lambda: choosing.search("add_remove", True, 1, 3000))


def test_rows_that_weigh_one_each(monkeypatch):
    monkeypatch.setattr(choice, "weighed", lambda statistics, rows: statistics)
    monkeypatch.setattr(options, "_whole", lambda choice, sums, one: sums)
    noticed(lambda: choosing.search("add_remove", False, 1, 20))


def test_features_of_rows_that_weigh_one_each(monkeypatch):

    ordered = feature_scores._ordered

    def unweighed(schema, rows):
        return ordered(schema, attrs.evolve(rows, people=None, mass=None, n_people=None))

    monkeypatch.setattr(feature_scores, "_ordered", unweighed)
    noticed(lambda: choosing.feature_search("agreement", True, 1, 60))


def test_votes_by_a_coin_per_row(monkeypatch):
    monkeypatch.setattr(feature_scores, "coins_of", lambda asked, key, rows: votes._coins(
        asked, rows.n, SeededSource(7)))

    def search():
        for relation in ("add_remove", "replace_one"):
            choosing.test_one_person_moves_the_votes_of_one_block(relation)

    noticed(search)
