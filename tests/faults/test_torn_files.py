"""Files cut or flipped at a byte: damage is reported, or a valid beginning of the history opens.

SQLite checks its log by checksums, and not its pages; there our own hash chain and vectors'
digests must find what was edited. What a cut of the log takes away is a tail: only a receipt
finds that (docs/known-limits.md).
"""

import errno
import json
import os
import random
import shutil
from pathlib import Path

import pytest

import privledger as pl
from privledger.ledger import State
from privledger.reports import receipt_is_in_history
from privledger.rounding import from_units
from tests.faults.disk import Disk, Platter, records
from tests.faults.small import guard

PAGE = 4096
FLIPS = (0x01, 0x80, 0xFF)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """(folder, entries): a file with a log beside it, and a file alone, of the same history."""
    folder = tmp_path_factory.mktemp("whole")
    path = folder / "l.db"
    pl.Ledger.create(path, budget=pl.Budget(2.0, 1e-6), filter="gdp").close()
    ledger = pl.Ledger.open(path)
    data = guard(ledger)
    node = pl.IndividualFilter("gdp", 0.01, node=pl.Gaussian(16.0))
    for _ in range(2):
        with ledger.request(pl.Gaussian(16.0), data) as session:
            session.release(pl.Gaussian(16.0), data.count())
        with ledger.request(node, data) as session:
            session.release(pl.Gaussian(16.0), session.filtered(node).sum("x"))
    (folder / "split").mkdir()
    for name in ("l.db", "l.db-wal"):
        shutil.copy(folder / name, folder / "split" / name)
    entries = ledger._history.store.read()
    ledger.close()
    (folder / "alone").mkdir()
    shutil.copy(path, folder / "alone" / "l.db")
    return folder, entries


def totals(entries):
    """Units after every entry of the honest history."""
    state, found = State(), [0]
    for entry in entries:
        state.apply(entry)
        found.append(state.units)
    return found


def outcome(folder, entries, units):
    """What opening and verifying says: "found", "whole" or "prefix"; anything else fails."""
    path = folder / "l.db"
    try:
        with pl.Ledger.open(path, read_only=True) as ledger:
            if ledger.verify():
                return "found"
            held = ledger._history.store.read()
            assert ledger._history.state.units == units[len(held)]
    except pl.LedgerError:
        return "found"
    assert held == entries[:len(held)]
    return "whole" if len(held) == len(entries) else "prefix"


def damaged(source, folder, name, change):
    """A copy of `source` with one file changed."""
    for one in Path(folder).glob("l.db*"):
        one.unlink()
    for one in Path(source).iterdir():
        data = bytearray(one.read_bytes())
        if one.name == name:
            change(data)
        (folder / one.name).write_bytes(data)
    return folder


def cut(place):
    def change(data):
        del data[place:]

    return change


def flip(place, mask):
    def change(data):
        data[place] ^= mask

    return change


def places(source, name, step):
    """Every byte of the log; of the file itself the last four pages, and its first 200 bytes."""
    size = os.path.getsize(source / name)
    if name.endswith("-wal"):
        return range(0, size, step)
    return [*range(0, 200, step), *range(max(200, size - 4 * PAGE), size, step)]


def damage_all(originals, tmp_path, which, name, step):
    folder, entries = originals
    units, seen = totals(entries), {"found": 0, "whole": 0, "prefix": 0}
    for number, place in enumerate(places(folder / which, name, step)):
        for change in (cut(place), flip(place, FLIPS[number % len(FLIPS)])):
            done = outcome(damaged(folder / which, tmp_path, name, change), entries, units)
            seen[done] += 1
    print(which, name, seen)
    return seen


CASES = [("split", "l.db-wal"), ("split", "l.db"), ("alone", "l.db")]


@pytest.mark.parametrize(("which", "name"), CASES)
def test_some_bytes(originals, tmp_path, which, name):
    seen = damage_all(originals, tmp_path, which, name, 211)
    assert sum(seen.values()) > 100
    # While the log holds every page, SQLite never looks at the file's own.
    expected = {"l.db-wal": "prefix", "l.db": "whole" if which == "split" else "found"}
    assert seen[expected[name]] > 20


