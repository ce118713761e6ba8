"""The audit's reader: every text means what parsing it whole would say, or is refused."""

import json
import random
import re
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.graph import canonical
from privledger.ledger.codec import decode, encode
from privledger.ledger.codec_lines import LineReader, strict
from privledger.ledger.entries import GENESIS
from privledger.ledger.history import each_entry
from tests.all_cases import all_cases
from tests.bodies import body_of
from tests.worlds import refused

KINDS = ("granted", "released", "settled", "aborted", "crashed", "protected", "refused")
TEXTS = st.one_of(st.sampled_from(
    ["grant-1", "grant-2", "rows", "", "grant", "\"", "\\", "ü", "\x7f", "\0", "a\"b", "{}",
     '","time":"']), st.text(max_size=3))
VALUES = st.recursive(st.one_of(TEXTS, st.integers(-2, 2), st.booleans(), st.none(),
                                st.sampled_from([0.0, 1.0, 1e-9])),
                      lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
                          st.sampled_from(["grant", "time", "data", "x"]), inner, max_size=3),
                      max_leaves=5)
BODIES = st.dictionaries(st.sampled_from(["data", "grant", "time", "a", "labels", "zz", "plan"]),
                         st.one_of(TEXTS, VALUES), max_size=6)


@settings(max_examples=100, deadline=None)
@given(bodies=st.lists(st.tuples(st.sampled_from(KINDS), BODIES), max_size=8))
def test_reading_is_parsing(bodies):
    reader, forms = LineReader(), {}
    for kind, body in [*bodies, *bodies]:
        line = reader.read(0, kind, canonical(body))
        assert canonical(body_of(line)) == canonical(body)
        if line.form is not None:  # one form: only names and times differ
            bare = canonical({**body, **{key: "" for key in ("data", "grant", "time")
                                         if key in body and isinstance(body[key], str)}})
            assert forms.setdefault(line.form, (kind, bare)) == (kind, bare)


BODY = {"grant": "g1", "plan": {"node": "Gaussian"}, "data": "d", "time": "t", "units": 5}


def test_equal_forms_are_known_and_different_ones_are_not():
    reader = LineReader()
    forms = [reader.read(0, "granted", canonical(BODY | change)).form for change in (
        {}, {"grant": "g2"}, {"time": "later", "data": "e"}, {"units": 6}, {"units": 5.0},
        {"plan": {}}, {"more": 1})]
    assert forms[0] == forms[1] == forms[2] is not None
    assert len({*forms[2:]}) == 5


@all_cases("wrong", [
    lambda text: text.replace(":", ": "), lambda text: text + " ", lambda text: " " + text,
    lambda text: text.replace('"units":5', '"units":5,"units":6'),
    lambda text: text.replace('"units":5', '"units":05'),
    lambda text: text.replace('"units":5', '"units":NaN'),
    lambda text: text.replace('"g1"', '"\\u0067"'), lambda text: text.replace('"g1"', '"ü"'),
    lambda text: text.replace('"g1"', '"a\0b"'), lambda text: text.replace('"g1"', '"\x7f"'),
    lambda text: text.replace('"g1"', '"g1","grant":"g2"'), lambda text: text[:-1], lambda _: "",
    lambda text: text.replace('"time":"t"', '"time":"t","time":"u"'),
    lambda text: json.dumps(dict(reversed(json.loads(text).items())), separators=(",", ":"))])
def test_a_text_that_is_not_the_canonical_one_is_refused(wrong):
    reader, text = LineReader(), canonical(BODY)
    for _ in range(2):
        reader.read(0, "granted", text)  # the form is known
        refused(ValueError, lambda: reader.read(0, "granted", wrong(text)))


def test_forms_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr("privledger.ledger.codec_lines._MOST", 3)
    reader = LineReader()
    forms = [reader.read(0, "granted", canonical(BODY | {"units": units})).form
             for units in (1, 2, 3, 4, 1)]
    assert len(set(forms)) == 5  # a number never comes back for another form


def test_an_empty_name_is_no_cut():
    """A label `time` was cut out in place of an empty time, and its text got lost."""
    reader = LineReader()
    for quarter in ("", "q1", "q2"):
        body = BODY | {"time": "", "labels": {"time": quarter}}
        assert body_of(reader.read(0, "granted", canonical(body))) == body


# Grants and releases as they are really written are taken apart, and every piece is parsed once.

HOLDER = {"host": "h", "pid": 5, "started": "boot:1"}
GRANT = {"data": "d", "delta": 0.0, "delta_units": 0, "grant": "g1", "holder": HOLDER, "labels": {},
         "learner": "l", "lease": None, "plan": {"node": "Gaussian", "noise_multiplier": 2.0},
         "scope": None, "time": "t", "units": 5}
