"""A copy of a ledger in use that lacks its log is refused; a backup is whole."""

import os
import shutil
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from tests.alone import VERIFIER
from tests.worlds import refused, schema_of

SCHEMA = schema_of("t", {"x": (0.0, 1.0)})
G = pl.Gaussian(60.0)


def spend(ledger, data, times=5):
    for _ in range(times):
        with ledger.request(G, data) as session:
            session.release(G, data.count())


@pytest.fixture
def used(tmp_path):
    ledger = pl.Ledger.create(tmp_path / "a.ledger", budget=pl.Budget(1.0, 1e-6), filter="gdp")
    data = ledger.protect({"x": [0.5, 0.2]}, SCHEMA, name="t")
    spend(ledger, data)
    yield ledger, data, tmp_path
    ledger.close()


def alone(path):
    return subprocess.run([sys.executable, "-I", str(VERIFIER), str(path)], capture_output=True,
                          text=True, check=False).returncode


def run(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    return done.exit_code, done.output


def test_a_copy_without_its_log_is_refused_by_everybody(used):
    ledger, _, here = used
    copy = here / "copy.ledger"
    shutil.copy(here / "a.ledger", copy)
    for read_only in (True, False):
        with pytest.raises(pl.errors.LedgerCorrupt, match="without copy.ledger-wal"):
            pl.Ledger.open(copy, read_only=read_only)
    assert run("show", copy)[0] == run("verify", copy)[0] == alone(copy) == 3
    (here / "copy.ledger-wal").touch()
    with pytest.raises(pl.errors.LedgerCorrupt, match="copied or moved"):
        pl.Ledger.open(copy, read_only=True)
    shutil.copy(here / "a.ledger-wal", here / "copy.ledger-wal")
    with pl.Ledger.open(copy, read_only=True) as both:
        assert both.spent == ledger.spent


def test_what_was_settled_is_in_the_file_itself(used):
    ledger, _, here = used
    shutil.copy(here / "a.ledger", here / "copy.ledger")
    code, text = run("restore", here / "copy.ledger", here / "back.ledger")
    assert code == 0 and "would go unnoticed" in text
    with pl.Ledger.open(here / "back.ledger") as back:
        assert back.spent == ledger.spent and back.verify() == []


def test_a_clean_close_takes_the_mark_away_and_the_next_write_sets_it(used):
    ledger, data, here = used
    other = pl.Ledger.open(here / "a.ledger")
    other.close()  # says that all is in the file: the first writes on
    spend(ledger, data, 1)
    shutil.copy(here / "a.ledger", here / "copy.ledger")
    refused(pl.errors.LedgerCorrupt, lambda: pl.Ledger.open(here / "copy.ledger"))
    ledger.close()
    shutil.copy(here / "a.ledger", here / "closed.ledger")
    with pl.Ledger.open(here / "closed.ledger") as closed:
        assert closed.spent == ledger.spent
    assert alone(here / "closed.ledger") == 0


@pytest.mark.parametrize("end", ["", "import os; os._exit(0)",
                                 "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_process_that_ends_in_any_way_leaves_a_ledger_that_opens(tmp_path, end):
    path = tmp_path / "a.ledger"
    script = f"""
import privledger as pl
ledger = pl.Ledger.create({str(path)!r}, budget=pl.Budget(1.0, 1e-6), filter="gdp")
data = ledger.protect({{"x": [0.5]}}, pl.Schema("t", (
    pl.Column("x", "numeric", "feature", 0.0, 1.0),)))
ledger.request(pl.Gaussian(60.0), data).close()
{end}
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    if os.path.exists(f"{path}-wal"):
        assert alone(path) == 0
    with pl.Ledger.open(path) as ledger:
        assert len(ledger.state.grants) == 1 and ledger.verify() == []
    assert alone(path) == 0


def test_backup_and_restore_say_what_is_missing(used):
    ledger, data, here = used
    assert run("backup", here / "a.ledger", here / "kept.ledger")[0] == 0
    assert run("backup", here / "a.ledger", here / "kept.ledger")[0] != 0  # never over a file
    spend(ledger, data, 3)
    assert run("receipt", here / "a.ledger", "-o", here / "r.json")[0] == 0
    words = ("restore", here / "kept.ledger", here / "back.ledger", "--receipt", here / "r.json")
    code, text = run(*words)
    assert code == 3 and "old copy" in text and not (here / "back.ledger").exists()
    code, text = run(*words, "--accept-loss")
    assert code == 0 and "old copy" in text
    with pl.Ledger.open(here / "back.ledger") as back:
        assert len(back.state.grants) == 5 and back.verify() == []
    assert run("backup", here / "a.ledger", here / "new.ledger")[0] == 0
    assert run("restore", here / "new.ledger", here / "again.ledger", "--receipt",
               here / "r.json")[0] == 0


def test_what_is_damaged_is_not_restored(used):
    _, _, here = used
    assert run("backup", here / "a.ledger", here / "kept.ledger")[0] == 0
    raw = (here / "kept.ledger").read_bytes()
    (here / "kept.ledger").write_bytes(raw.replace(b'"units":', b'"unitz":', 1))
    assert run("restore", here / "kept.ledger", here / "back.ledger")[0] == 3
    assert not (here / "back.ledger").exists()