@pytest.mark.slow
@pytest.mark.parametrize(("which", "name"), CASES)
def test_every_byte(originals, tmp_path, which, name):
    assert sum(damage_all(originals, tmp_path, which, name, 1).values()) > 10_000


def test_the_log_cut_at_every_page_loses_whole_transactions_only(originals, tmp_path):
    """Cut at frame borders: the history ends with an entry that ended a transaction."""
    folder, entries = originals
    units, size = totals(entries), os.path.getsize(folder / "split" / "l.db-wal")
    ends = set()
    for place in range(32, size + 1, PAGE + 24):
        damaged(folder / "split", tmp_path, "l.db-wal", cut(place))
        assert outcome(tmp_path, entries, units) in ("prefix", "whole")
        with pl.Ledger.open(tmp_path / "l.db", read_only=True) as ledger:
            ends.add(ledger._history.store.read()[-1].event.kind)
    assert ends <= {"created", "filter", "granted", "settled"}


def test_another_ledgers_log_is_found_by_a_receipt(originals, tmp_path):
    """SQLite replays any sound log beside a file: then it is wholly another ledger."""
    folder, entries = originals
    with pl.Ledger.open(folder / "alone" / "l.db", read_only=True) as ledger:
        receipt = ledger.receipt.as_dict()
    other = pl.Ledger.create(tmp_path / "o.db", budget=pl.Budget(9.0, 1e-6), filter="gdp")
    other.request(pl.Gaussian(1.0), guard(other)).close()
    target = tmp_path / "mixed"
    target.mkdir()
    shutil.copy(folder / "alone" / "l.db", target / "l.db")
    shutil.copy(tmp_path / "o.db-wal", target / "l.db-wal")
    other.close()
    try:
        with pl.Ledger.open(target / "l.db", read_only=True) as ledger:
            held = ledger._history.store.read()
    except pl.LedgerError:
        return
    assert held == entries or list(receipt_is_in_history(held, receipt))


# Broken calls.

MODES = [("fail", errno.EIO), ("fail", errno.ENOSPC), ("fail from", errno.ENOSPC),
         ("fail from", errno.EIO), ("short", 0), ("kill before", 0), ("kill short", 0),
         ("kill after", 0)]