RELEASES = {"first": 0, "grant": "g1", "items": [[0, 0, 1]], "noise": "n", "questions": ["q"],
            "nodes": [{"leaf": {"node": "Gaussian"}, "under": []}]}
ODD = st.sampled_from([0, 1, 7, -1, 1.0, True, None, "", "x", '"pid":3', ',"scope":', ',"nodes":[]',
                       {"pid": 0}, {"pid": 4, "plan": {}}, {}, [], [[0, 0, 2]], {"node": "x"},
                       10**60, '{"plan":', "units"])
NAMES = st.sampled_from(["g1", "g2", "t", "ü", "", 'a"b', "grant", '","plan":'])


@settings(max_examples=300, deadline=None)
@given(changes=st.lists(st.tuples(
    st.sampled_from([("granted", GRANT), ("released", RELEASES)]),
    st.dictionaries(st.sampled_from(sorted({*GRANT, *RELEASES, "holder.pid", "labels.pid", "zz"})),
                    ODD | NAMES, max_size=3)), max_size=8))
def test_taking_apart_is_parsing(changes):
    reader, forms, kin = LineReader(), {}, {}
    for (kind, base), change in [*changes, *changes, *changes]:
        body = dict(base)
        for key, value in change.items():
            outer, _, inner = key.partition(".")
            body[outer] = {**GRANT[outer], inner: value} if inner else value
        line = reader.read(0, kind, canonical(body))
        assert canonical(body_of(line)) == canonical(body)
        bare = dict(body)
        for name in ("data", "grant", "time"):
            if isinstance(bare.get(name), str):
                bare[name] = ""
        if isinstance(bare.get("holder"), dict) and type(bare["holder"].get("pid")) is int:
            bare["holder"] = {**bare["holder"], "pid": 0}
        if line.form is not None:
            known = kind, canonical(bare)
            assert forms.setdefault(line.form, known) == known
        if kind == "released" and line.kin is not None:
            known = canonical({**bare, "items": 0})
            assert kin.setdefault(line.kin, known) == known


def test_what_differs_in_plan_and_process_only_is_one_shape_and_another_form():
    reader = LineReader()
    lines = [reader.read(0, "granted", canonical({**GRANT, "units": units, "plan": plan,
                                                  "holder": {**HOLDER, "pid": pid}}))
             for pid, units, plan in ((5, 5, {"node": "A"}), (6, 5, {"node": "A"}),
                                      (7, 6, {"node": "A"}), (7, 5, {"node": "B"}))]
    assert lines[0].form == lines[1].form
    assert len({line.form for line in lines}) == 3
    assert len(reader._blanks) == 1


TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|[\[\]{}:,]')
PLANTED = (
    "NaN", "Infinity", "-0", "0", "1", "1.0", "1e0", "1E5", "01", "+1", "1e400", "-1", "true",
    "null", '""', '"\\u0041"', '"\\ud800"', '"\\udc00\\ud800"', '"\\uD83D"', '"\u00e9"', '"\x7f"',
    '"\\u007f"', '"\0"', '"\\/"', '"\\b"', '"\\u000a"', '"\\u001F"', '"\ud800"', "[]", "{}",
    '{"a":1,"a":1}', '{"b":1,"a":1}', "[1 ]", " ", "\t", ",", '"grant":"g"', '"', "\\",
    '{"host":"h","pid":1,"started":""}', '{"pid":1,"host":"h","started":""}',
    '{"host":"h","pid":1,"started":"","x":1}', '{"host":"h","pid":true,"started":""}',
    '{"host":"h","pid":1.0,"started":""}', '{"host":"h","pid":-1,"started":""}',
    '{"host":"h","pid":' + "9" * 400 + ',"started":""}', '{"host":"\\u00e9","pid":1,"started":""}',
    "9" * 999, "9" * 1001, "1" + "0" * 55, "123456789012345680.0", "1.2345678901234568e+17",
    "1e-05", "0.00001", "0.10", "5e-324", "[[0,0,1.0]]", '[{"leaf":{},"under":[],"x":1}]', "[1]",
    "[" * 300 + "]" * 300, '{"a":' * 300 + "1" + "}" * 300, "[" * 3900)


def mutated(text, draw):
    """A text with a token, a character or a stretch of it changed, left out or doubled."""
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.randrange(len(text) + 1)
        way = draw.randrange(5)
        if way == 0 and (found := list(TOKENS.finditer(text))):
            one = draw.choice(found)
            text = text[:one.start()] + draw.choice(PLANTED) + text[one.end():]
        elif way == 1:
            text = text[:at] + draw.choice(PLANTED) + text[at:]
        elif way == 2:
            text = text[:at] + chr(draw.choice((0, 9, 32, 34, 92, 127, 233, 0xd800, *range(33, 127))
                                               )) + text[at + 1:]
        elif way == 3:
            text = text[:at] + text[at + draw.randrange(1, 4):]
        else:
            text = text[:at] + text[max(0, at - draw.randrange(60)):]
    return text


