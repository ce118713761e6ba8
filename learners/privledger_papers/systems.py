"""The systems that the papers compare: their printed form as something that can be fitted.

Sound plugins run under a ledger at the printed epsilon; what is not private says so. A form that
no price holds for is refused, with the finding that says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import define
from privledger_learners import (
    DPSIS,
    AutoClassifier,
    AutoRegressor,
    DiPriMeForestClassifier,
    DiPriMeForestRegressor,
    DPBoostClassifier,
    DPBoostRegressor,
    DPSISTwoStage,
    LabelPrivateClassifier,
    MultinomialForestClassifier,
    PrivateEnsembleClassifier,
    SGBDTClassifier,
    SGBDTRegressor,
)

from privledger_papers.baseline_systems import BASELINES
from privledger_papers.comparison_systems import COMPARISONS
from privledger_papers.distributed import DistributedSGBDT, Rounds
from privledger_papers.forms import TREES, Form, Maker, Refused
from privledger_papers.protocols import protocol_of
from privledger_papers.published_cells import Cell
from privledger_papers.scores import RANKED
from privledger_papers.tasks import Features, Table

Options = Mapping[str, Any]
EMPTY: Options = {}
SGBDT_LITERAL: Options = {
    "n_trees": 100, "sampling_rate": 0.1, "splits": "random", "leaf": "ratio", "count_share": 0.1,
    "gradient_clip": 0.3, "depth": 3, "regularization": 20.0, "learning_rate": 0.05}
DPBOOST_LITERAL: Options = {
    "parts": 10, "n_trees": 10, "depth": 3, "gradient_filtering": True, "geometric": "leaves",
    "leaf": "ratio", "regularization": 10.0}
OF_ADULT = ("parameters of Adult", {
    "S-GBDT": {"n_trees": 200, "sampling_rate": 1.0, "gradient_clip": 1.0, "depth": 6,
               "regularization": 100.0, "learning_rate": 0.3},
    "DPBoost": {"gradient_clip": 1.0},
    "distributed": {"clip": 1.0, "regularization": 100.0, "learning_rate": 0.3}})
"""A note, and what differs on Adult from the parameters above, which suit Abalone.

Paper 003 prints no parameters: each figure is that of the best setting on its own data set
(sec. VIII-B), a choice it does not pay for. So here, too: the best of four settings at epsilon .54,
on public Adult, which no ledger pays for either. The clip is the most that |y - p| can be.
"""
MOST = 1e6  # an infinite budget, as far as a ledger has one


def default(cell: Cell, table: Table) -> Form | None:
    """The one learner that is recommended for a task, by public facts; None without an epsilon.

    Where the paper protects labels only: `LabelPrivateClassifier`. Else `AutoClassifier` or
    `AutoRegressor`.
    """
    epsilon, delta = cell.epsilon, protocol_of(cell).delta
    if epsilon is None or cell.metric in ("mean_nodes", *RANKED):
        return None
    if cell.table == "001.T2" and cell.system != "SSPE-1":
        return Form(LabelPrivateClassifier(epsilon, schema=table.schema, unaccounted=True), True,
                    unlabelled=True)
    kind = AutoRegressor if table.regression else AutoClassifier
    return Form(kind(epsilon, delta, table.schema, unaccounted=True), True)


def promise(cell: Cell) -> str:
    """Whom the default of a cell's task protects."""
    labels = cell.table == "001.T2" and cell.system != "SSPE-1"
    return "labels" if labels else "records"


def _diprime(variant: str) -> Maker:
    def make(cell: Cell, table: Table) -> Form:
        kind = DiPriMeForestRegressor if table.regression else DiPriMeForestClassifier
        return Form(kind(cell.budget, 0.0, table.schema, variant=variant,
                         n_trees=int(cell.options.get("trees", TREES)),
                         partitioned=bool(cell.options.get("partitioned", True)),
                         depth=int(cell.options["depth"]),
                         split_share=float(cell.options.get("rho", 0.5)), level_ratio=1.0,
                         unaccounted=True), True)
    return make


def _ensemble(setting: str) -> Maker:
    def make(cell: Cell, table: Table) -> Form:
        trees = int(cell.options["trees"]) if "trees" in cell.options else None
        return Form(PrivateEnsembleClassifier(
            cell.budget, schema=table.schema, setting=setting, variant="paper", n_trees=trees,
            unaccounted=True), True, unlabelled=setting != "spe")
    return make