WORKS = ("create", "live", "fill")
CUTS = random.Random(20261120)


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    made = Disk(tmp_path_factory.mktemp("layer"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A ledger with one settled grant, whose log was copied into the file."""
    path = tmp_path_factory.mktemp("template") / "l.db"
    with pl.Ledger.create(path, budget=pl.Budget(2.0, 1e-6), filter="gdp") as ledger:
        ledger.request(pl.Gaussian(8.0), guard(ledger)).close()
    return path


def fresh(template, folder, work):
    """Where a trial works: on a copy of the template, or where nothing is yet."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "l.db"
    if work != "create":
        shutil.copy(template, path)
    return path


def names(acks, what):
    return [ack["grant"] for ack in acks if ack["ack"] == what]


def check(path, acks, before):
    """The law, for a file and what its users were told about it."""
    assert not [ack for ack in acks if ack["ack"] == "broke"], acks
    created = before or any(ack["ack"] == "created" for ack in acks)
    try:
        ledger = pl.Ledger.open(path)
    except pl.errors.LedgerMissing:
        assert not created  # there is a whole ledger or none, at every moment
        return "none"
    with ledger:
        state = ledger.state
        assert ledger.verify() == []
        granted, failed = names(acks, "granted"), [
            ack for ack in acks if ack["ack"] == "error" and ack["of"] == "request"]
        assert set(granted) <= set(state.grants)
        # At most the one that was under way, and those whose caller got an error instead.
        assert len(state.grants) <= len(granted) + before + len(failed) + 1
        for name in names(acks, "settled"):
            assert state.grants[name].status == "settled" and state.grants[name].releases == 1
        for name in names(acks, "refunded"):
            assert state.grants[name].status == "aborted"
        for name in names(acks, "corrected"):
            assert state.grants[name].corrected
        noises = {ack["grant"]: ack["noise"] for ack in acks if ack["ack"] == "granted"}
        owed = sum(2 / noises[name] ** 2 + (name in names(acks, "corrected")) / 64
                   for name in granted if state.grants[name].status != "aborted")
        assert from_units(state.units) >= owed * (1 - 1e-12)
        if ledger.left > 0.3:  # and it goes on
            ledger.request(pl.Gaussian(40.0), guard(ledger)).close()
            assert ledger.verify() == []
    return "open"


def attempt(disk, template, folder, work, mode, number, at):
    path = fresh(template, folder, work)
    done = disk.trial(work, path, mode=mode, at=at, error=number)
    killed = mode.startswith("kill")
    assert (done["status"] == 9) is killed or done["calls"] is not None, (mode, at, done)
    check(path, done["acks"], before=work != "create")
    shutil.rmtree(folder)
    return done


def every(disk, template, folder, work, mode, number, step=1):
    """One trial for each call, until the work makes no more calls than that."""
    whole = disk.trial(work, fresh(template, folder / "whole", work))["calls"]
    assert whole > 12  # the layer sees the calls
    start = 1 + MODES.index((mode, number)) % step
    found = [attempt(disk, template, folder / str(at), work, mode, number, at)
             for at in range(start, whole + 1, step)]
    if mode.startswith("fail"):
        assert any(ack["ack"] == "error" for done in found for ack in done["acks"])
    if mode.startswith("kill"):
        assert all(done["status"] == 9 for done in found)


@pytest.mark.parametrize(("mode", "number"), MODES)
@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("some", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_some_broken_calls(disk, template, tmp_path, work, mode, number, some):
    # A creation makes few calls.
    every(disk, template, tmp_path, work, mode, number,
          step=1 if not some else 6 if work == "create" else 31)


def power_cuts(disk, template, folder, work, *, step, images, synchronous=True):
    """How many disks were looked at. A disk must show all that was acknowledged by then."""
    path = fresh(template, folder, work)
    held = {str(path): path.read_bytes()} if path.exists() else {}
    log = folder / "log"
    disk.trial(work, path, log=log, synchronous=synchronous)
    platter, acks, seen = Platter(held), [], 0
    for place, record in enumerate(records(log)):
        if record[0] == "A":
            acks.append(json.loads(record[4]))
        platter.take(record)
        if place % step and record[0] != "A":
            continue
        for image in platter.images(CUTS, images):
            look(image, path, folder / "after", acks, work)
            seen += 1
    return seen


def look(image, path, folder, acks, work):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in image.items():
        (folder / Path(name).name).write_bytes(data)
    check(folder / path.name, acks, before=work != "create")


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("images", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_some_power_cuts(disk, template, tmp_path, work, images):
    step = 7 if images == 1 and work != "create" else 1
    least = 10 if images == 1 else 90 if work == "create" else 300
    assert power_cuts(disk, template, tmp_path, work, step=step, images=images) > least


def test_without_fsync_a_power_cut_loses_grants(disk, template, tmp_path):
    """The deliberate fault: so the simulation would notice it."""
    with pytest.raises(AssertionError):
        power_cuts(disk, template, tmp_path, "live", step=1, images=0, synchronous=False)


def test_a_grant_is_acknowledged_after_its_fsync(disk, template, tmp_path):
    """Between the last write to the log file and the acknowledgement there is a sync."""
    log = tmp_path / "log"
    disk.trial("live", fresh(template, tmp_path, "live"), log=log)
    unsynced = set()
    for kind, path, *_, data in records(log):
        if kind == "w" and path.endswith("-wal"):
            unsynced.add(path)
        elif kind == "s":
            unsynced.discard(path)
        elif kind == "A" and b'"granted"' in data:
            assert not unsynced


def test_two_handles_after_a_failed_fsync(disk, template, tmp_path):
    """A commit whose fsync failed is refused; a later one must not bring it back half."""
    path = fresh(template, tmp_path, "live")
    done = disk.trial("live", path, mode="fail", at=1, error=errno.EIO, kinds=2)
    assert any(ack["ack"] == "error" for ack in done["acks"])
    check(path, done["acks"], before=True)
    assert not os.path.exists(f"{path}-journal")
