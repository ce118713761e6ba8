"""What the scans of source and of fitted objects see, and what they let pass."""

import ast
import math
import subprocess
import sys

import numpy as np
import pytest

import privledger as pl
from privledger.testing.scans import inside_names, modules_of, samplers_in
from privledger.testing.taint import Planted, found_floats_and_texts, quoted, said_by, walk
from tests.all_cases import all_cases
from tests.worlds import protected, schema_of


@all_cases("line", [
    "rng.laplace(0, 1)", "self.rng.normal(size=3)", "np.random.default_rng(0).gumbel()",
    "np.random.uniform()", "numpy.random.rand(3)", "random.gauss(0, 1)", "random.random()",
    "scipy.stats.norm.rvs()", "stats.laplace(0, 1).rvs(3)", "secrets.randbelow(3)",
    "os.urandom(8)", "from numpy.random import laplace", "from random import gauss",
    "random.SystemRandom().gauss(0, 1)", "generator.standard_normal()"])
def test_draws_of_noise_are_seen(line):
    assert list(samplers_in(ast.parse(line)))


@all_cases("line", [
    "rng = np.random.default_rng(self.random_state)", "rng.permutation(5)", "rng.integers(3)",
    "rng.random(4)", "rng.choice(3)", "pl.Laplace(1.0)", "self.laplace(epsilon)",
    "session.release(laplace, q)", "scipy.stats.norm.ppf(0.5)", "np.random.Generator",
    "math.gamma(2)", "column.exponential"])
def test_public_choices_and_mechanisms_pass(line):
    assert not list(samplers_in(ast.parse(line)))


@all_cases("line", [
    "from privledger.guard import Ledger", "import privledger.guard.vault",
    "from privledger import guard", "data._vault", "session._state", "pl.guard.Ledger",
    "data.ledger._history", "import privledger as p\np.accounting", "pl.errors.sys.modules",
    "from privledger.errors import upward", "import privledger.questions.query",
    "from privledger.testing.fitting import Spy", "pl.plugins.registry", "pl.Gausian(1.0)"])
def test_insides_are_seen(line):
    assert list(inside_names(ast.parse("import privledger as pl\n" + line)))


@all_cases("line", [
    "from privledger import Ledger", "pl.Gaussian(1.0)", "from privledger.testing import CHECKS",
    "from privledger import errors", "pl.errors.DataError('no')", "pl.nodes.OneOf([])",
    "from privledger.questions import Ones", "self._log", "self._state",
    "privledger.__version__"])
def test_public_names_pass(line):
    assert not list(inside_names(ast.parse("import privledger\nimport privledger as pl\n" + line)))


def test_a_learner_s_whole_package_is_scanned():
    from privledger_learners import SGBDTClassifier

    names = {module.__name__ for module in modules_of(SGBDTClassifier())}
    assert {"privledger_learners.sgbdt", "privledger_learners.boosting.random_splits",
            "privledger_learners.boosting.feature_memory"} <= names
    assert not [name for name in names if not name.startswith("privledger_learners")]


PLANTED = Planted(np.sort([0.123456789123, math.pi / 7, 1e9 * math.e]), frozenset({1237}))


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held):
        self.held = held


class Open:
    def __init__(self, **held):
        vars(self).update(held)


@all_cases("held", [
    math.pi / 7, [0.1, (math.pi / 7,)], {"a": {math.pi / 7}}, {math.pi / 7: "a"},
    np.array([[1.0, math.pi / 7]]), np.array([math.pi / 7, "x"], dtype=object),
    Slotted(math.pi / 7), Open(x=Open(y=math.pi / 7)), "by Zyzzogeton haenschi 52318", b"x" * 3
    + np.array([math.pi / 7]).tobytes(), np.float64(math.pi / 7), math.pi / 7 * (1 + 1e-15)])
def test_planted_values_are_found_wherever_they_are(held):
    assert list(found_floats_and_texts(Open(model=held), PLANTED))


def test_what_is_behind_a_guard_is_not_entered():
    schema = schema_of("t", {"x": (0.0, 1.0)})
    ledger, data = protected(pl.Budget(1.0), {"x": [math.pi / 7, 0.5]}, schema)
    fitted = Open(data_=data, ledger_=ledger, query=data.count(), plan=pl.Laplace(math.pi / 7),
                  near=math.pi / 7 + 1e-9, nothing=None, yes=True)
    assert not list(found_floats_and_texts(fitted, PLANTED))
    loop = Open()
    loop.me = [loop]
    assert list(walk(loop)) == []


@all_cases(("text", "found"), [
    ("value 0.12345679 is odd", True), ("0.123456789123", True), ("2718281828.459", True),
    ("0.1234", False), ("1237 rows", True), ("1238 rows", False), ("1237.5", False),
    ("epsilon 0.125", False), ("Zyzzogeton haenschi 52318", True), ("", False)])
def test_quotes_are_found(text, found):
    assert quoted(text, PLANTED) is found


def test_every_word_of_an_exception_is_heard():
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            error.add_note("a note")
            raise ValueError("outer") from error
    except ValueError as error:
        said = " ".join(said_by(error))
    assert all(word in said for word in ("inner", "a note", "outer"))


SCRIPT = """
import numpy as np
from privledger.testing import LearnerCheckFailed
from privledger.testing.scans import check_no_sampler_of_its_own

rng = np.random.default_rng(0)
table = rng.normal(size=100)
{helper}

class Learner:
    def fit(self, data):
        return {used}

try:
    check_no_sampler_of_its_own(Learner())
except LearnerCheckFailed:
    print("found")
else:
    print("nothing")
"""


@pytest.mark.parametrize(("helper", "used", "said"), [
    ("", "data", "nothing"), ("", "rng.normal()", "found"),
    ("noise = rng.laplace(size=9)", "noise[0]", "found"),
    ("def noise():\n    return rng.laplace()", "noise()", "found"),
    ("def other():\n    return rng.laplace()", "data", "nothing"),
    ("def noise():\n    return rng.laplace()", "globals()['noise']()", "found")])
def test_a_script_s_own_table_is_not_its_learner_s_noise(helper, used, said, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(helper=helper, used=used))
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == said


def test_whatever_a_learner_makes_a_check_raise_is_a_failed_check():
    from privledger.testing import CHECKS, LearnerCheckFailed
    from tests.bench.zoo.tables import Prepared

    with pytest.raises(LearnerCheckFailed, match="fails on a table of the kit: DataError"):
        CHECKS["structure-is-public"](Prepared(how="rare-out"))
