"""Honest learners, one of each kind: what a fault is put into."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import privledger_learners as learners
from attrs import frozen

from privledger.testing.examples import Example, example, example_schema, without_some
from privledger.testing.fitting import ways
from tests.bench.zoo import probes

REPLACE, LABEL = "replace_one", "replace_label"
CLASSES, TWO, NUMBER = "several classes", "classification", "regression"


@frozen
class Suspect:
    """A learner and the kind of target that it is tried on.

    Attributes:
        make: an unfitted one. plain: whether the fault is met on plain tables.
    """

    make: Callable[[], Any]
    task: str = TWO
    plain: bool = False

    def example(self, rows: int = 240) -> Example:
        """A table for it."""
        found = example(example_schema(self.task), self.task, rows)
        return without_some(found) if getattr(self.make(), "unlabelled", False) else found

    def fit(self) -> Any:
        """One private fit."""
        learner, table = self.make(), self.example()
        way = ways(learner)[-1 if self.plain else 0]
        return way.fit(table)


def _gbdt(number: bool = False, **named: Any) -> Callable[[], Any]:
    kind = learners.SGBDTRegressor if number else learners.SGBDTClassifier
    return partial(kind, 1.0, 1e-5, random_state=1, **({"n_trees": 3} | named))


def _filtered(kind: str, **named: Any) -> Callable[[], Any]:
    return _gbdt(extra_rounds=6, individual_filter=kind, **named)


def _boost(number: bool = False, **named: Any) -> Callable[[], Any]:
    kind = learners.DPBoostRegressor if number else learners.DPBoostClassifier
    return partial(kind, **({"epsilon": 1.0, "n_trees": 2, "depth": 2} | named))


def _diprime(number: bool = False, **named: Any) -> Callable[[], Any]:
    kind = learners.DiPriMeForestRegressor if number else learners.DiPriMeForestClassifier
    return partial(kind, 1.0, **({"n_trees": 2, "depth": 2, "random_state": 1} | named))


def _joint(**named: Any) -> Callable[[], Any]:
    return partial(learners.JointTreeClassifier, 1.0, **({"depth": 2} | named))


def _ensemble(**named: Any) -> Callable[[], Any]:
    return partial(learners.PrivateEnsembleClassifier, 1.0, n_trees=2, depth=2, random_state=1,
                   **named)


def _mrf(**named: Any) -> Callable[[], Any]:
    return partial(learners.MultinomialForestClassifier, 1.0, variant="multinomial", n_trees=2,
                   depth=2, **named)


def _dpsis(**named: Any) -> Callable[[], Any]:
    return partial(learners.DPSIS, 1.0, **({"k": 2, "method": "gumbel"} | named))


def _search(learner: Any, **params: Any) -> Callable[[], Any]:
    return partial(learners.PrivateSearchCV, learner, params, 1.0, mean_trials=3.0)


SUSPECTS: dict[str, Suspect] = {
    "joint": Suspect(_joint()),
    "joint-plain": Suspect(_joint(), plain=True),
    "joint-by-rows": Suspect(_joint(depth=None)),
    "joint-number": Suspect(partial(learners.JointTreeRegressor, 1.0, depth=2), NUMBER),
    "joint-number-plain": Suspect(partial(learners.JointTreeRegressor, 1.0, depth=2), NUMBER,
                                  plain=True),
    "joint-replace": Suspect(_joint(relation=REPLACE)),
    "sgbdt": Suspect(_gbdt()),
    "sgbdt-classes": Suspect(_gbdt(), CLASSES),
    "sgbdt-number": Suspect(_gbdt(number=True), NUMBER),
    "sgbdt-replace": Suspect(_gbdt(relation=REPLACE)),
    "sgbdt-number-replace": Suspect(_gbdt(number=True, relation=REPLACE), NUMBER),
    "sgbdt-sampled": Suspect(_gbdt(sampling_rate=0.3)),
    "sgbdt-filter": Suspect(_filtered("gdp")),
    "sgbdt-filter-classes": Suspect(_filtered("gdp"), CLASSES),
    "sgbdt-filter-number": Suspect(_filtered("gdp", number=True), NUMBER),
    "sgbdt-rollover": Suspect(_filtered("gdp", rollover=True)),
    "sgbdt-renyi": Suspect(_filtered("renyi")),
    "sgbdt-renyi-sampled": Suspect(_filtered("renyi", sampling_rate=0.3)),
    "dpboost": Suspect(_boost()),
    "dpboost-classes": Suspect(_boost(), CLASSES),
    "dpboost-number": Suspect(_boost(number=True), NUMBER),
    "dpboost-gauss": Suspect(_boost(delta=1e-5)),
    "dpboost-filtering": Suspect(_boost(number=True, gradient_filtering=True), NUMBER),
    "dpboost-parts": Suspect(_boost(n_trees=4, parts=2)),
    "diprime": Suspect(_diprime(variant="base")),
    "diprime-exp": Suspect(_diprime(variant="exp")),
    "diprime-flip": Suspect(_diprime(variant="flip")),
    "diprime-flip-delta": Suspect(_diprime(variant="flip", delta=1e-5)),
    "diprime-number": Suspect(_diprime(number=True, n_trees=1, quantile_share=0.0), NUMBER),
    "dpsis": Suspect(_dpsis()),
    "dpsis-number": Suspect(_dpsis(), NUMBER),
    "dpsis-replace": Suspect(_dpsis(k=1, relation=REPLACE)),
    "dpsis-topk": Suspect(_dpsis(method="canonical")),
    "dpsis-topk-correlation": Suspect(_dpsis(method="canonical", scores="correlation"), NUMBER),
    "dpsis-correlation": Suspect(_dpsis(k=1, scores="correlation"), NUMBER),
    "dpsis-votes": Suspect(partial(learners.DPSISTwoStage, 1.0, k=1, blocks=4)),
    "mrf": Suspect(_mrf()),
    "mrf-replace": Suspect(_mrf(relation=REPLACE), CLASSES),
    "ensemble": Suspect(_ensemble()),
    "ensemble-plain": Suspect(_ensemble(), plain=True),
    "ensemble-public": Suspect(_ensemble(setting="pte", second_trees=2), CLASSES),
    "label": Suspect(partial(learners.LabelPrivateClassifier, 1.0, n_trees=3, random_state=1),
                     CLASSES),
    "search": Suspect(_search(learners.JointTreeClassifier(depth=2), smoothing=[2.0, 4.0])),
    "search-number": Suspect(_search(learners.JointTreeRegressor(depth=2), smoothing=[2.0, 4.0]),
                             NUMBER),
    "moving": Suspect(probes.Moving, NUMBER),
    "overreaching": Suspect(probes.Overreaching, NUMBER),
    "colours": Suspect(partial(probes.Colours, relation=REPLACE), NUMBER),
    "labels": Suspect(partial(probes.Labels, delta=1e-5, relation=LABEL)),
    "sampled": Suspect(probes.Sampled, NUMBER),
    "scoped": Suspect(partial(probes.Scoped, delta=1e-5), NUMBER),
    "fixed": Suspect(partial(probes.Fixed, delta=1e-5, relation=REPLACE), NUMBER),
    "allocated": Suspect(partial(probes.Allocated, delta=1e-5), NUMBER),
    "stumbling": Suspect(probes.Stumbling, NUMBER),
    "leaving": Suspect(probes.Leaving, NUMBER),
    "missing": Suspect(probes.Missing, NUMBER),
    "two-grants": Suspect(probes.TwoGrants, NUMBER),
    "contest": Suspect(probes.Contest, NUMBER)}
