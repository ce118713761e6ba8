"""Every node that can be released, as claims: what the certificates are about."""

from __future__ import annotations

import math
from collections.abc import Iterator

from attrs import frozen
from privledger_learners import group_node

from privledger.graph.additive import Gaussian, Laplace
from privledger.graph.selection import (
    Exponential,
    PartitionSelection,
    PermuteAndFlip,
    RandomizedResponse,
    TopK,
)
from privledger.questions.feature_choice import FeatureChoice, rank_sensitivity
from privledger.testing.examples import example_schema
from tests.certified.claims import Claim
from tests.certified.pairs import RELATIONS

CLASSES, NUMBERS = "several classes", "regression"


@frozen(eq=False)
class Node:
    """A claim, and the largest ratio that is possible for it.

    Attributes:
        ceiling: below one where less than the price is provably lost. why: the proof, in a line.
    """

    claim: Claim
    ceiling: float = 1.0
    why: str = ""


def released_nodes() -> Iterator[Node]:
    """All of them, in the order of the page."""
    for relation in RELATIONS:
        yield from _queries(relation)
        yield from _choices(relation)
        yield from _labels(relation)
        yield from _features(relation)
    for words, node in (("geometric", group_node(1.0, 1e-6)),
                        ("laplace", PartitionSelection(14.2, 1.0)),
                        ("gaussian", PartitionSelection(22.0, 4.3, 1, "gaussian"))):
        yield Node(Claim(f"groups of texts, {words}", "groups", {}, NUMBERS, node, "add_remove"))
    for noise, buckets in ((0.3, 4), (0.8, 4)):
        yield Node(Claim(f"randomised response {noise} of {buckets}", "labels", {}, CLASSES,
                         RandomizedResponse(noise, buckets), "replace_label"))


def _choices(relation: str) -> Iterator[Node]:
    """Cuts, features, both at once: by every score."""
    scores = (("rank", CLASSES, False, 1.0), ("squared_error", CLASSES, True, 0.0),
              ("squared_error", NUMBERS, False, 0.0), ("gain", NUMBERS, False, 1 / 3),
              ("gini", CLASSES, True, 1.0), ("entropy", CLASSES, True, 1.0))
    for score, task, labels, high in scores:
        ceiling, why = 1.0, ""
        if relation == "replace_label" and score == "rank":
            ceiling, why = 0.0, "no label is read; it is charged like any other release"
        elif relation == "replace_label" and score in ("gini", "entropy"):
            ceiling, why = 0.5, ("scores lie in [0, 1] and a label stays in its leaf: the bound, "
                                 "doubled for a record that moves, is twice what is needed")
        for among in ("cuts", "features", "both"):
            asked = {"score": score, "among": among, "labels": labels,
                     "leaves": 2 if relation == "replace_one" else 1}
            if among == "cuts":
                asked["feature"] = 1  # leaves are told apart by the other
            name = f"{score} of {'classes' if labels else 'numbers'}, {among}"
            yield Node(Claim(f"{name}, exponential", "choice", asked, task,
                             Exponential(1.0, (-1.0, high)), relation), ceiling, why)
            if among == "features":
                # Scores of at most one leave permute-and-flip no gap: nearly tight if small.
                small = 0.01 if score in ("gini", "entropy") else 1.0
                yield Node(Claim(f"{name}, permute and flip", "choice", asked, task,
                                 PermuteAndFlip(small), relation), ceiling, why)


def _labels(relation: str) -> Iterator[Node]:
    for node, word in ((Exponential(1.0, (0.0, 1.0)), "exponential"),
                       (PermuteAndFlip(1.0), "permute and flip")):
        yield Node(Claim(f"class of a leaf, {word}", "label choice", {"leaves": 2}, CLASSES, node,
                         relation))


