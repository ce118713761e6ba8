"""Every benchmark starts: on tiny sizes, so that a name that moves is noticed."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent / "bench"
HEAD = f"""
import sys, types
from pathlib import Path
sys.path[:0] = [{str(BENCHMARKS)!r}, {str(BENCHMARKS.parents[1])!r}]
data = Path(sys.argv[1])
told = types.SimpleNamespace(data=str(data), seeds=2)
"""
MODULES = sorted(one.stem for one in BENCHMARKS.glob("*.py"))
FAST = {
    "ledger": "print(len(m.charging((3, 5), 2) + m.in_memory((0, 3), 1) + m.started(('gdp',), 1) "
              "+ m.per_record(1000)))",
    "per_record": "m.RECORDS, m.SAMPLE, m.CASES = 100, 4, m.CASES[:2]; print(m.report())"}
SLOW = {
    "accounting": "print(m._sampled())",
    "areas": "print(m.coverage(m.KNOWN[0], 40, 0.5, 0.25, 'laplace', 9, "
             "m.np.random.default_rng(1)))",
    "auto": "print(m.load(data, 'abalone')[0].name, m.sets_of(data))",
    "auto_page": "print(m.means([]), m.averages({}, lambda epsilon: True))",
    "bins": "m.SEEDS = 2; m.kept(data, 'abalone'); schema, splits = m.generated(300, 5); "
            "print(m.line(next(iter(m.KINDS)), 1.0, schema, splits))",
    "boosting": "print(m.cross_validate(*m.load(data, 'abalone'), 1.0, 1, n_trees=2))",
    "chunks": "data.joinpath('p').mkdir(); place = m.generated(data / 'p', 300); "
              "print(m.in_memory(place, 'sgbdt', 2), m.one(place, 'sgbdt', 1, 2))",
    "colours": "print(m.shade_of('sgbdt-classifier'), m.SHADES[0])",
    "compiled": "m.ROWS = 50; print(m.report())",
    "enrolling": "m.protecting(data, 40, 8); m.looking_up(data, 40)",
    "feature_selection": "print(m._wide(40, 5)[0].name)",
    "feature_sketches": "m.CHUNK, m.CHUNKS, m.FEATURES = 60, 2, 2; print(m.report(told))",
    "forests": "from privledger_learners import JointTreeClassifier as J; "
               "print(m.scores(data, 'adult', lambda s: J(epsilon=2, schema=s), 1)[:2])",
    "filter_costs": "print(m.row('S-GBDT, linear models, sums'))",
    "gallery_drawing": "print(m.title_of('sgbdt-classifier'), m.number(1.0))",
    "gradients": "m.CHUNK, m.TREES, m.ROWS, m.FITTED = 300, 1, 300, 2; "
                 "m.FEW, m.GROWN, m.TIMES = 20, 2, 1; "
                 "print(m.chunk('softmax', 3), m._fits(2)[0](), m.adult(data)[2]())",
    "group_by": "print(m.seconds(500, 1))",
    "isolation": "m.TIMES = 1; print(m.report())",
    "learners": "told.seeds = 1; print(m.cross_validate(*m.load(data, 'adult'), 1.0, 1, "
                "n_trees=2), m.not_private(*m.load(data, 'abalone')))",
    "locks": "print(next(m.honest())[0])",
    "long": "m.GRANTS, m.COMMANDS = 30, {'show': '1 s', 'record': '2 s'}; print(m.report())",
    "page": "print(m.lived(data / 'page', 3, 20))",
    "partitioning": "from privledger_learners import PrivateEnsembleClassifier as E; "
                    "print(m.accuracy(m.load(data, 'adult'), E, 1, n_trees=2))",
    "recall": "m.ROWS, m.ASKED = 20, 9; print(m.run(True, str(data)))",
    "scaling": "print(m.one(300, 3))",
    "tumult": "print(m.main.__doc__)",
    "throughput": "m.ROUNDS = 8; place = str(data / 'l'); m._create(place); "
                  "print(m.reservations(place, 2, 2), m.shares_of_threads(place, 2), "
                  "m.fit_rows(str(data), 9)); m.fill(str(data / 'm'), 3)",
    "traces": "print([name for name, _ in m.traces(('plan', 'one release'))])",
    "wide_prices": "print(m.ours('laplace and gaussian', 1e-6))",
    "workloads": "print(m.ours(m.WORKLOADS[0]))"}


def tables(folder: Path) -> None:
    """Small tables of the names that benchmarks ask for."""
    rng = np.random.default_rng(0)
    for name, categories in (("abalone", None), ("adult", ["no", "yes"])):
        (folder / name).mkdir()
        target = ({"kind": "numeric", "lower": 0, "upper": 3} if categories is None
                  else {"kind": "categorical", "categories": categories})
        (folder / name / "schema.json").write_text(json.dumps({
            "name": name, "target": "t", "columns": [
                {"name": "a", "kind": "numeric", "lower": 0, "upper": 1},
                {"name": "b", "kind": "categorical", "categories": ["u", "v"]},
                {"name": "t", **target}]}))
        a = rng.random(60)
        said = [f"{3 * one:.3f}" if categories is None else categories[int(one > 0.5)] for one in a]
        lines = ["a,b,t", *(f"{one:.3f},{'uv'[place % 2]},{word}"
                            for place, (one, word) in enumerate(zip(a, said, strict=True)))]
        (folder / name / f"{name}.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))


def run(code: str, folder: Path, seconds: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", HEAD + code, str(folder)], capture_output=True,
                          text=True, timeout=seconds, check=False)


def test_charges_and_records_are_measured(tmp_path):
    done = run("".join(f"import {name} as m\n{code}\n" for name, code in FAST.items()), tmp_path)
    assert done.stdout.startswith("13\n## One round, record by record"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODULES if name not in FAST])
def test_it_starts(name, tmp_path):
    tables(tmp_path)
    done = run(f"import {name} as m\n{SLOW.get(name, '')}\n", tmp_path)
    assert done.returncode == 0, done.stderr
