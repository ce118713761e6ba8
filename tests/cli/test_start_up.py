"""What starts fast stays so: each heavy package is imported where it is used, and not before."""

from __future__ import annotations

import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest

import privledger as pl
from privledger.cli.special import QUICK

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
HEAVY = ("sklearn", "scipy.stats", "pandas", "pyarrow", "polars", "narwhals", "networkx",
         "matplotlib", "jinja2", "dask", "cryptography", "psycopg", "grpc")
# What solves a composition, prices a plan, finds plugins or speaks to a server: a ledger of one
# Gaussian fit is read without.
UNREAD = ("accounting.pld.by_pld", "accounting.pld.accountant", "accounting.pld.contour",
          "reports.pricing", "plugins", "storage.postgres", "storage.postgres_sql")
# What of this package has to do with rows: the gate for CI reads none.
ROWS = ("guard", "broker", "questions", "engines", "tables.chunk", "tables.sources",
        "plugins.model_file")
LISTED = """
import contextlib, io, sys
def told(name, code):
    own = [name.removeprefix("privledger.") for name in sys.modules]
    print([name, code, [one for one in {heavy} if one in sys.modules],
           [one for one in {rows} if one in own],
           [one for one in {unread} if one in own]])
import privledger
told("import", 0)
from privledger.cli import main
for words in {commands}:
    with contextlib.redirect_stdout(io.StringIO()):
        try: main(words)
        except SystemExit as end: code = end.code
    told(words[0], code)
"""
# Each with its answer.
ASKED = {
    "SGBDTClassifier(epsilon=2.0).__sklearn_tags__().estimator_type": "classifier",
    "hasattr(DPSIS(epsilon=2.0, k=1), 'transform')": True,
    "repr(SGBDTClassifier(epsilon=2.0))": "SGBDTClassifier(epsilon=2.0)",
    "SGBDTRegressor(epsilon=2.0).get_params()['epsilon']": 2.0,
    "SGBDTClassifier(epsilon=2.0).set_params(epsilon=3.0).epsilon": 3.0,
    "SGBDTRegressor(epsilon=2.0).__sklearn_tags__().estimator_type": "regressor",
    "SGBDTRegressor(epsilon=2.0).__sklearn_clone__().epsilon": 2.0,
    "pickle.loads(pickle.dumps(SGBDTRegressor(epsilon=2.0))).epsilon": 2.0,
    "copy.deepcopy(SGBDTRegressor(epsilon=2.0)).epsilon": 2.0,
    "hasattr(DPSIS(epsilon=2.0, k=1), 'other')": False,
    "'set_fit_request' in dir(SGBDTClassifier(epsilon=2.0))": True,
    "hasattr(SGBDTRegressor(epsilon=2.0), 'score')": True}
BASES = f"""
import copy, inspect, os, pickle, sys
{{first}}
import privledger_learners as learners
from privledger_learners import DPSIS, SGBDTClassifier, SGBDTRegressor
def kinds():
    return [kind for name in learners.__all__ if name != "PrivateSearchCV"
            and isinstance(kind := getattr(learners, name), type)]
before = [kind.__name__ for kind in kinds()]
print([name for name in ("sklearn", "scipy.stats", "pandas") if name in sys.modules])
for question in {[*ASKED]}:  # each in a process in which it is the first that needs scikit-learn
    sys.stdout.flush()
    if not os.fork():
        print([eval(question)], flush=True)
        os._exit(0)
    os.wait()
from sklearn.base import BaseEstimator
print([kind.__name__ for kind in kinds() if not issubclass(kind, BaseEstimator)])
import sklearn.feature_selection
print([[kind.__name__, [base.__qualname__ for base in kind.__mro__],
        sorted(name for name, _ in inspect.getmembers_static(kind))] for kind in kinds()])
"""


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


WHOLE = """
import contextlib, io, sys, threading
from privledger.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    try: main(["show", {place!r}])
    except SystemExit as end: assert not end.code
import scipy.special
print("scipy._lib._array_api" in sys.modules, scipy.special.__file__.endswith("__init__.py"))
from scipy.special import {quick}
def more(): found.append(scipy.special.logsumexp([0.0, 0.0]))
found = []
threads = [threading.Thread(target=more) for _ in range(4)]
for one in threads: one.start()
for one in threads: one.join()
import scipy.stats, scipy.special._ufuncs as compiled
print(len(set(found)), hasattr(scipy.special, "nothing"), all(
    one is getattr(compiled, one.__name__) is getattr(scipy.special, one.__name__)
    for one in ({quick})), set(scipy.special.__all__) <= set(dir(scipy.special)))
"""