def _of_set(cell: Cell, system: str, note: str = "") -> tuple[Options, str]:
    """What a cell's data set changes in the parameters of a system, and the note of both."""
    if cell.data != "Adult":
        return EMPTY, note
    own, changes = OF_ADULT
    return changes[system], f"{own}; {note}" if note else own


def _sgbdt(options: Options = EMPTY, note: str = "", *, arriving: bool = False) -> Maker:
    def make(cell: Cell, table: Table) -> Form:
        own, said = _of_set(cell, "S-GBDT", note)
        kind = SGBDTRegressor if table.regression else SGBDTClassifier
        return Form(kind(cell.budget, protocol_of(cell).delta, table.schema, unaccounted=True,
                         **{**SGBDT_LITERAL, **own, **options}), True, said, arriving=arriving)
    return make


def _dpboost(options: Options = EMPTY, *, arriving: bool = False) -> Maker:
    def make(cell: Cell, table: Table) -> Form:
        kind = DPBoostRegressor if table.regression else DPBoostClassifier
        own, note = _of_set(
            cell, "DPBoost", "late records are left out: it cannot take them" * arriving)
        return Form(kind(cell.budget, protocol_of(cell).delta, table.schema, unaccounted=True,
                         **{**DPBOOST_LITERAL, **own, **options}), True, note)
    return make


def _distributed(cell: Cell, table: Table) -> Form:
    """Algorithm 9, with the filter in use."""
    own, note = _of_set(cell, "distributed")
    return Form(DistributedSGBDT(
        cell.budget, protocol_of(cell).delta, table.schema,
        Rounds(owners=int(cell.options["owners"]), **own)), True, note)


def _chosen(kind: type[DPSIS] | type[DPSISTwoStage]) -> Maker:
    def make(cell: Cell, table: Table) -> Form:
        return Form(kind(cell.budget, schema=table.schema, k=int(cell.options["k"]),
                         unaccounted=True), True)
    return make


def _multinomial(trees: int) -> Maker:
    """B1 and B2 for every split, B3 for the leaves of a tree; all trees add up."""
    def make(cell: Cell, table: Table) -> Form:
        depth, b1, b2 = 10, float(cell.options["B1"]), float(cell.options["B2"])
        infinite = "B3" not in cell.options
        b3 = 0.99 * MOST / trees - depth * (b1 + b2) if infinite else float(cell.options["B3"])
        total = trees * (depth * (b1 + b2) + b3)
        return Form(MultinomialForestClassifier(
            total * 1.001, schema=table.schema, variant="multinomial", n_trees=trees, depth=depth,
            b1=b1, b2=b2, b3=b3, unaccounted=True), True,
            f"B3 {b3:g} in place of infinity" if infinite else "")
    return make


@define(eq=False)
class Complete:
    """A complete binary tree of a public depth: only its size is asked for."""

    nodes: int

    def fit(self, X: Features, y: np.ndarray) -> Complete:
        """Nothing to learn."""
        return self

    def predict(self, X: Features) -> np.ndarray:
        """Never asked."""
        raise NotImplementedError


def _nodes(cell: Cell, table: Table) -> Form | Refused:
    """Sizes of the trees of figure 3: known beforehand for complete trees of a public depth.

    The paper's rule: the largest depth with 25 training rows for every leaf, of a tenth each.
    """
    if cell.system != "DiPriMe":
        return Refused("sizes that follow from true counts are not public")
    depth = int(math.log2(0.9 * len(table.y) / TREES / 25))
    return Form(Complete(2 ** (depth + 1) - 1), False, "a complete tree: its size is public")


def _not_here(cell: Cell, table: Table) -> Refused:
    return Refused("not built")


