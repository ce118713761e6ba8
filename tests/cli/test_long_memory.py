"""What commands hold in memory of a long history: columns and what grants share, not records."""

import sys
from pathlib import Path

import pytest

GRANTS = 20_000
MOST = {"show": 130, "check": 130, "verify": 130, "verify --all": 130, "top": 130, "risk": 130,
        "log": 110, "export": 110, "record": 130, "report": 180}
"""Megabytes. About 60 are there before anything is read, and 40 are what readers remember of
forms at most; with 100,000 grants all but the report stay below 200."""


@pytest.fixture(scope="module")
def script():
    """The script that makes long ledgers and measures commands on them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "bench"))
        yield __import__("long")
        for name in ("long", "throughput", "measure"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def place(script, tmp_path_factory):
    """A ledger of many grants that differ in all that grants can differ in."""
    found = str(tmp_path_factory.mktemp("long") / "many.ledger")
    script.mixed(found, GRANTS)
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("command", MOST)
def test_a_long_history_takes_little_memory(script, place, command):
    _, peak = script.called(*script.words_of(command, place))
    assert peak <= MOST[command]


def test_commands_that_are_measured_run(script, tmp_path):
    """The script's own calls, on a short ledger with several releases for each grant."""
    assert set(script.COMMANDS) == set(MOST)
    found = str(tmp_path / "few.ledger")
    script.mixed(found, 3, releases=2)
    cpu, peak = script.called(*script.words_of("verify", found))
    assert cpu > 0 and peak > 10
