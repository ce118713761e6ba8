"""Both readers say the same of bodies in which anything was changed, and of honest ones."""

from __future__ import annotations

import copy
import random

import pytest

import privledger as pl
from privledger.errors import PrivledgerError
from privledger.graph.fold import cost_of
from privledger.ledger.codec import SHAPES, decode
from privledger.ledger.codec_lines import LineOf
from privledger.ledger.rules import Seen, whole_history
from privledger.standalone.prices import price
from privledger.standalone.reading import Bad, Table
from privledger.standalone.shapes import check_shape
from tests.all_cases import all_cases
from tests.standalone import histories
from tests.standalone.histories import _at as at

BAD = (None, True, False, 0, 1, -1, 2**63, 10**400, 0.0, 1.0, -0.5, 0.5, 1.5, 5e-324, 1e308,
       float("inf"), float("nan"), "", "x", "gdp", "row", "a" * 201, "0" * 32, "0" * 64, "\n", [],
       [1], [[]], [[0, 0, 0]], [None], {}, {"a": "b"}, {"": "b"}, {"a": 1}, [{}])
POLICIES = ("policy",)  # what a policy holds is read by its own table in each reader


@pytest.fixture(scope="module")
def bodies():
    """Kind -> bodies that honest ledgers wrote."""
    found: dict[str, list[dict]] = {}
    for lines, _ in (*map(histories.everything, ("gdp", "rdp", "zcdp", "basic")), *(
            make() for make in (histories.purse, histories.sampled, histories.of_people,
                                histories.fixed))):
        for line in lines:
            found.setdefault(line["kind"], []).append(line["body"])
    return found


def ours(kind, body, format_=4):
    return not list(whole_history(Seen(None, format_), LineOf(1, decode(kind, body), None), None))


def theirs(kind, body, format_=4):
    try:
        check_shape(kind, body, body["format"] if kind == "created" and isinstance(
            body, dict) and type(body.get("format")) is int else format_)
    except Bad:
        return False
    return True


def changed(body, draw):
    """A copy with one place, at any depth, put to something else, left out or doubled."""
    made = copy.deepcopy(body)
    places = [(made, key) for key in made]
    for holder, key in places:
        inner = holder[key]
        if isinstance(inner, dict):
            places += [(inner, one) for one in inner if key not in ("plan", "leaf", *POLICIES)]
        elif isinstance(inner, list):
            places += [(inner, one) for one in range(len(inner))]
    if not places:
        return draw.choice(BAD)
    holder, key = draw.choice(places)
    if isinstance(holder, dict) and draw.random() < 0.25:
        del holder[key]
    else:
        holder[key] = copy.deepcopy(draw.choice(BAD))
    return made


@pytest.mark.parametrize("kind", SHAPES)
def test_both_say_the_same(kind, bodies):
    draw = random.Random(kind)
    honest = bodies[kind]
    for body in honest:
        assert ours(kind, body) and theirs(kind, body)
    for _ in range(1500):
        body = changed(draw.choice(honest), draw)
        if draw.random() < 0.3 and isinstance(body, dict):
            body = changed(body, draw)
        if kind == "created" and isinstance(body, dict) and body.get("policy") is not None:
            continue
        assert ours(kind, body) == theirs(kind, body), body


@all_cases("kind", SHAPES)
def test_a_body_that_is_no_object_is_refused(kind):
    for body in BAD:
        if not isinstance(body, dict):
            assert not ours(kind, body) and not theirs(kind, body)


EDGES = (-1.0, -0.5, 0, 0.0, 0.5, 1, 1.0, 1 + 2**-52, 1.5, 2, 2.5, 3)
RELATIONS = ("add_remove", "replace_one", "replace_label")


def priced_here(node, relation):
    try:
        cost_of(pl.nodes.from_json(node), relation, (2.0, 4.0))
    except PrivledgerError:
        return False
    return True


def priced_there(node, relation):
    try:
        price(Table().node(node), relation)
    except Bad:
        return False
    return True


@all_cases("node", histories.NODES, ids=repr)
def test_both_refuse_the_same_numbers_of_a_node(node):
    """Every number of a plan at the edges of what a node may be: neither reader takes more."""
    honest = pl.nodes.to_json(node)
    relation = next(one for one in RELATIONS if priced_here(honest, one))
    assert priced_there(honest, relation)
    for path in histories.places(honest):
        for edge in EDGES if type(at(honest, path)) in (int, float) else ():
            made = copy.deepcopy(honest)
            at(made, path[:-1])[path[-1]] = edge
            assert priced_here(made, relation) == priced_there(made, relation), made


def test_nothing_but_a_refusal_is_raised(bodies):
    with pytest.raises((Bad, PrivledgerError)):
        check_shape("nothing", {}, 4)