def test_a_mutated_text_is_read_as_parsing_reads_it_or_refused():
    draw, reader = random.Random(5), LineReader()
    settled = {"grant": "g1", "releases": 1, "time": "t", "touched": True}
    honest = [("granted", canonical(GRANT)), ("released", canonical(RELEASES)),
              ("settled", canonical(settled))]
    read = 0
    for _ in range(6000):
        kind, text = draw.choice(honest)
        text = mutated(text, draw)
        try:
            event = decode(kind, strict(text))
        except (ValueError, TypeError, RecursionError):
            with pytest.raises((ValueError, TypeError, RecursionError)):
                reader.read(0, kind, text)
            continue
        if len(text) > 1000 and re.search("[0-9]{1001}", text):
            continue  # a limit that parsing does not have
        found = reader.read(0, kind, text).event
        said = {name: value for name, value in found.__dict__.items() if name != "_raw"}
        assert repr(sorted(said.items())) == repr(sorted(
            (name, value) for name, value in event.__dict__.items() if name != "_raw"))
        assert canonical(encode(found)) == text
        read += 1
    assert read > 200


@all_cases("wrong", [None, 5, 5.5, b"", b"\xff", b'{"grant":"g1","releases":1}', ""])
@all_cases("kind", ["settled", "granted", "created"])
def test_what_is_no_text_is_refused_as_such(kind, wrong):
    """A flipped bit of a damaged page can change the type of a value."""
    refused((ValueError, TypeError), lambda: LineReader().read(0, kind, wrong))


ENDED = {"grant": "g1", "releases": 3, "time": "t", "touched": True}


@all_cases("wrong", [
    lambda text: text.replace('"g1"', '"g1 \\u0041"'), lambda text: text.replace('"g1"', '"g\x7f"'),
    lambda text: text.replace('"g1"', '""'), lambda text: text.replace('"g1"', '"a\tb"'),
    lambda text: text.replace('"g1"', '"g1","grant":"g2"'), lambda text: text + " ",
    lambda text: text.replace("[[0,0,1]]", "[[00,0,1]]"), lambda text: text.replace(":3", ":03"),
    lambda text: text.replace("[[0,0,1]]", "[[0,0,1]"), lambda text: text[:-1],
    lambda text: text.replace("[[0,0,1]]", "[[0,0, 1]]"), lambda text: text.replace('"t"', '"ü"'),
    lambda text: text.replace('"touched":true', '"touched":true,"touched":false')])
def test_what_is_as_most_but_for_a_sign_is_read_whole(wrong):
    """Short texts are compared with others: only names, times and items may differ."""
    reader = LineReader()
    for kind, body in (("released", RELEASES), ("settled", ENDED)):
        text = canonical(body)
        for _ in range(3):
            reader.read(0, kind, text)
        assert reader.usual(kind, text) is not None
        changed = wrong(text)
        assert changed == text or reader.usual(kind, changed) is None
        if changed != text and '""' not in changed:
            refused(ValueError, lambda kind=kind, changed=changed: reader.read(0, kind, changed))


@given(st.lists(st.tuples(NAMES, NAMES, st.sampled_from([[], [[0, 0, 1]], [[0, 0, 2], [0, 0, 1]]]),
                          st.integers(0, 2)), min_size=6, max_size=12))
def test_what_is_as_another_says_what_parsing_it_says(parts):
    reader = LineReader()
    for grant, time, items, number in [*parts, *parts]:
        for kind, body in (("settled", ENDED | {"grant": grant, "time": time, "releases": number}),
                           ("aborted", ENDED | {"grant": grant, "time": time, "releases": number}),
                           ("released", RELEASES | {"grant": grant, "items": items})):
            event = reader.read(0, kind, canonical(body)).event
            assert event == decode(kind, body) and encode(event) == body


@pytest.mark.parametrize(("kind", "text"), [
    (b"released", "{}"), (None, "{}"), (5, "{}"), ("released", b"{}"), ("released", None)])
def test_a_value_of_another_type_is_no_line(kind, text):
    """As a damaged page of a database may hold; every reader of a history goes through here."""
    with pytest.raises(TypeError):
        LineReader().read(0, kind, text)
    store = SimpleNamespace(location="there", rows=lambda after=-1: [
        (0, kind, text, GENESIS, "0" * 64)])
    with pytest.raises(pl.LedgerError):
        list(each_entry(store))
