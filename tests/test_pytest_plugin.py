"""The pytest plugin: a budget that fails a test, and a cheap import."""

import subprocess
import sys
from xml.etree import ElementTree

import pytest

pytest_plugins = ["pytester"]

HEAD = """
import pytest
import privledger as pl
SCHEMA = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0.0, 1.0),))
def spend(ledger, node=pl.Gaussian(20.0)):
    data = ledger.protect({"x": [0.1, 0.5]}, SCHEMA, name="people")
    with ledger.request(pl.Repeat(node, 1), data, learner="counter") as session:
        session.release(node, data.count())
"""


@pytest.fixture
def tested(pytester):
    def run(body, *arguments):
        pytester.makepyfile(HEAD + body)
        # A process of its own: NumPy cannot be imported twice in one. By the name of the entry
        # point: where the plugin is installed, it is not loaded twice.
        return pytester.runpytest_subprocess("--strict-markers", "-p", "no:cacheprovider",
                                             "-p", "privledger.pytest_plugin", *arguments)

    return run


WITHOUT_POLICY = """
@pytest.mark.privacy_budget(epsilon=1.0, delta=1e-6)
def test_within(privledger_ledger):
    spend(privledger_ledger)

@pytest.mark.privacy_budget(epsilon=0.1, delta=1e-6)
def test_over(privledger_ledger):
    spend(privledger_ledger)

@pytest.mark.privacy_budget(epsilon=0.1, delta=1e-6)
def test_refusal_was_expected(privledger_ledger):
    with pytest.raises(pl.BudgetExceeded):
        spend(privledger_ledger)

@pytest.mark.privacy_budget(epsilon=1.0, delta=1e-6)
def test_corrected(privledger_ledger):
    spend(privledger_ledger)
    grant = next(iter(privledger_ledger.state.grants))
    privledger_ledger.correct(grant, pl.Gaussian(1.0), "loud")

@pytest.mark.privacy_budget(epsilon=1.0)
def test_nothing_counted():
    pass

def test_no_budget(privledger_ledger):
    pass

@pytest.mark.privacy_budget(epsilon=float("nan"))
def test_impossible(privledger_ledger):
    pass

@pytest.mark.privacy_budget(epsilom=1.0)
def test_misspelt(privledger_ledger):
    pass
"""


def test_a_marker_is_a_budget(tested, pytester):
    """One run for all: every run of pytest imports the package again."""
    result = tested(WITHOUT_POLICY, "--junitxml=out.xml")
    result.assert_outcomes(passed=2, failed=2, errors=4)
    result.stdout.fnmatch_lines([
        "*BudgetExceeded*", "*node path: Repeat* > Gaussian*",
        "*::test_corrected does not keep to its privacy budget*", "*never-over-the-cap*"])
    cases = {case.get("name"): case for case in
             ElementTree.parse(pytester.path / "out.xml").iter("testcase")}
    found = {one.get("name"): one.get("value") for one in cases["test_within"].iter("property")}
    assert 0.1 < float(found["privledger_epsilon"]) < 1
    assert found["privledger_epsilon_budget"] == "1" and found["privledger_grants"] == "1"
    failed = {name for name, case in cases.items() if case.find("failure") is not None}
    assert failed == {"test_over", "test_corrected"}


def test_a_policy_holds_for_every_ledger(tested, pytester):
    pytester.makefile(".toml", policy="[policy]\nmax_epsilon = 1.0\nmax_delta = 1e-6\n"
                                      "learners = ['counter']\nmechanisms = ['Laplace']\n")
    result = tested("""
def test_a(privledger_ledger):
    assert privledger_ledger.budget.epsilon == 1.0
    spend(privledger_ledger, pl.Laplace(20.0))
def test_b(privledger_ledger):
    spend(privledger_ledger)
""", "--privledger-policy", "policy.toml")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*-not-allowed*", "granted:", "*(counter)*Gaussian*"])


def test_a_policy_that_is_none_stops_the_run(tested):
    result = tested("def test_a(): pass\n", "--privledger-policy", "nowhere.toml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_importing_it_imports_nothing_of_ours():
    code = ("import sys, pytest, privledger.pytest_plugin; "
            "print([m for m in ('privledger.guard', 'numpy', 'scipy') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_line_starts_without_the_heavy_packages():
    code = ("import sys, privledger.cli; "
            "print([m for m in ('scipy', 'sklearn', 'pandas', 'networkx', 'rich', 'jinja2', "
            "'cryptography', 'psycopg') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
