"""How much of the house one release enters: a reader follows a noisy answer through so many files.

The six traces of tests/bench/traces.py are printed there; one release is pinned here.
"""

import importlib.util
from pathlib import Path

import pytest

import privledger as pl

SCRIPT = Path(__file__).parents[1] / "bench" / "traces.py"
MOST = 18
"""Files that a release enters, besides accounting and noise. It may only fall."""


@pytest.fixture(scope="module")
def traces():
    spec = importlib.util.spec_from_file_location("traces", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_release_enters_few_files(traces):
    found = dict(traces.traces(("one release",)))["one release"]
    files = found.entered("privledger/accounting", "privledger/noise")
    assert len(files) <= MOST, "\n".join(files)
    assert {"privledger/guard/handle.py", "privledger/guard/release.py"} <= set(files)


def test_the_watch_sees_every_call_of_ours_and_no_other(traces):
    found = traces.trace(lambda: pl.Gaussian(2.0))
    assert found.files["privledger/graph/additive.py"] >= 1
    assert found.files["privledger/rounding.py"] >= 1 and found.moves >= 1
    assert traces.trace(lambda: sorted([2, 1])).files == {}
    assert found.entered("privledger/graph", "privledger") == []


def test_all_six_traces_are_there_and_each_enters_something(traces):
    found = dict(traces.traces())
    assert list(found) == ["plan", "reserve", "one release", "record", "verify", "three-tree fit"]
    assert all(one.files and one.moves for one in found.values())
