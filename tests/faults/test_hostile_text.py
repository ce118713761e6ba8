"""Texts from outside are only ever texts: in the store, on the terminal, in JSON, in file names."""

import json
import os
import xml.etree.ElementTree as Tree
from itertools import islice

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from privledger.cli.export import entry_line
from privledger.cli.output import reading_store
from privledger.errors import public_name
from privledger.ledger import audit
from privledger.reports import clean
from tests.all_cases import all_cases
from tests.bodies import body_of
from tests.faults.hostile import HOSTILE, RAW, SHORT
from tests.faults.small import KINDS, SCHEMA, TABLE, places
from tests.worlds import protected, refused, schema_of

G = pl.Gaussian(20.0)


def lived(place, text):
    """Every text that a ledger keeps is `text`. Returns how many entries there are."""
    with pl.Ledger.create(place, budget=pl.Budget(2.0, 1e-6), filter="gdp",
                          caps=[pl.Cap(pl.Budget(1.5, 1e-6), data=text)]) as ledger:
        schema = schema_of(text, {"x": (0.0, 1.0)})
        data = ledger.protect(TABLE, schema, name=text)
        labels = {text[:200]: text[:200]}
        with ledger.request(G, data, learner=text, labels=labels) as session:
            session.release(G, data.query((pl.questions.Ones(),), None, text))
        scope = ledger.open_scope(pl.IndividualFilter("gdp", 0.01), name=text)
        with ledger.request(pl.IndividualFilter("gdp", 0.01, node=G), data, scope=scope) as session:
            session.release(G, session.filtered().count())
        refused(pl.BudgetExceeded, lambda: ledger.request(pl.Gaussian(0.5), data, learner=text))
        ledger.correct(next(iter(ledger.state.grants)), G, f"{text}x"[:2000])
        assert ledger.verify() == []
        return len(ledger._history.store.read())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", HOSTILE)
def test_stores_keep_any_text_as_it_is(kind, name, request):
    text, place = HOSTILE[name], next(islice(places(kind, request), 1))
    if name == "long":
        refused(pl.InvalidValue, lambda: lived(place, text), match="characters|larger than")
        text = text[:1000]
        place = next(islice(places(kind, request), 1)) if kind == "postgres" else (
            place and place.with_name("short.db"))
    number = lived(place, text)
    if kind == "memory":
        return
    with pl.Ledger.open(place) as ledger:
        assert ledger.verify() == []
        entries = ledger._history.store.read()
        assert len(entries) >= number
        granted = [body_of(entry) for entry in entries if entry.event.kind == "granted"]
        assert granted[0]["data"] == text and granted[0]["learner"] == text[:200]
        assert granted[0]["labels"] == {text[:200]: text[:200]}
        assert ledger.record(0, text).total > 0
        assert ledger._history.store.vector(f"spend:{granted[1]['grant']}:{text}")
        for entry in entries:  # one line of ASCII, whatever is inside
            line = entry_line(entry)
            assert line.isascii() and line.count("\n") == 1 and line.endswith("\n")
            assert json.loads(line)["body"] == body_of(entry)


@pytest.fixture(scope="module")
def hostile_ledgers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    for number, text in enumerate(SHORT.values()):
        lived(folder / f"{number}.db", text)
    return folder


def inert(text):
    return not any(sign in RAW for sign in text)


