"""Private baselines that the papers compare with: sound plugins in their printed form."""

from __future__ import annotations

from collections.abc import Callable

from privledger_learners import (
    DPDFClassifier,
    DPERTClassifier,
    DPERTRegressor,
    DPRFClassifier,
    DPRFRegressor,
    MaxTreeClassifier,
    RDTClassifier,
    SRTClassifier,
    SSRDTClassifier,
    TOPClassifier,
)

from privledger_papers.bought_mean import BoughtMean
from privledger_papers.forms import TREES, Form, Learner, Maker, Refused
from privledger_papers.published_cells import Cell
from privledger_papers.tasks import Table

Kind = Callable[..., Learner]


def _forest(classifier: Kind, regressor: Kind | None = None, note: str = "") -> Maker:
    """The paper's number of trees, and its depth where it prints one."""
    def make(cell: Cell, table: Table) -> Form | Refused:
        kind = regressor if table.regression else classifier
        if kind is None:
            return Refused("its paper has it for classes only")
        options: dict[str, int] = {"n_trees": int(cell.options.get("trees", TREES))}
        if "depth" in cell.options:
            options |= {"depth": int(cell.options["depth"])}
        return Form(kind(cell.budget, 0.0, table.schema, unaccounted=True, **options), True, note)
    return make


def _labels(kind: Kind) -> Maker:
    def make(cell: Cell, table: Table) -> Form:
        return Form(kind(cell.budget, 0.0, table.schema, unaccounted=True), True,
                    "labels answer by randomised response; the rest follows from answers",
                    unlabelled=True)
    return make


def _mean(cell: Cell, table: Table) -> Form:
    return Form(BoughtMean(1.0 if cell.epsilon is None else cell.epsilon, table.schema), True,
                "at epsilon 1: none is printed" if cell.epsilon is None else "")


BASELINES: dict[tuple[str, str], Maker] = {
    ("000", "DP-RF"): _forest(DPRFClassifier, DPRFRegressor),
    ("000", "DP-ERT"): _forest(DPERTClassifier, DPERTRegressor),
    ("000", "DP-DF"): _forest(DPDFClassifier, note="the paper's own run had half of this epsilon"),
    ("001", "SRT"): _forest(SRTClassifier), ("001", "RDT"): _forest(RDTClassifier),
    ("001", "MaxTree"): _forest(MaxTreeClassifier),
    ("001", "SSRDT"): _labels(SSRDTClassifier), ("001", "TOP"): _labels(TOPClassifier),
    ("003", "DPMean"): _mean,
}
"""By paper and system."""
