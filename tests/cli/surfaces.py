"""Twelve ledgers, and what every reading command says of them, in text and as JSON.

    python -m tests.cli.surfaces --renew     # keep what is said now as what must be said
    python -m tests.cli.surfaces FOLDER      # write it all to FOLDER, to compare with another's

What differs from one run to the next (identities, hashes, times, places) is replaced first.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import numpy as np
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from privledger.nodes import Federated, to_json
from privledger.reports import spend
from privledger.tables.person_keys import make_people_key
from tests.doctored import doctor

VERSIONS = {pl.__version__, version("privledger")}  # of a clone that was installed earlier
KEPT = Path(__file__).with_name("surfaces.json")
POLICY = ("[policy]\nmax_epsilon = 1.0\nmax_delta = 1e-6\nallow_asserted = false\n"
          "[policy.data.people]\nmax_epsilon = 0.2\nmax_delta = 1e-6\n")
HUMAN = """
[basic]
name = "A model"
data_curators = ["us"]
intended_use = "none"
data_product_type = "Machine learning model"
data_product_region = "nowhere"
description = "nothing"
publication_date = "2026-01-01"
[administrative]
registry_authors = ["us"]
"""
X, NAME = {"x": np.linspace(0, 1, 20)}, "people"
SCHEMA = pl.Schema.from_dict({
    "name": "t", "expected_rows": 20, "expected_rows_provenance": "public", "columns": [
        {"name": "x", "kind": "numeric", "lower": 0, "upper": 1}]})
NOISE = pl.Gaussian(20.0)


def count(ledger: pl.Ledger, plan: pl.Node = NOISE, node: pl.Node | None = None, times: int = 1,
          **asked: object) -> None:
    """One grant under which the table is counted."""
    data = ledger.protect(X, SCHEMA, name=NAME)
    with ledger.request(plan, data, **{"learner": "one", **asked}) as session:
        for _ in range(times):
            session.release(node or plan, data.count())


def made(folder: Path) -> dict[str, Path]:
    """The twelve, by name."""
    places = {}

    def create(name: str, epsilon: float = 1.0, **options: object) -> pl.Ledger:
        places[name] = folder / f"{name}.ledger"
        return pl.Ledger.create(places[name], **{"budget": pl.Budget(epsilon, 1e-6),
                                                 "filter": "gdp", **options})

    with create("honest", filter="auto") as ledger:
        count(ledger, pl.Repeat(NOISE, 3), NOISE, 3, claimed=0.5, labels={"team": "red"})
        data = ledger.protect(X, SCHEMA, name="two")
        ledger.request(NOISE, data, learner="nothing").close()
        with ledger.request(NOISE, data, learner="word") as session:
            session.release(NOISE, data.custom(lambda rows: rows["x"], 1.0, "so they say"))
        ledger.request(pl.Asserted(1e-3, "somebody says so"), data, learner="vouched").close()
    places["doctored"] = folder / "doctored.ledger"
    shutil.copy(places["honest"], places["doctored"])
    doctor(places["doctored"], "UPDATE entries SET body = replace(body, 'one', 'two') "
                               "WHERE kind = 'granted'")
    with create("simulated", mode="simulation", seed=1) as ledger:
        count(ledger)
    key = folder / "people.key"
    with mock.patch("secrets.token_bytes", lambda size: bytes(range(size))):
        make_people_key(key)
    with create("of_people", unit="person", people_key=key) as ledger:
        data = ledger.protect({"x": [0.1, 0.5, 0.9, 0.2]}, SCHEMA, name=NAME, people=[1, 1, 2, 3])
        with ledger.request(NOISE, data, learner="one") as session:
            session.release(NOISE, data.count())
        node = pl.IndividualFilter("gdp", 0.01, node=pl.Repeat(NOISE, 3))
        with ledger.request(node, data, learner="filtered") as session:
            session.release(NOISE, session.filtered(node).sum("x"))
    for noise in ("local", "shared"):
        with create(f"federated_{noise}", 3.0) as ledger:
            count(ledger, Federated(pl.Gaussian(9.0), 5, 1, noise=noise), pl.Gaussian(9.0))
    with create("external", 5.0) as ledger:
        count(ledger)
        with ledger.foreign(NOISE, table="theirs", library="opacus", version="1.5", hook="step"):
            pass
    with create("long") as ledger:
        data = ledger.protect(X, SCHEMA, name=NAME)
        for number in range(30):
            with ledger.request(pl.Gaussian(300.0), data, learner=f"l{number % 4}") as session:
                session.release(pl.Gaussian(300.0), data.count())
    with create("scoped", 30.0) as ledger:
        scope = ledger.open_scope(pl.IndividualFilter("gdp", 0.05))
        data = ledger.protect(X, SCHEMA, name=NAME)
        plan = pl.IndividualFilter("gdp", 0.05, node=NOISE)
        for _ in range(2):
            with ledger.request(plan, data, learner="one", scope=scope) as session:
                session.release(NOISE, session.filtered().sum("x"))
        count(ledger)
    caps = (pl.Cap(pl.Budget(0.4, 1e-6), data=NAME), pl.Cap(pl.Budget(0.5, 1e-6), per_window=True))
    with create("capped", caps=caps) as ledger:
        ledger.open_window("first")
        count(ledger)
    with create("windowed", policy=pl.Policy(1.0, 1e-6)) as ledger:
        for name in ("2026", "2027"):
            ledger.open_window(name)
            count(ledger)
    with create("corrected", 0.6) as ledger:
        count(ledger)
        count(ledger, pl.Gaussian(30.0))
        first, second = ledger.state.grants
        ledger.correct(first, pl.Gaussian(10.0), "half the noise")
        ledger.correct(second, None, "it was lost")
    with create("refused", 0.4, filter="basic") as ledger:
        count(ledger, pl.Laplace(10.0))
        for plan in (pl.Laplace(3.0), pl.Laplace(2.0)):
            try:
                count(ledger, plan)
            except pl.BudgetExceeded:
                continue
        try:
            data = ledger.protect(X, SCHEMA, name=NAME)
            with ledger.request(pl.Laplace(20.0), data, learner="fails") as session:
                session.release(pl.Laplace(20.0), data.count())
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
    (folder / "policy.toml").write_text(POLICY)
    (folder / "human.toml").write_text(HUMAN)
    (folder / "plan.json").write_text(json.dumps(to_json(pl.Repeat(pl.Gaussian(30.0), 2))))
    return places


def asked(name: str, folder: Path) -> Iterator[tuple[str, ...]]:
    """Every question to one ledger."""
    place, other, page = f"{name}.ledger", "honest.ledger", "out"  # of the folder we are in
    policy = "--policy", "policy.toml"
    readable = other if name == "doctored" else place
    with pl.Ledger.open(folder / readable, read_only=True) as ledger:
        grant = next(iter(ledger.state.grants))
    for words in (("show",), ("show", "--all"), ("show", "--where", "learner=one"),
                  ("top",), ("top", "--by", "team", "--by", "window", "--by", "cap"),
                  ("log",), ("log", "--kind", "granted", "--where", "learner=one"), ("risk",),
                  ("risk", "--prior", "0.01", "--fpr", "0.05"), ("explain",), ("verify",),
                  ("check", *policy), ("check", *policy, "--warn-at", "0.1"),
                  ("whatif", "--relation", "replace_one", "--rows", "3"),
                  ("whatif", "--plan", "plan.json", "--how-many"), ("explain", grant),
                  ("whatif", "--again", grant, "--times", "400"), ("log", "--grant", grant),
                  ("record", "1", "--data", NAME),
                  ("receipt",)):
        yield (words[0], place, *words[1:])
        yield (words[0], place, *words[1:], "--format", "json")
    if name == "of_people":
        person = ("record", place, "--person", "1", "--people-key", "people.key")
        yield from (person, (*person, "--format", "json"), (*person, "--letter"),
                    ("top", place, "--people"), ("top", place, "--people", "--format", "json"))
    else:
        yield from (("top", place, "--records"), ("top", place, "--records", "--format", "json"))
    for kind in ("sarif", "junit", "github"):
        yield ("check", place, *policy, "--format", kind)
    for words in (("overlap", place, other), ("diff", other, place)):
        yield words
        yield (*words, "--format", "json")
    for more in ((), ("--publishable",), ("--include-records",)):
        yield ("report", place, "-o", page, "--force", *more)
        yield ("report", place, "-o", page, "--force", *more, "--format", "json")
    for kind in ("jsonl", "json", "csv", "dp-event"):
        yield ("export", place, "--as", kind, "-o", page, "--force", "--format", "json")
    yield ("export", place, "--as", "deployment", "--human", "human.toml", "-o", page, "--force")


_SAME = tuple((re.compile(pattern), to) for pattern, to in (
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UUID"),
    (r"\b[0-9a-f]{32,64}\b", "HASH"), (r"head (<code>)?[0-9a-f]{12,16}", r"head \1HASH"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00| UTC|Z)?", "TIME"),
    (r"\b\d\d(-\d\d)? ?\d\d:\d\d(:\d\d)?\b", "TIME"),
    (r"\b20\d\d-\d\d-\d\d\b|\b\d{1,2} [A-Z][a-z]{2} 20\d\d\b", "DATE"),
    (r"process \d+ on [\w.-]+", "process"), (r"\b\d+ kB\b", "kB"), (r'"bytes": \d+', '"bytes"'),
    (r'"pid": ?\d+|\\"pid\\": ?\d+', '"pid"'), (r"sha256-[\w+/=]+", "sha256"),
    (r'"started": ?"[^"]*"', '"started"'),
    (r'(start|boot|host|lease|token)(\\?": ?\\?)"[^"]*"', r"\1\2"), ))


def same(text: str, folder: Path) -> str:
    """Without what another run would say in other words."""
    text = text.replace(str(folder), "FOLDER")
    for said in VERSIONS:
        text = text.replace(said, "VERSION")
    names = dict.fromkeys(re.findall(r"\b(?:grant|scope)-[0-9a-f]+\b", text))
    for number, name in enumerate(names):
        text = text.replace(name, f"name-{number}")
    for pattern, to in _SAME:
        text = pattern.sub(to, text)
    # Python 3.12 adds floats otherwise, and libraries of mathematics differ in a last digit.
    return re.sub(r"\b\d+\.\d{13,}\b", lambda number: f"{float(number[0]):.13g}", text)


def told(folder: Path) -> dict[str, str]:
    """Question -> exit code, then what was said, and what was written."""
    found = {}
    names = itertools.count(0xabcdef000000)  # of grants: of equal ones the first name comes first
    with mock.patch("secrets.token_hex", side_effect=lambda size: f"{next(names):012x}"):
        places = made(folder)
    # What a killed process left is looked for at every opening: once would do for all of these.
    with (mock.patch.object(spend, "LONG", 90), contextlib.chdir(folder),
          mock.patch("privledger.storage.clear_left_behind")):
        for name in places:
            for words in asked(name, folder):
                answer, out = CliRunner().invoke(main, list(words)), folder / "out"
                written = out.read_text("utf-8") if out.exists() else ""
                out.unlink(missing_ok=True)
                found[same(" ".join(words), folder)] = "\n".join(
                    (str(answer.exit_code), *(same(sorted_json(text), folder) for text in
                                              (answer.stdout, answer.stderr, written))))
    return found


def sorted_json(text: str) -> str:
    """The order of an object's fields says nothing."""
    try:
        return json.dumps(json.loads(text), indent=1, sort_keys=True)
    except ValueError:
        return text


def digests(found: dict[str, str]) -> dict[str, str]:
    """Small enough to be kept."""
    return {words: hashlib.sha256(said.encode()).hexdigest()[:12] for words, said in found.items()}


if __name__ == "__main__":
    if len(sys.argv) != 2 or (sys.argv[1].startswith("-") and sys.argv[1] != "--renew"):
        sys.exit("python -m tests.cli.surfaces --renew, or a new folder for the texts")
    with tempfile.TemporaryDirectory() as temporary:
        everything = told(Path(temporary))
    if sys.argv[1:] == ["--renew"]:
        KEPT.write_text(json.dumps(digests(everything), indent=0) + "\n")
    else:
        target = Path(sys.argv[1])
        target.mkdir(parents=True)
        for words, said in everything.items():
            (target / re.sub(r"[^\w.=-]+", "_", words)[:200]).write_text(said)
