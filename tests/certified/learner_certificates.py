"""Certificates of whole learners: the worst pair of tables that a lock found for each."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from attrs import evolve, frozen

from privledger.accounting import check_relation
from privledger.plugins import load_learner
from privledger.reading import parse_json
from privledger.tables.values import Json, items, table, text_field
from privledger.testing.examples import Example, examples_for
from privledger.testing.lockstep.lock import Lock
from privledger.testing.lockstep.neighbours import TablePair
from privledger.testing.lockstep.witnesses import LockCase
from privledger.testing.lockstep.worst_tables import climbing
from tests.certified.pairs import pair_from_json, pair_to_json

NAME = "learners.json"
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "auto-classifier": {"epsilon": 1.0}, "auto-regressor": {"epsilon": 1.0},
    "diprime-forest-classifier": {"epsilon": 1.0}, "diprime-forest-regressor": {"epsilon": 1.0},
    "dp-df-classifier": {"epsilon": 1.0},
    "dp-ert-classifier": {"epsilon": 1.0}, "dp-ert-regressor": {"epsilon": 1.0},
    "dp-rf-classifier": {"epsilon": 1.0}, "dp-rf-regressor": {"epsilon": 1.0},
    "dpboost-classifier": {"epsilon": 1.0}, "dpboost-regressor": {"epsilon": 1.0},
    "dpsis": {"epsilon": 1.0, "k": 2}, "dpsis-two-stage": {"epsilon": 1.0, "k": 2},
    "joint-tree-classifier": {"epsilon": 1.0}, "joint-tree-regressor": {"epsilon": 1.0},
    "label-private-classifier": {"epsilon": 1.0},
    "linear-classifier": {"epsilon": 1.0}, "linear-regressor": {"epsilon": 1.0},
    "linear-classifier, waves": {"epsilon": 1.0, "features": "fourier"},
    "marginal-synthesizer": {"epsilon": 1.0},
    "naive-bayes-classifier": {"epsilon": 1.0}, "nearest-centroid-classifier": {"epsilon": 1.0},
    "least-squares-regressor": {"epsilon": 1.0}, "k-means": {"epsilon": 1.0},
    "pca": {"epsilon": 1.0},
    "multinomial-forest-classifier": {"epsilon": 1.0},
    "private-ensemble-classifier": {"epsilon": 1.0},
    "max-tree-classifier": {"epsilon": 1.0}, "rdt-classifier": {"epsilon": 1.0},
    "srt-classifier": {"epsilon": 1.0}, "ssrdt-classifier": {"epsilon": 1.0},
    "top-classifier": {"epsilon": 1.0},
    "summary": {"epsilon": 1.0},
    "summary, quantiles": {"epsilon": 1.0, "statistics": ["quantile(size, 0.2)", "median(size)"]},
    "summary, texts": {"epsilon": 1.0, "delta": 1e-5, "statistics": ["mean(size)"],
                       "by": ["place"]},
    "sgbdt-classifier": {"epsilon": 1.0}, "sgbdt-regressor": {"epsilon": 1.0},
    "sgbdt-classifier, linear start": {"epsilon": 1.0, "start": "linear"},
    "sgbdt-regressor, linear start": {"epsilon": 1.0, "start": "linear"}}
"""Every shipped learner by its name, and what it is made with. Behind a comma: another way."""

_OTHERWISE: Mapping[tuple[str, str], Mapping[str, object]] = {
    # Of its settings one is for each relation; the others are refused there.
    ("private-ensemble-classifier", "replace_label"): {"setting": "pte"},
    # Texts have a price under add_remove only.
    ("summary, texts", "replace_one"): {"by": []}}
_SAME = 1e-9


def learner_of(name: str) -> Any:
    """The learner of a name of `SETTINGS`."""
    return load_learner(name.partition(",")[0])


def settings_of(name: str, relation: str) -> Mapping[str, object]:
    """What a learner is made with under one of its relations."""
    return {**SETTINGS[name], **_OTHERWISE.get((name, relation), {})}


@frozen(eq=False)
class LearnerCertificate:
    """One learner under one relation, on its worst pair.

    Attributes:
        learner: its name in `SETTINGS`. settings: its arguments, plain values.
        seeds: of the lock. unlabelled: whether targets may be missing.
        ratio: the worst loss over price, of a release or of the whole path.
        releases: that ratio of every release, in order.
    """

    learner: str
    settings: Mapping[str, object]
    relation: str
    seeds: tuple[int, ...]
    unlabelled: bool
    witness: TablePair
    ratio: float
    releases: tuple[float, ...]
    tables: int = 0

    def lock(self) -> Lock:
        """The three fits of its witness, again."""
        given = learner_of(self.learner)(**self.settings)
        return LockCase(given, check_relation(self.relation),
                        _tables(self.witness, self.unlabelled), self.seeds).lock()

    def faults(self) -> list[str]:
        """What is wrong with it today; nothing if it holds."""
        name, found = f"{self.learner} under {self.relation}", self.lock()
        faults = [f"{name}: {one.premise} is broken" for one in found.broken]
        if not found.ratio <= 1:
            faults.append(f"{name}: loses {found.ratio:.9g} times its price")
        if not abs(found.ratio - self.ratio) <= _SAME:
            faults.append(f"{name}: the ratio is {found.ratio:.12g}, stored is {self.ratio:.12g}")
        return faults

    def to_json(self) -> Json:
        """Plain values that say everything."""
        return {"learner": self.learner, "settings": dict(self.settings),
                "relation": self.relation, "seeds": list(self.seeds),
                "unlabelled": self.unlabelled, "ratio": self.ratio,
                "releases": list(self.releases), "tables": self.tables,
                "witness": pair_to_json(self.witness)}

    @classmethod
    def from_json(cls, value: Json) -> LearnerCertificate:
        """The inverse of `to_json`."""
        return cls(text_field(value, "learner"), table(value["settings"]),
                   text_field(value, "relation"),
                   tuple(items(value, "seeds")), bool(value["unlabelled"]),
                   pair_from_json(table(value["witness"])), float(value["ratio"]),
                   tuple(items(value, "releases")), int(value["tables"]))


def _tables(pair: TablePair, unlabelled: bool) -> tuple[Example, Example]:
    first, second = (evolve(one, unlabelled=unlabelled) for one in pair.tables())
    return first, second


def stored_learners(folder: Path) -> list[LearnerCertificate]:
    """Those of a folder; none if it has none."""
    path = folder / NAME
    if not path.exists():
        return []
    held = parse_json(path.read_text(encoding="utf-8"), path.name, "certificates")
    return [LearnerCertificate.from_json(table(one)) for one in held["learners"]]


def store_learners(certificates: list[LearnerCertificate], folder: Path) -> None:
    """One certificate per line."""
    lines = [json.dumps(one.to_json(), allow_nan=False) for one in certificates]
    (folder / NAME).write_text('{"version": 1, "learners": [\n' + ",\n".join(lines) + "\n]}\n",
                               encoding="utf-8")


def search_learners(seconds: float, only: str = "", seed: int = 0) -> Iterator[LearnerCertificate]:
    """Every shipped learner under each of its relations.

    Args:
        seconds: CPU time for each.
    """
    for name, settings in SETTINGS.items():
        given = learner_of(name)(**settings)
        for relation in given.info.relations:
            if only in name:
                yield worst_of(name, settings_of(name, relation), relation, seconds, seed)


def worst_of(name: str, settings: Mapping[str, object], relation: str, seconds: float,
             seed: int = 0) -> LearnerCertificate:
    """Climb until time is up; the pair with the largest worst ratio and mean ratio together."""
    given = learner_of(name)(**settings)
    base = examples_for(given)[0]
    tries = climbing(base, relation, seed=seed, least_rows=1, most_rows=600)
    until, turn, most = time.process_time() + seconds, 0, -1.0
    best: LearnerCertificate | None = None
    pair = next(tries)
    while best is None or time.process_time() < until:
        seeds = (seed, turn)
        found = LockCase(given, check_relation(relation), _tables(pair, base.unlabelled),
                         seeds).lock()
        value = found.ratio + fmean(found.ratios or (0.0,))
        turn += 1
        if value > most:
            most = value
            best = LearnerCertificate(name, settings, relation, seeds, base.unlabelled, pair,
                                      float(found.ratio), tuple(map(float, found.ratios)))
        pair = tries.send(value)
    return evolve(best, tables=turn)
