"""Locks of honest learners: how long one takes beside a fit, how near the price it comes, and
whether any breaks.

`python tests/bench/locks.py --soak LOCKS` goes on, seed after seed, until so many locks were made,
and says which one broke.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import privledger_learners as learners
from measure import asked, table

from privledger.noise.seeded import generator
from privledger.testing.examples import examples_for, worst_pair
from privledger.testing.lockstep import lockstep
from privledger.testing.lockstep.lock import fitting_of, runs_of
from privledger.testing.lockstep.replay import Recorder
from privledger.testing.lockstep.tap import Tap

SMALL = {"delta": 1e-6, "n_trees": 4}
SECONDS = 1.0
RELATIONS = ("add_remove", "replace_one")


def honest() -> Iterator[tuple[str, str, Any]]:
    """Name, relation and learner: every shipped one, and the variants that use other nodes."""
    for relation in RELATIONS:
        own = {"epsilon": 1.0, "relation": relation}
        yield "S-GBDT regressor", relation, learners.SGBDTRegressor(**own, **SMALL)
        yield "S-GBDT classifier", relation, learners.SGBDTClassifier(**own, **SMALL)
        yield "JointTree classifier", relation, learners.JointTreeClassifier(**own)
        yield "JointTree regressor", relation, learners.JointTreeRegressor(**own)
        yield "DPBoost classifier", relation, learners.DPBoostClassifier(**own)
        yield "DPBoost regressor", relation, learners.DPBoostRegressor(**own)
        yield "DiPriMe classifier", relation, learners.DiPriMeForestClassifier(**own)
        yield "DiPriMe regressor", relation, learners.DiPriMeForestRegressor(**own)
        yield "DiPriMe flips", relation, learners.DiPriMeForestClassifier(
            variant="flip", n_trees=3, **own)
        yield "multinomial forest", relation, learners.MultinomialForestClassifier(**own)
        yield "DP-SIS", relation, learners.DPSIS(k=2, **own)
        yield "DP-SIS, exponential sets", relation, learners.DPSIS(k=2, method="canonical", **own)
        yield "DP-SIS in two stages", relation, learners.DPSISTwoStage(k=2, **own)
    own = {"epsilon": 1.0}
    yield "S-GBDT, sampled", RELATIONS[0], learners.SGBDTRegressor(
        sampling_rate=0.3, **own, **SMALL)
    for kind in ("gdp", "renyi"):
        yield f"S-GBDT, {kind} filter", RELATIONS[0], learners.SGBDTRegressor(
            individual_filter=kind, extra_rounds=3, **own, **SMALL)
    for setting in ("spe", "sspe1", "sspe2", "pte"):
        made = learners.PrivateEnsembleClassifier(setting=setting, **own)
        yield f"ensemble {setting}", made.relation, made
    yield "label-private", "replace_label", learners.LabelPrivateClassifier(n_trees=5, **own)


def timed(learner: Any, relation: str, times: int = 10) -> tuple[float, float]:
    """Processor seconds of one fit through a tap, and of one lock, on the same paths."""
    pair = worst_pair(examples_for(learner)[0], relation)
    fitting = fitting_of(learner, relation)  # type: ignore[arg-type]
    seeds = [generator(3, place) for place in range(times)]
    fit = whole = 0.0
    for rng in seeds:
        start = time.process_time()
        real, _, _ = runs_of(fitting, pair, rng)
        whole += time.process_time() - start
        told = tuple(one.answer for one in real.releases)
        start = time.process_time()
        fitting.run(pair[0], Recorder(Tap(generator(1), quiet=True), told))
        fit += time.process_time() - start
    return fit / times, whole / times


def report(_: object = None) -> str:
    warnings.simplefilter("ignore")
    rows = []
    for name, relation, learner in honest():
        fit, lock = timed(learner, relation)
        found = lockstep(learner, relation=relation, seconds=SECONDS)
        rows.append([name, relation, f"{fit * 1e3:.1f}", f"{lock * 1e3:.1f}", f"{lock / fit:.1f}",
                     found.tables, f"{found.ratio:.6f}{'' if found.holds else ' **broken**'}"])
    return ("## Audits by replay\n\nCPU time of a lock ([proof](proofs/lockstep.md)) beside one "
            f"fit on the same path, and how near its price the worst loss came in {SECONDS:g} s. "
            "`python tests/bench/locks.py --soak N` makes N locks of all of them.\n\n"
            + table(["learner", "relation", "fit, ms", "lock, ms", "lock / fit (goal 3.2)", "locks",
                     "worst loss / price"], rows)
            + "\n\nExponential sets of DP-SIS have a price that is not tight; votes that one "
            "record turns are rare.")


def soak(wanted: int, first: int, unit: str) -> int:
    """Locks of every honest learner until there were `wanted`; how many broke."""
    made = broken = 0
    seed = first
    while made < wanted:
        for name, relation, learner in honest():
            if unit == "person" and name == "label-private":
                continue  # refused by name
            found = lockstep(learner, relation=relation, seconds=0.6, seed=seed, unit=unit)
            made += found.tables
            if not found.holds or found.ratio > 1 + 1e-9:
                broken += 1
                print(f"BROKEN {name}, {relation}, seed {seed}: {found.premise} {found.why} "
                      f"{found.ratio!r}", flush=True)
        seed += 1
        print(f"seed {seed}: {made} locks, {broken} broken", flush=True)
    return broken


def main() -> None:
    """Locks without an end."""
    given = asked(__doc__, soak=(int,), first=0, unit=("row", "person"))
    warnings.simplefilter("ignore")
    raise SystemExit(1 if soak(given.soak, given.first, given.unit) else 0)


if __name__ == "__main__":
    main()
