"""Calls to the file system that fail, stop short or are the last; and power cuts, simulated.

The layer (files.c, by LD_PRELOAD) meets every pwrite, write, fsync, fdatasync, ftruncate, unlink,
link and rename below the ledger's name. The law: what was acknowledged is there afterwards; what
was not acknowledged was not handed out and read nothing; what remains is a valid history.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from pathlib import Path

import pytest

import privledger as pl
from privledger.rounding import from_units
from tests.faults.disk import Disk, Platter, records
from tests.faults.small import guard

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


# Power cuts: from the log of one run, the disk as it may be after a cut at every moment.


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