def test_compiled_functions_are_had_without_the_rest_of_their_package(tmp_path):
    """They are those of the whole package, which is there as soon as it is asked for."""
    with pl.Ledger.create(tmp_path / "t.ledger", budget=pl.Budget(1.0, 1e-6),
                          filter="gdp") as ledger:
        data = ledger.protect({"x": [0.5]}, schema=pl.Schema("t", (
            pl.Column("x", "numeric", lower=0.0, upper=1.0),)))
        ledger.request(pl.Gaussian(50.0), data, learner="l").close()
    assert fresh(WHOLE.format(place=str(tmp_path / "t.ledger"), quick=", ".join(sorted(QUICK)))
                 ).splitlines() == ["False True", "1 False True True"]


@pytest.mark.parametrize("elsewhere", ["scipy.special._nowhere", "math"])
def test_another_scipy_is_imported_as_a_whole(elsewhere):
    assert fresh(f"""
import privledger.cli.special as special
special.COMPILED = {elsewhere!r}
special.import_quickly()
from scipy.special import ndtr
import scipy.special
print(ndtr(0.0), callable(scipy.special.logsumexp))""") == "0.5 True"


@pytest.mark.parametrize("filter", ["basic", "rdp"])
def test_pure_releases_are_read_without_special_functions(filter, tmp_path):
    """Their squared mu and rho are computed where a filter asks for them."""
    with pl.Ledger.create(tmp_path / "t.ledger", budget=pl.Budget(1.0, 1e-6),
                          filter=filter) as ledger:
        data = ledger.protect({"x": [0.5]}, schema=pl.Schema("t", (
            pl.Column("x", "numeric", lower=0.0, upper=1.0),)))
        for node in (pl.Laplace(20.0), pl.Exponential(0.05), pl.Repeat(pl.DiscreteLaplace(0.1), 2)):
            ledger.request(node, data, learner="l").close()
    assert fresh("import contextlib, io, sys\nfrom privledger.cli import main\n"
                 "with contextlib.redirect_stdout(io.StringIO()):\n"
                 f"    try: main(['show', {str(tmp_path / 't.ledger')!r}])\n"
                 "    except SystemExit as end: assert not end.code\n"
                 "print('scipy.special' in sys.modules)") == "False"


def test_commands_that_fit_nothing_import_nothing_that_fits(ledger_file, tmp_path):
    policy, run = tmp_path / "policy.toml", str(EXAMPLES / "pay.toml")
    policy.write_text("[policy]\nmax_epsilon = 2.0\nmax_delta = 1e-5\n")
    commands = [["check", str(ledger_file), "--policy", str(policy)], ["show", str(ledger_file)],
                ["plan", run], ["check", run, "--policy", str(policy), "--new-ledger"]]
    found = [literal_eval(line) for line in fresh(LISTED.format(
        commands=commands, heavy=HEAVY, rows=ROWS, unread=UNREAD)).splitlines()]
    assert found == [["import", 0, [], [], []], ["check", 0, [], [], []], ["show", 0, [], [], []],
                     ["plan", 0, [], *found[3][3:]], ["check", 0, [], *found[3][3:]]]


def test_a_learner_is_of_scikit_learn_as_soon_as_that_is_imported():
    assert fresh(
        "import sys; from privledger_learners import SGBDTClassifier as kind; made = kind()\n"
        "assert 'sklearn' not in sys.modules\n"
        "from sklearn.base import BaseEstimator, ClassifierMixin\n"
        "print(isinstance(made, BaseEstimator), issubclass(kind, ClassifierMixin), made)"
    ) == "True True SGBDTClassifier()"


@pytest.mark.slow
def test_what_is_imported_first_makes_no_difference():
    """All learners, with every member."""
    last, *asked, strangers, kinds = fresh(BASES.format(first="")).splitlines()
    first, *known, others, same = fresh(
        BASES.format(first="import sklearn.feature_selection")).splitlines()
    assert last == "[]" and "sklearn" in first
    assert kinds == same and len(literal_eval(kinds)) > 30
    assert strangers == others == "['NoiseFloorWarning', 'SelectedGroups']"
    assert asked == known == [f"[{answer!r}]" for answer in ASKED.values()]
