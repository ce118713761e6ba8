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
told = types.SimpleNamespace(data=str(data), seeds=2, python=[])
"""
MODULES = sorted(one.stem for one in BENCHMARKS.glob("*.py"))
FAST = {
    "ledger": "print(len(m.charging((3, 5), 2) + m.in_memory(((0, 1), (3, 2)), 1) "
              "+ m.started(('gdp',), 1) + m.per_record(1000)))",
    "per_record": "m.RECORDS, m.SAMPLE, m.CASES = 100, 4, m.CASES[:2]; print(m.report())"}
SLOW = {
    "accounting": "print(m._sampled())",
    "areas": "print(m.coverage(m.KNOWN[0], 40, 0.5, 0.25, 'laplace', 9, "
             "m.np.random.default_rng(1)))",
    "auto": "print(m.load(data, 'abalone')[0].name, m.sets_of(data))",
    "auto_page": "print(m.means([]), m.averages({}, lambda epsilon: True))",
    "beside_opacus": "schema, X, y = m.digits(); some = m.rows_of(X, m.np.arange(128)); "
                     "fit = m.FITS['LinearClassifier, the same samples']; "
                     "print(fit(schema, some, y[:128], some, 0)['epsilon'], m.shown())",
    "bins": "m.SEEDS = 2; m.kept(data, 'abalone'); schema, splits = m.generated(300, 5); "
            "print(m.line(next(iter(m.KINDS)), 1.0, schema, splits))",
    "boosting": "print(m.cross_validate(*m.load(data, 'abalone'), 1.0, 1, n_trees=2))",
    "chunks": "data.joinpath('p').mkdir(); "
              "m.TREES, m.RUNS = 2, [(300, what, 1) for what in ('sgbdt', 'memory-sgbdt')]; "
              "print(m.generated(data / 'p', 300), m.report(told))",
    "colours": "print(m.shade_of('sgbdt-classifier'), m.SHADES[0])",
    "compiled": "m.ROWS = 50; print(m.report())",
    "enrolling": "m.ROWS, m.PEOPLE = 40, 40; print(m.report())",
    "feature_selection": "print(m._wide(40, 5)[0].name)",
    "feature_sketches": "m.CHUNK, m.CHUNKS, m.FEATURES = 60, 2, 2; print(m.report(told))",
    "forests": "from privledger_learners import JointTreeClassifier as J; "
               "print(m.scores(data, 'adult', lambda s: J(epsilon=2, schema=s), 1)[:2])",
    "federated": "print(m.beside(data, 'local', 1, (2,)))",
    "federated_calls": "m.OWNERS, m.FITS = (1, 2), 1; print(m.report(told))",
    "filter_costs": "print(m.row('S-GBDT, linear models, sums'))",
    "gallery": "m.EPSILONS, m.REPETITIONS, m.SETS['regression'] = (1.0,), 2, 'abalone'; "
               "print(m.measured('sgbdt-regressor', data))",
    "gallery_drawing": "print(m.title_of('sgbdt-classifier'), m.number(1.0))",
    "gradients": "m.CHUNK, m.TREES, m.ROWS, m.FITTED = 300, 1, 300, 2; "
                 "m.FEW, m.GROWN, m.TIMES = 20, 2, 1; "
                 "print(m.chunk('softmax', 3), m._fits(2)[0](), m.adult(data)[2]())",
    "group_by": "print(m.seconds(500, 1))",
    "hidden": "m.ROWS = 60; print([len(made()[2]) for made in m.SETS.values()])",
    "individual": "from learners import load; schema, X, y = load(data, 'abalone'); "
                  "print(m.stream(X, y, schema, 2))",
    "isolation": "m.TIMES = 1; print(m.report())",
    "learners": "told.seeds = 1; print(m.cross_validate(*m.load(data, 'adult'), 1.0, 1, "
                "n_trees=2), m.not_private(*m.load(data, 'abalone')))",
    "locks": "m.honest, m.SECONDS = (lambda found=[next(m.honest())]: found), .1; "
             "print(m.report())",
    "long": "m.GRANTS, m.COMMANDS = 30, {'show': '1 s', 'record': '2 s'}; print(m.report())",
    "measure": "print(m.machine(), m.spread(m.cpu_times(list, 3)))",
    "page": "print(m.lived(data / 'page', 3, 20))",
    "partitioning": "from privledger_learners import PrivateEnsembleClassifier as E; "
                    "print(m.accuracy(m.load(data, 'adult'), E, 1, n_trees=2))",
    "peer_fits": "print(list(m.SYSTEMS))",
    "people": "print(m.one_seed(m.numbers('x', 400, 60, 1, 0.05), 1))",
    "peers": "m.SETS, m.SEEDS, m.KEPT = ('abalone',), 1, data / 'kept'; print(m.report(told))",
    "random_trees": "m.TREES = 3; print(m.report())",
    "rare_class": "sys.argv = [*'m --sets adult --share .3 --seeds 1'.split(), "
                  "'--data', str(data)]; m.main()",
    "run": "print(m._alone('x', ['ledger'], 'a machine'))",
    "recall": "m.ROWS, m.ASKED = 20, 9; print(m.report())",
    "summaries": "print(m.measured(data, None, 2, (m.AskedSet('adult', 'n', 'n', 'b', 't'),)))",
    "summaries_peers": "",
    "synthetic": "sys.argv = [*'m --sets adult --epsilons 3 --fits 1'.split(), "
                 "'--data', str(data)]; m.main()",
    "textbook": "m.ROWS, m.SEEDS = (('naive Bayes', 'adult'), ('least squares', 'abalone')), 1; "
                "m.prepare(data, data); found = m.measured(m.ours, data); "
                "print(m.table([found, found, m.measured(m.not_private, data)]))",
    "scaling": "print(m.one(300, 3))",
    "tumult": "print(m.main.__doc__)",
    "throughput": "m.ROUNDS = 8; place = str(data / 'l'); m._create(place); "
                  "print(m.reservations(place, 2, 2), m.shares_of_threads(place, 2), "
                  "m.fit_rows(str(data), 9)); m.fill(str(data / 'm'), 3)",
    "traces": "print([name for name, _ in m.traces(('plan', 'one release'))])",
    "uneven_classes": "rng = m.np.random.default_rng(0); "
                      "print(m.told(rng.random((60, 2)), rng.integers(0, 2, 60)))",
    "wide_ranges": "print(m.score(data, 'abalone', '100 x, bought', 1.0, 1))",
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
                {"name": "n", "kind": "numeric", "lower": 0, "upper": 120, "integer": True},
                {"name": "t", **target}]}))
        a = rng.random(60)
        said = [f"{3 * one:.3f}" if categories is None else categories[int(one > 0.5)] for one in a]
        lines = ["a,b,n,t", *(f"{one:.3f},{'uv'[place % 2]},{2 * place},{word}"
                            for place, (one, word) in enumerate(zip(a, said, strict=True)))]
        (folder / name / f"{name}.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))


def run(code: str, folder: Path, seconds: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", HEAD + code, str(folder)], capture_output=True,
                          text=True, timeout=seconds, check=False)


def test_charges_and_records_are_measured(tmp_path):
    done = run("".join(f"import {name} as m\n{code}\n" for name, code in FAST.items()), tmp_path)
    assert done.stdout.startswith("13\n## One round, record by record"), done.stderr


def test_every_benchmark_has_its_line():
    assert {*FAST, *SLOW} == set(MODULES)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SLOW))
def test_it_starts(name, tmp_path):
    tables(tmp_path)
    done = run(f"import {name} as m\n{SLOW[name]}\n", tmp_path)
    assert done.returncode == 0, done.stderr