@pytest.mark.parametrize("command", ["show", "verify", "receipt", "record"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_raw_reaches_the_terminal(hostile_ledgers, command, form):
    for number, (name, text) in enumerate(SHORT.items()):
        more = ["0", "--data", text] if command == "record" else []
        done = CliRunner().invoke(main, [command, str(hostile_ledgers / f"{number}.db"),
                                         *more, "--format", form])
        assert done.exit_code == 0, (name, done.output[:300])
        shown = done.stdout + done.stderr
        if form == "json":
            assert done.stdout.isascii() or command == "receipt"
            json.loads(done.stdout)
            assert inert(done.stderr)
        else:
            assert inert(shown), name


@all_cases("text", [*HOSTILE.values()], ids=[*HOSTILE])
def test_clean_texts(text):
    assert inert(clean(text)) and "\n" not in clean(text) and len(clean(text)) <= 400


@pytest.mark.parametrize("text", [*SHORT.values()], ids=[*SHORT])
def test_messages_about_missing_things_are_inert(tmp_path, text):
    """A file name, a URL and a learner that nobody has."""
    for arguments in (["show", text or "x"], ["plan", text], ["correct", text, text]):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code != 0 and "Traceback" not in done.output
        assert inert(done.output), arguments
    refused((pl.PrivledgerError, ValueError), lambda: pl.load_learner(text),
            lambda: pl.Ledger.open(tmp_path / "no" / text))


@all_cases("text", [*SHORT.values()], ids=[*SHORT])
def test_assertions_labels_and_graphs(text):
    """`why` texts in a plan, in JSON and in GraphML."""
    if not text.strip():
        return
    node = pl.Sequential([pl.Asserted(1.0, f"{text}w"), pl.nodes.Public(f"{text}p")])
    assert pl.nodes.from_json(json.loads(json.dumps(pl.nodes.to_json(node)))) == node
    Tree.fromstring(pl.nodes.graphml(node).encode("utf-8"))


@all_cases("text", [*SHORT.values()], ids=[*SHORT])
def test_names_of_columns_and_schemas(text):
    """A schema takes them or refuses them; an error about a table of theirs is no crash."""
    try:
        schema = pl.Schema(text, (pl.Column(text, "numeric", "feature", 0.0, 1.0),))
    except pl.PrivledgerError:
        return
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    refused(pl.PrivledgerError, lambda: ledger.protect({"other": [0.5]}, schema))
    data = ledger.protect({text: [0.5]}, schema)
    with ledger.request(G, data) as session:
        session.release(G, data.sum(text))
    assert ledger.verify() == [] and inert(repr(data))
    assert pl.Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_file_names_are_only_names(tmp_path, monkeypatch):
    """No text becomes a path, an option of SQLite or another file."""
    monkeypatch.chdir(tmp_path)
    for name in ("a?mode=memory", "b#c", "%2e%2e%2fd", "file:e", "'; --", "=cmd", "-x", "ä\n"):
        pl.Ledger.create(name, budget=pl.Budget(1.0, 1e-6)).close()
        assert (tmp_path / name).is_file()
        with pl.Ledger.open(name) as ledger:
            assert ledger.verify() == []
    assert len(os.listdir(tmp_path)) == 8
    for text in SHORT.values():
        with pytest.raises((pl.LedgerError, ValueError)):
            pl.Ledger.open(f"{text}\x00")


# Errors of learners: their text, and the names of their types, may quote a value.

SECRET = "4711.25"


class Quoting(pl.errors.DataError):
    pass


def named():
    return type(f"Value_{SECRET}", (RuntimeError,), {})


ERRORS = {
    "text": lambda: RuntimeError(f"the value is {SECRET}"), "name": lambda: named()("x"),
    "ours": lambda: pl.errors.DataError(f"the value is {SECRET}"),
    "refusal": lambda: pl.BudgetExceeded(asked=1.0, spent=0.0, left=0.0, fits=SECRET),
    "value": lambda: pl.InvalidValue("x", SECRET, "another"),
    "rule": lambda: pl.InvalidValue(SECRET, 1.0, SECRET), "subclass": lambda: Quoting(SECRET),
    "os": lambda: OSError(5, f"value {SECRET}", SECRET), "key": lambda: KeyError(SECRET),
    "unicode": lambda: UnicodeDecodeError("ascii", SECRET.encode(), 0, 1, SECRET),
    "group": lambda: ExceptionGroup(SECRET, [ValueError(SECRET)]),
    "escape": lambda: ValueError(f"\x1b[31m{SECRET}")}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_that_quotes_a_value_leaves_no_trace_in_the_ledger(tmp_path, name):
    path = tmp_path / "l.db"
    ledger, data = protected(pl.Budget(1.0, 1e-6), TABLE, SCHEMA, place=path)

    def fit(touch):
        with ledger.request(G, data) as session:
            if touch:
                session.release(G, data.count())
            raise ERRORS[name]()

    for touch in (False, True):
        with pytest.raises(Exception):  # noqa: B017
            fit(touch)
    assert ledger.verify() == []
    ledger.close()
    with reading_store(path) as store:
        assert audit(store) == []
        assert not [entry for entry in store.read() if SECRET in entry_line(entry)]
    assert SECRET.encode() not in path.read_bytes()


def test_names_of_exceptions():
    assert public_name(KeyError) == "KeyError" and public_name(pl.errors.DataError) == "DataError"
    assert public_name(named()) == "RuntimeError" and public_name(Quoting) == "DataError"
    forged = type("Forged_4711", (ValueError,), {"__module__": "builtins"})
    assert public_name(forged) == "ValueError"
