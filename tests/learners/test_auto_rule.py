"""The rule of Auto against the fits it was chosen by, one kind of table after the other."""

import json
import statistics
from pathlib import Path

import pytest
from privledger_learners.auto import PublicFacts, choose

from tests.worlds import schema_of

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"
KEPT = FIGURES / "auto-rule.jsonl", FIGURES / "auto-more.jsonl"
CANDIDATES = ("sgbdt", "linear", "start")
KINDS = {"few columns": lambda fit: fit["features"] <= 8,
         "a number": lambda fit: not fit["classes"],
         "categories": lambda fit: fit["classes"] and fit["numeric"] < fit["features"] / 2,
         "many classes": lambda fit: fit["classes"] > 5,
         "many numbers": lambda fit: fit["classes"] and fit["numeric"] >= 16}


def cells(candidates=CANDIDATES):
    """Facts of a set and an epsilon, and the normalised scores of each candidate by split."""
    fits = [json.loads(line) for kept in KEPT
            for line in kept.read_text(encoding="utf-8").splitlines()]
    best = {(fit["set"], fit["seed"]): fit["score"] for fit in fits
            if fit["learner"] == "boosting" and "score" in fit}
    found = {}
    for fit in fits:
        gap = best.get((fit["set"], fit["seed"]), 0.0) - fit.get("trivial", 1.0)
        if fit["learner"] in (*candidates, "fourier") and gap >= 0.02 and fit["rows"] >= 400:
            share = min(max((fit["score"] - fit["trivial"]) / gap, -1.0), 1.3)
            held = found.setdefault((fit["set"], fit["epsilon"]), (fit, {}))[1]
            held.setdefault(fit["learner"], {})[fit["seed"]] = share
    return [(fit, shares) for fit, shares in found.values() if set(candidates) <= set(shares)]


def mean(shares, name):
    return statistics.mean(shares[name].values())


def by_other_splits(shares):
    """Of each split, what the candidate scores that leads on the others: nothing is chosen by the
    luck of the fit that it is judged by."""
    seeds = set.intersection(*(set(shares[name]) for name in CANDIDATES))
    return [(seed, max(CANDIDATES, key=lambda name: statistics.mean(
        shares[name][other] for other in seeds - {seed}))) for seed in seeds if len(seeds) > 1]


def choice(fit, rows, delta):
    return choose(PublicFacts(
        "classification" if fit["classes"] else "regression", fit["features"], fit["numeric"],
        fit["classes"], rows, fit["epsilon"], delta, "add_remove"))


def chosen(fit, rows):
    found = choice(fit, rows, 5e-8)
    return ("start" if found.options == (("start", "linear"),) else
            "fourier" if found.options else found.name.split("-")[0])


@pytest.mark.parametrize("declared", [True, False])
def test_the_rule_leads_every_candidate(declared):
    held = cells()
    assert len(held) > 90
    ours = statistics.mean(mean(shares, chosen(fit, fit["rows"] if declared else None))
                           for fit, shares in held)
    for name in CANDIDATES:
        assert ours > statistics.mean(mean(shares, name) for _, shares in held) + 0.01


def test_its_regret_is_small():
    """Against the candidate that leads on other splits of the set at this epsilon."""
    regrets = []
    for fit, shares in cells():
        name = chosen(fit, fit["rows"])
        regrets += [shares[best][seed] - shares[name][seed] for seed, best in
                    by_other_splits(shares) if seed in shares[name]]
    print(len(regrets), statistics.mean(regrets))
    assert len(regrets) > 200 and statistics.mean(regrets) < 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_table_is_far_behind_its_best_candidate(kind):
    held = [(fit, shares) for fit, shares in cells() if KINDS[kind](fit)]
    ours = statistics.mean(mean(shares, chosen(fit, fit["rows"])) for fit, shares in held)
    means = {name: statistics.mean(mean(shares, name) for _, shares in held) for name in CANDIDATES}
    print(kind, len(held), round(ours, 3), {name: round(one, 3) for name, one in means.items()})
    assert ours > max(means.values()) - 0.02


def test_at_delta_zero_the_ensemble_is_taken_where_it_leads():
    held = [(fit, shares) for fit, shares in cells(("joint-tree", "ensemble"))
            if choice(fit, None, 0.0).name.startswith("private-ensemble")]
    assert len({fit["set"] for fit, _ in held}) > 3
    gains = [mean(shares, "ensemble") - mean(shares, "joint-tree") for _, shares in held]
    assert statistics.mean(gains) > 0.05
    rest = [mean(shares, "ensemble") - mean(shares, "joint-tree")
            for fit, shares in cells(("joint-tree", "ensemble"))
            if choice(fit, None, 0.0).name.startswith("joint-tree")]
    print(statistics.mean(gains), len(gains), statistics.mean(rest), len(rest))
    assert statistics.mean(rest) < 0


def test_the_facts_of_a_schema_are_those_of_the_kept_fits():
    schema = schema_of("t", {"x": (0.0, 1.0), "c": ["a", "b"]}, y=["n", "p", "q"])
    facts = PublicFacts.of(schema, 1.0, 5e-8, "add_remove")
    assert (facts.features, facts.numeric, facts.classes, facts.rows, facts.fits) == (
        2, 1, 3, None, True)
