"""One ledger in two mount namespaces, and on a disk that is really full. Needs root on Linux."""

import os
import shutil
import subprocess
import sys

import pytest

import privledger as pl
from tests.worlds import refused


def _can_mount():
    if sys.platform != "linux" or os.geteuid() or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], check=False,
                          capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not _can_mount(), reason="a mount namespace needs root on Linux")

SPEND = """
import sys, numpy as np, privledger as pl
from privledger.storage import place
if sys.argv[2] == "blind":  # as if the mount could not be seen
    place.is_mounted_alone = lambda *arguments: False
schema = pl.Schema("one", (pl.Column("x", "numeric", "feature", 0.0, 1.0),))
try:
    ledger = pl.Ledger.open(sys.argv[1])
    data = ledger.protect({"x": np.linspace(0, 1, 20)}, None, schema)
    granted = 0
    try:
        for _ in range(int(sys.argv[3])):
            ledger.request(pl.Gaussian(22.0), data).close()
            granted += 1
    except pl.BudgetExceeded:
        pass
    print(granted, flush=True)
    sys.stdin.readline()
except pl.errors.LedgerMisplaced as error:
    print("refused:", error, flush=True)
"""
FITS = 27


class Spender:
    """A process that spends in a mount namespace of its own, and holds on until it is told."""

    def __init__(self, mounts, path, sight, most=100):
        self.process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", f'{mounts}; exec "$@"', "sh", sys.executable, "-c",
             SPEND, str(path), sight, str(most)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = self.process.stdout.readline().strip()

    def end(self):
        self.process.communicate("\n", timeout=120)


@pytest.fixture
def names(tmp_path):
    """The ledger's own path, and where it is mounted a second time."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    path = tmp_path / "a" / "l.db"
    pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6), filter="gdp").close()
    (tmp_path / "b" / "l.db").touch()
    return path, tmp_path / "b" / "l.db"


@pytest.mark.parametrize("sight", ["seeing", "blind"])
def test_a_file_that_is_mounted_twice_is_spent_once(names, sight):
    """44 grants where 22 fit, before: each mount has a log of its own."""
    path, other = names
    first = Spender("true", path, sight, 10)
    second = Spender(f"mount --bind '{path}' '{other}'", other, sight)
    assert first.said == "10"
    assert second.said.startswith("refused:")
    assert ("mounted as a single file" if sight == "seeing" else "another log") in second.said
    first.end()
    second.end()
    with pl.Ledger.open(path) as ledger:
        assert len(ledger.state.grants) == 10 and ledger.verify() == []


def test_the_second_mount_is_refused_also_when_nobody_else_is_there(names):
    """A log of the first that was left by a crash could not be seen from there."""
    path, other = names
    only = Spender(f"mount --bind '{path}' '{other}'", other, "seeing")
    assert only.said.startswith("refused:")
    only.end()


def test_without_seeing_the_mount_the_lock_works_in_both_directions(names):
    path, other = names
    first = Spender(f"mount --bind '{path}' '{other}'", other, "blind", 10)
    assert first.said == "10"
    refused(pl.errors.LedgerMisplaced, lambda: pl.Ledger.open(path), match="another log")
    first.end()
    second = Spender("true", path, "seeing")
    assert second.said == str(FITS - 10)  # what was granted through the other is in the file now
    second.end()


def test_a_folder_that_is_mounted_twice_is_one_place(names, tmp_path):
    """The log lies in the folder, so both mounts see it."""
    path, other = names
    first = Spender("true", path, "seeing", 10)
    second = Spender(f"mount --bind '{path.parent}' '{other.parent}'", other, "seeing")
    assert (first.said, second.said) == ("10", str(FITS - 10))
    first.end()
    second.end()


FULL = """
import os, privledger as pl
for kilobytes in (4, 12, 20, 36, 60, 84, 120, 148, 180, 256, 512):
    os.system(f"mount -t tmpfs -o size={kilobytes}k none disk")
    try:
        pl.Ledger.create("disk/l.db", budget=pl.Budget(1.0, 1e-6), filter="gdp").close()
        said = "made"
    except pl.LedgerError:
        said = "refused"
    os.system("mount -o remount,size=1m disk")
    try:
        ledger = pl.Ledger.open("disk/l.db")
        assert ledger.verify() == []
        ledger.close()
        said += " whole"
    except pl.errors.LedgerMissing:
        assert os.listdir("disk") == [], os.listdir("disk")
        pl.Ledger.create("disk/l.db", budget=pl.Budget(1.0, 1e-6)).close()
        said += " none"
    assert os.listdir("disk") == ["l.db"]
    os.system("umount disk")
    print(said, flush=True)
"""


def test_on_a_full_disk_there_is_a_whole_ledger_or_none(tmp_path):
    """Disks of several sizes: a fresh ledger needs some kilobytes, and its log more."""
    (tmp_path / "disk").mkdir()
    done = subprocess.run(["unshare", "-m", sys.executable, "-c", FULL], cwd=tmp_path,
                          capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert len(said) == 11 and set(said) == {"made whole", "refused none"}