def _features(relation: str) -> Iterator[Node]:
    """Features of a table, by every score of known bound."""
    for score, task in (("agreement", CLASSES), ("rank", CLASSES), ("rank", NUMBERS),
                        ("correlation", NUMBERS), ("votes", NUMBERS)):
        schema = example_schema(task)
        low, high = FeatureChoice.bound_of(score, schema).change
        ceiling, why = 1.0, ""
        if score == "rank" and relation != "add_remove":
            ceiling = 2 / (1 + rank_sensitivity(schema))
            why = ("both tables have n records: |S|/n moves by 2 at most, less than a removal "
                   "and an arrival")
        # Few votes leave small gaps between sets: pure bounds are reached as epsilon grows.
        pure = 8.0 if score == "votes" else 1.0
        for k in (1, 2):
            votes = {"blocks": 3, "most": k, "excluded": [2] if k == 1 else []
                     } if score == "votes" else {}
            nodes: list[tuple[Exponential | PermuteAndFlip | TopK, str]] = [
                (TopK(k, 1.0, "gumbel"), f"top {k}, gumbel"),
                (TopK(k, pure), f"top {k}, exponential")]
            if k == 1:
                nodes += [(Exponential(1.0, (low, high)), "exponential"),
                          (PermuteAndFlip(pure), "permute and flip")]
            for node, word in nodes:
                yield Node(Claim(f"features by {score} of {task}, {word}", "feature choice",
                                 {"score": score, **votes}, task, node, relation), ceiling, why)


_QUERIES = {
    "add_remove": (
        (CLASSES, ["ones"], ""), (CLASSES, ["ones"], "colour"), (NUMBERS, ["ones"], "size"),
        (CLASSES, ["ones"], "tree"), (CLASSES, ["ones"], "colour and target"),
        (NUMBERS, ["sum"], ""), (NUMBERS, ["sum"], "tree"), (CLASSES, ["class"], ""),
        (NUMBERS, ["shares"], "tree"), (NUMBERS, ["gradient"], "tree"),
        (NUMBERS, ["ones", "sum"], ""), (NUMBERS, ["gradient", "ones"], "tree"),
        ("classification", ["logistic", "hessian"], "tree"), ("classification", ["filtered"], ""),
        (CLASSES, ["softmax"], "tree"), (CLASSES, ["coordinate"], ""),
        (CLASSES, ["softmax hessian"], "tree")),
    "replace_one": (
        (CLASSES, ["ones"], "colour"), (CLASSES, ["ones"], "tree"), (NUMBERS, ["sum"], ""),
        (NUMBERS, ["sum"], "colour"), (CLASSES, ["class"], ""), (CLASSES, ["class"], "tree"),
        (NUMBERS, ["shares"], ""), (NUMBERS, ["shares"], "tree"), (NUMBERS, ["gradient"], "tree"),
        (NUMBERS, ["gradient", "ones"], "tree"),
        ("classification", ["logistic"], ""), ("classification", ["hessian"], "tree"),
        (CLASSES, ["coordinate"], "")),
    "replace_label": (
        (CLASSES, ["ones"], "target"), (CLASSES, ["ones"], "colour and target"),
        (NUMBERS, ["target sum"], ""), (CLASSES, ["class"], "tree"), (NUMBERS, ["shares"], ""),
        (NUMBERS, ["gradient"], "tree"), ("classification", ["logistic"], "tree"),
        (CLASSES, ["coordinate"], "tree"))}


def _queries(relation: str) -> Iterator[Node]:
    """Sums under Gaussian and Laplace noise."""
    for task, blocks, cells in _QUERIES[relation]:
        asked = {"blocks": blocks, "cells": cells}
        name = f"{' and '.join(blocks)} of {task}" + (f", per {cells}" if cells else "")
        shares = (0.5,) * len(blocks) if len(blocks) > 1 else ()
        ceiling, why = 1.0, ""
        if relation == "replace_one" and len(blocks) > 1:
            ceiling = math.sqrt(0.75)
            why = ("a record that stays in its cell moves no count; one that does not moves a "
                   "signed sum by the root of two, not by two")
        yield Node(Claim(f"{name}, gaussian", "query", asked, task, Gaussian(2.0, shares),
                         relation), ceiling, why)
        free = Claim(name, "query", asked, task, Gaussian(2.0, shares), relation)
        bound = free.l1_sensitivity()
        yield Node(Claim(f"{name}, laplace", "query", asked, task, Laplace(2 * bound, bound),
                         relation))