IRF: Options = {"individual_filter": "renyi", "extra_rounds": 100}
SYSTEMS: dict[tuple[str, str], Maker] = {
    ("000", "DiPriMe"): _diprime("base"), ("000", "DiPriMeExp"): _diprime("exp"),
    ("000", "DiPriMeFlip"): _diprime("flip"),
    ("001", "SPE"): _ensemble("spe"), ("001", "SSPE-1"): _ensemble("sspe1"),
    ("001", "SSPE-2"): _ensemble("sspe2"), ("001", "PTE"): _ensemble("pte"),
    ("002", "DP-SIS"): _chosen(DPSIS), ("002", "two-stage"): _chosen(DPSISTwoStage),
    ("003", "DPBoost no GDF"): _dpboost({"gradient_filtering": False}),
    ("003", "S-GBDT"): _sgbdt(), ("003", "S-GBDT DLNS"): _sgbdt(),
    ("003", "S-GBDT SLN"): _sgbdt({"static_noise": True, "leaf": "posterior"},
                                  "static noise needs posterior leaves"),
    ("003", "S-GBDT IRF"): _sgbdt(IRF), ("003", "S-GBDT no IRF"): _sgbdt(),
    ("003", "S-GBDT IRF, late records"): _sgbdt({"sampling_rate": 1.0}, arriving=True),
    ("003", "S-GBDT no IRF, late records"): _sgbdt(note="late records are left out"),
    ("003", "S-GBDT distributed"): _distributed,
    ("003", "DPBoost"): _dpboost(), ("003", "DPBoost, late records"): _dpboost(arriving=True),
    ("004", "MRF"): _multinomial(100), ("004", "MRF, single tree"): _multinomial(1),
}
"""Printed forms, by paper and system; `printed` adds what other modules bring."""


def printed(cell: Cell, table: Table) -> Form | Refused:
    """What a cell's system is in its printed form, made sound, or why it is not run."""
    if cell.metric == "mean_nodes":
        return _nodes(cell, table)
    where = cell.paper, cell.system
    make = SYSTEMS.get(where) or BASELINES.get(where) or COMPARISONS.get(where) or _not_here
    return make(cell, table)


_OWN_RANGE = "ranges read off the whole table"
SOUND: dict[tuple[str, str], str] = {
    ("000", "DiPriMe"): f"no: F3 (F2 for numbers), {_OWN_RANGE}",
    ("000", "DiPriMeExp"): f"no: F1, F3, {_OWN_RANGE}",
    ("000", "DiPriMeFlip"): f"no: F1, F3, F9, F11b, {_OWN_RANGE}",
    ("000", "DP-RF"): "no: bins between the smallest and the largest value",
    ("000", "DP-DF"): "no: children of values that occur, pruned by true sizes",
    ("000", "DP-ERT"): f"no: {_OWN_RANGE}, empty leaves seen",
    ("001", "SPE"): "no: F3, F4, F4b", ("001", "SSPE-1"): "no: F3, F4, F4b",
    ("001", "SSPE-2"): "no: F5", ("001", "PTE"): "no: F5",
    ("001", "SRT"): "no: F13", ("001", "RDT"): "yes, if the height is public",
    ("001", "MaxTree"): "no: c copies in a bootstrap cost c times as much",
    ("001", "SSRDT"): "no: one label reaches every neighbour",
    ("001", "TOP"): "no: one label reaches every neighbour",
    ("002", "DP-SIS"): "no: F6, F7",
    ("003", "S-GBDT"): "no: F8 (F2 for the start)", ("003", "S-GBDT DLNS"): "no: F8",
    ("003", "S-GBDT SLN"): "no: F8", ("003", "S-GBDT IRF"): "no: F8",
    ("003", "S-GBDT no IRF"): "no: F8", ("003", "S-GBDT IRF, late records"): "no: F8",
    ("003", "S-GBDT no IRF, late records"): "no: F8",
    ("003", "S-GBDT distributed"): "no: F8; line 16 trains on what line 10 left out",
    ("003", "DPBoost"): "no: F2 (the start)",
    ("003", "DPBoost, late records"): "no: F2 (the start)",
    ("003", "DPMean"): "no: F2 as printed; a noisy sum over a noisy count is",
    ("004", "MRF"): "no: F10, F10b; B3 is infinite", ("004", "MRF, single tree"): "no: F10, F10b",
}
"""Whether the printed price holds, in words; what is not listed is not private."""


def was_sound(cell: Cell) -> str:
    """Whether the printed price of a cell holds; `not private` where none is printed."""
    return SOUND.get((cell.paper, cell.system), "not private")
