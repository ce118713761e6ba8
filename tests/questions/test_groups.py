"""Partition selection: price by cases, the law of what is published, and what never leaves."""

import json
import math
from collections import Counter
from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce
from itertools import accumulate, combinations_with_replacement, pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from privledger_learners import group_node, select_groups
from scipy.stats import laplace, norm

import privledger as pl
from privledger.errors import (
    DataError,
    InvalidMechanism,
    RelationMismatch,
    SchemaError,
    UnsupportedNode,
)
from privledger.noise.source import SystemSource
from privledger.questions import NamedCells
from privledger.questions.groups import WORDS, GroupCounts, GroupQuery, geometric_law
from privledger.questions.question import Noise
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns, TextKey
from privledger.tables.examining import examined
from privledger.tables.sources import read_features
from tests.all_cases import all_cases
from tests.alone import verify_history
from tests.engines.mischief import Mischief
from tests.made_pages import DOCS
from tests.standalone.histories import lines_of
from tests.worlds import refused

SCHEMA = pl.Schema("s", (pl.Column("x", "numeric", lower=0.0, upper=1.0),
                         pl.Column("g", "text", "key", missing=True)))
NODE = group_node(1.0, 1e-6)
LAPLACE = pl.nodes.PartitionSelection(1 + math.log(0.5e6) + 1e-9, 1.0)
KEY = b"k" * 32


def gaussian_delta(epsilon, mu):
    return 0.0 if mu == 0 else float(norm.cdf(mu / 2 - epsilon / mu)
                                     - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def noise_delta(node, epsilon, groups):
    """Of the noise on so many counts, for this test: by the papers' formulas."""
    if node.noise == "gaussian":
        return gaussian_delta(epsilon, math.sqrt(groups) / node.scale)
    return max(0.0, -math.expm1((epsilon - groups / node.scale) / 2))


def alone(node):
    far = (node.threshold - 1) / node.scale
    return math.exp(-far) / 2 if node.noise == "laplace" else float(norm.sf(far))


def by_cases(node, epsilon, attained=False):
    """What the proof's page says; or what its example attains."""
    found, k, q = 0.0, node.groups_per_person, alone(node)
    for j in range(k + 1):
        fails = -math.expm1(j * math.log1p(-q))
        at = epsilon - math.log1p(-fails) if attained else epsilon
        found = max(found, fails + (1 - fails) * noise_delta(node, at, k - j))
    return found


NODES = [pl.nodes.PartitionSelection(9.0, 2.0), pl.nodes.PartitionSelection(15.0, 1.0),
         pl.nodes.PartitionSelection(40.0, 8.0, 1, "gaussian"),
         pl.nodes.PartitionSelection(40.0, 8.0, 3, "gaussian"),
         pl.nodes.PartitionSelection(60.0, 14.0, 10, "gaussian"),
         pl.nodes.PartitionSelection(300.0, 30.0, 16, "gaussian")]


@pytest.mark.parametrize("node", NODES, ids=str)
def test_the_price_is_that_of_the_dearest_case_and_is_attained(node):
    for epsilon in (0.2, 0.5, 1.0, 2.0):
        price = pl.delta(node, epsilon=epsilon)
        assert by_cases(node, epsilon) <= price * (1 + 1e-9)
        assert by_cases(node, epsilon, attained=True) >= 0.99 * price


def test_many_groups_cost_a_little_more_than_their_cases():
    node = pl.nodes.PartitionSelection(260.0, 40.0, 50, "gaussian")
    for epsilon in (0.5, 1.0):
        price, cases = pl.delta(node, epsilon=epsilon), by_cases(node, epsilon)
        assert cases <= price <= 1.2 * cases


def test_the_bit_by_enumeration():
    """A group of n people, Laplace noise: the exact delta of whether it shows, over all n."""
    node = LAPLACE
    e = math.exp(1.0)
    tail = lambda far: math.exp(-far / node.scale) / 2 if far > 0 else (  # noqa: E731
        1 - math.exp(far / node.scale) / 2)
    shown = [0.0, *(tail(node.threshold - n) for n in range(1, 200))]
    worst = max(max(more - e * less, less - e * more, (1 - more) - e * (1 - less),
                    (1 - less) - e * (1 - more))
                for less, more in pairwise(shown))
    assert 0.99e-6 <= worst <= 1e-6


def optimal(epsilon, delta, most=200):
    """Chances to name a group of 1, 2, ... people: the optimal rule, by its closed form."""
    e = math.exp(epsilon)
    grown = lambda n: math.expm1(n * epsilon) / math.expm1(epsilon) * delta  # noqa: E731
    turn = 1 + math.floor(math.log((e + 2 * delta - 1) / ((e + 1) * delta)) / epsilon)
    sure = turn + math.floor(math.log1p((e - 1) / delta * (1 - grown(turn))) / epsilon)
    late = lambda n: (-math.expm1(-(n - turn) * epsilon) * (1 + delta / (e - 1))  # noqa: E731
                      + math.exp(-(n - turn) * epsilon) * grown(turn))
    return np.array([grown(n) if n <= turn else late(n) if n <= sure else 1.0
                     for n in range(1, most + 1)])


def named(node, most=200):
    """The same of geometric noise, by the list that it is drawn from."""
    law = np.array(list(accumulate(geometric_law(node)))) / WORDS
    return np.concatenate([law, np.ones(most)])[:most].astype(float)


FOUR = [(0.1, 1e-6), (1.0, 1e-6), (1.0, 1e-9), (3.0, 1e-5)]


@all_cases(("epsilon", "delta"), [*FOUR, (1.0, 0.01), (0.01, 1e-3), (8.0, 1e-6), (1.0, 1.1e-12)])
def test_geometric_noise_names_as_many_groups_as_the_optimal_rule(epsilon, delta):
    node = group_node(epsilon, delta)
    assert node.noise == "geometric"
    assert pl.delta(node, epsilon=epsilon) <= delta and pl.epsilon(node, delta) <= epsilon
    best = optimal(epsilon, delta)
    assert np.all(np.abs(named(node) - best) <= max(2e-9, 4e-18 / delta) * best)


def test_the_page_says_how_many_groups_are_named():
    rows = json.loads((DOCS / "figures" / "benchmarks.json").read_text())["Groups named of 200"]
    sizes = np.arange(1, 201)
    for (epsilon, delta), row in zip(FOUR, rows[0]["rows"], strict=True):
        wide = pl.calibrate(pl.Gaussian, epsilon, delta / 2)
        found = [named(group_node(epsilon, delta)), optimal(epsilon, delta),
                 laplace.sf(1 + math.log(0.5 / delta) / epsilon - sizes, scale=1 / epsilon),
                 norm.sf((1 - sizes) / wide - norm.ppf(delta / 2))]
        assert row == [f"{epsilon:g}, {delta:g}", *[f"{one.sum():.2f}" for one in found]]


@given(st.floats(0.125, 100.0), st.floats(1e-12, 0.3))
@example(1000.0, 1e-12)
@example(0.125, 1e-12)
@settings(max_examples=20)
def test_the_law_of_geometric_noise_keeps_its_price_in_whole_numbers(scale, delta):
    """Both hockey-stick divergences of neighbours, with e^(1/scale) bracketed by 60 digits."""
    far = math.log(math.tanh(0.5 / scale) / delta)
    assume(far > 1e-6)
    node = pl.nodes.PartitionSelection(1 + scale * far, scale, 1, "geometric")
    law, digits = geometric_law(node), Context(60)
    assert sum(law) == WORDS and min(law) > 0
    low = Fraction(digits.divide(1, Decimal(scale)).exp(digits)) * (1 - Fraction(1, 10**40))
    dear = Fraction(node.shown_alone) * WORDS
    for way in (law, law[::-1]):
        assert sum(max(0, after - low * before) for before, after in pairwise((0, *way))) <= dear
    assert pl.delta(node, epsilon=1 / scale * (1 + 1e-12)) >= node.shown_alone


def told_of(law, people, most):
    """Chances of what is published of a group: each difference to its draw, then nothing at all."""
    shown = np.zeros(most + 1)
    for draw, chance in enumerate(law[:people], 1):
        shown[people - draw] = chance
    shown[most] = math.fsum(law[people:]) if people else 1.0
    return shown


@pytest.mark.parametrize("k", [1, 2])
def test_a_whole_release_certifies_its_price(k):
    """The worst of all sizes of a person's groups, over all outcomes of both laws together: the
    delta at the node's epsilon is what is paid for, and is reached where the person is alone."""
    scale = k / 1.0 * (1 + 1e-12)
    far = math.log(math.tanh(0.5 / scale) / -math.expm1(math.log1p(-1e-4 * (1 - 1e-9)) / k))
    node = pl.nodes.PartitionSelection(1 + scale * far, scale, k, "geometric")
    law = [one / WORDS for one in geometric_law(node)]
    sizes, worst = (0, 1, 2, 5, len(law) // 2, len(law) - 1, len(law)), {}
    e, paid = math.exp(1.0), pl.delta(node, epsilon=1.0)
    for held in combinations_with_replacement(sizes, k):
        without, beside = (reduce(np.multiply.outer, [told_of(law, one + more, len(law) + 1)
                                                      for one in held]) for more in (0, 1))
        worst[held] = max(float(np.maximum(0.0, one - e * other).sum())
                          for one, other in ((without, beside), (beside, without)))
    assert max(worst.values()) <= paid * (1 + 1e-9)
    assert worst[(0,) * k] >= 0.999 * paid


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=30),
       st.sets(st.integers(0, 4), max_size=5))
def test_a_person_moves_the_groups_of_their_own_by_one(pairs, own):
    """What the price takes from the sums: nobody else's group moves, and none by more."""
    known = sorted({who for who, _ in pairs})
    people, codes = [known.index(who) for who, _ in pairs], [code for _, code in pairs]
    before = counted(rows_of(codes, people), 5)
    after = counted(rows_of([*codes, *own], [*people, *[len(known)] * len(own)]), 5)
    moved = {name: after.get(name, 0) - before.get(name, 0) for name in {**before, **after}}
    assert {name for name, by in moved.items() if by} == {f"n{code}" for code in own}
    assert set(moved.values()) <= {0, 1}


def test_geometric_noise_has_the_law_of_its_list():
    """20,000 groups of each of 5 sizes: within 6 standard deviations, 2e-9 false alarms each; and
    the mean and the grid of what is published."""
    node, many, question = group_node(1.0, 1e-4), 20_000, GroupQuery(pl.Dataset(SCHEMA, None), "g")
    state, chances = question.prepare(node, "add_remove"), named(node)
    for people in (6, 9, 10, 12, 60):
        found = question.finish(GroupCounts({f"g{one:05}": people for one in range(many)}),
                                Noise(node, state, SystemSource()))
        chance = chances[people - 1]
        assert abs(len(found.names) / many - chance) <= 6 * math.sqrt(chance * (1 - chance) / many)
        assert found.counts.min(initial=99.0) >= node.threshold
        assert list(found.names) == sorted(found.names)
    assert abs(found.counts.mean() - 60) < 6 * math.sqrt(2 / many)  # all of them show
    steps = np.unique(found.counts)
    assert np.allclose(np.diff(steps), np.round(np.diff(steps)), atol=1e-9)


def test_a_group_of_one_person_shows_as_often_as_the_price_says():
    """Words just below and at the first number of the list: no other word names one person."""
    first = geometric_law(NODE)[0]
    assert first <= 1e-6 * WORDS
    for word, shown in ((first - 1, 1), (first, 0), (WORDS - 1, 0)):
        source = SystemSource()
        source._words = lambda size, word=word: np.full(size, word, dtype=np.uint64)
        question = GroupQuery(pl.Dataset(SCHEMA, None), "g")
        found = question.finish(GroupCounts({"one": 1, "many": 90}), Noise(
            NODE, question.prepare(NODE, "add_remove"), source))
        assert len(found.names) == 1 + shown


@pytest.mark.parametrize(("k", "most"), [(1, 14.1), (2, 27.3), (3, 37.5), (10, 70.7), (30, 127.0)])
def test_groups_are_named_from_a_smaller_size_on_than_by_others(k, most):
    """python-dp 1.1.5 needs 15, 40 and 74 (docs/groups.md)."""
    node = group_node(1.0, 1e-6, k)
    assert node.threshold <= most
    assert pl.delta(node, epsilon=1.0) <= 1e-6 * (1 + 1e-9)
    assert pl.epsilon(node, 1e-6) <= 1.0 + 1e-9


@all_cases("node", [pl.nodes.PartitionSelection(8.0, 2.0),
                    pl.nodes.PartitionSelection(8.0, 3.0, 2, "gaussian")], ids=str)
@all_cases("people", [1, 6, 8, 12])
def test_the_law_of_what_is_published(node, people):
    """20,000 groups of one size: within 6 standard deviations, 2e-9 false alarms each."""
    many, question = 20_000, GroupQuery(pl.Dataset(SCHEMA, None), "g")
    state = question.prepare(node, "add_remove")
    found = question.finish(GroupCounts({f"g{one:05}": people for one in range(many)}),
                            Noise(node, state, SystemSource()))
    far = node.threshold - people
    chance = (float(norm.sf(far / node.scale)) if node.noise == "gaussian" else
              math.exp(-far / node.scale) / 2 if far > 0 else 1 - math.exp(far / node.scale) / 2)
    assert abs(len(found.names) / many - chance) < 6 * math.sqrt(chance * (1 - chance) / many)
    assert found.counts.min(initial=99.0) >= node.threshold
    assert list(found.names) == sorted(found.names)


def rows_of(codes, people=None, names=5):
    key = TextKey(tuple(f"n{one}" for one in range(names)), np.array(codes, dtype=np.int32))
    columns = Columns(SCHEMA, (np.zeros(len(codes)),), len(codes), {"g": key})
    return Rows(columns, None, SystemSource(),
                people=None if people is None else np.array(people, dtype=np.int32))


def counted(rows, k=1):
    question = GroupQuery(pl.Dataset(SCHEMA, None), "g")
    node = pl.nodes.PartitionSelection(9.0, 2.0, k)
    return question.sketch(rows, question.prepare(node, "add_remove")).counts


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 4)), max_size=30), st.integers(1, 4))
def test_nobody_speaks_for_more_groups_than_the_node_says(pairs, k):
    known = sorted({who for who, _ in pairs})
    people = [known.index(who) for who, _ in pairs]
    found = counted(rows_of([code for _, code in pairs], people), k)
    most = sum(min(k, len({code for other, code in pairs if other == who and code >= 0}))
               for who in known)
    assert sum(found.values()) == most
    assert all(0 < count <= len(known) for count in found.values())


def test_rows_count_one_each_and_missing_names_nowhere():
    assert counted(rows_of([0, 0, 3, -1])) == {"n0": 2, "n3": 1}
    assert counted(rows_of([])) == {}
    part = rows_of([0, 1, 0, 2]).subset(np.array([0, 2]))
    assert counted(part) == {"n0": 2}


def test_a_person_of_many_groups_speaks_for_each_as_often():
    """6,000 people of 5 groups, k = 2: within 6 standard deviations, 1e-8 false alarms in all."""
    many = 6000
    found = counted(rows_of(list(range(5)) * many, np.repeat(np.arange(many), 5)), 2)
    for count in found.values():
        assert abs(count - 0.4 * many) < 6 * math.sqrt(0.24 * many)


def protect(ledger, names, people=None):
    return ledger.protect({"x": np.zeros(len(names)), "g": names}, schema=SCHEMA, people=people)


def test_a_whole_release_and_what_the_history_keeps():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-5))
    names = ["mill"] * 300 + ["port"] * 100 + ["hidden-name"] + [None]
    data = protect(ledger, np.array(names, dtype=object))
    found = select_groups(data, "g", epsilon=1.0, delta=1e-6)
    assert found.names == ("mill", "port") and len(found) == 2
    assert abs(found.counts[0] - 300) < 30 * found.noise_sd
    told = json.dumps([repr(entry) for entry in ledger.entries()]) if hasattr(
        ledger, "entries") else repr(ledger.state)
    assert "hidden" not in told and "mill" not in told
    assert "hidden" not in repr(data) + repr(data.groups("g"))
    assert not list(ledger.verify())
    refused(pl.BudgetExceeded, lambda: select_groups(data, "g", epsilon=1.0, delta=1e-6))


def test_released_names_are_categories_from_then_on():
    ledger = pl.Ledger.create(None, budget=pl.Budget(3.0, 1e-5))
    names = ["mill"] * 300 + ["port"] * 100 + ["hidden"]
    found = select_groups(protect(ledger, names), "g", epsilon=1.0, delta=1e-6)
    schema = pl.Schema("known", (SCHEMA.columns[0], found.column("g")))
    data = ledger.protect({"x": np.zeros(401), "g": found.within(names)}, schema=schema)
    with ledger.request(pl.Laplace(1.0), data) as session:
        counts = session.release(pl.Laplace(1.0), data.histogram("g"))
    assert np.abs(counts - [300, 100, 1]).max() < 40


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_gives_its_texts(tmp_path, suffix):
    pandas = pytest.importorskip("pandas", reason="writes the table")
    names = ["mill"] * 300 + ["port"] * 100 + ["hidden"]
    frame = pandas.DataFrame({"x": np.zeros(401), "g": names})
    path = tmp_path / f"t{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    schema = pl.Schema("s", (*SCHEMA.columns, pl.Column("y", "numeric", "target", 0.0, 1.0)))
    frame["y"] = 0.5
    full = tmp_path / f"u{suffix}"
    frame.to_csv(full, index=False) if suffix == ".csv" else frame.to_parquet(full)
    X, y = pl.read_table(full, schema)
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-5))
    found = select_groups(ledger.protect(X, y, schema), "g", epsilon=1.0, delta=1e-6)
    assert found.names == ("mill", "port")
    assert not examined(full, schema).faults
    assert {one.column for one in examined(path, schema).faults} == {"y"}
    lacking = frame.drop(columns="g")
    lacking.to_csv(full, index=False) if suffix == ".csv" else lacking.to_parquet(full)
    assert {one.column for one in examined(full, schema).faults} == {"g"}
    refused(DataError, lambda: pl.read_table(full, schema), match="missing column g")
    # What predicts needs none of them; chunks have no place for them.
    assert list(read_features(full, schema)) == ["x"]


def test_late_arrivals_bring_names():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-5))
    data = protect(ledger, ["b"] * 60)
    more = ledger.append(data, {"x": np.zeros(160), "g": ["a"] * 90 + ["b"] * 70})
    found = select_groups(more, "g", epsilon=1.0, delta=1e-6)
    assert found.names == ("a", "b")
    assert abs(found.counts[1] - 130) < 30 * found.noise_sd


def test_people_are_counted_once():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-5), unit="person", people_key=KEY)
    data = protect(ledger, ["a", "b", "a"] * 150, np.repeat(np.arange(150), 3))
    found = select_groups(data, "g", epsilon=1.0, delta=1e-6, groups_per_person=2)
    assert found.names == ("a", "b")
    assert (np.abs(found.counts - 150) < 30 * found.noise_sd).all()


def test_refusals_read_nothing():
    ledger = pl.Ledger.create(None, budget=pl.Budget(9.0, 1e-5))
    data = protect(ledger, ["b"] * 60)
    refused(SchemaError, lambda: data.groups("x"), lambda: data.histogram("g"))
    other = pl.Ledger.create(None, budget=pl.Budget(9.0, 1e-5), relation="replace_one")
    with pytest.raises(RelationMismatch):
        select_groups(protect(other, ["b"] * 60), "g", epsilon=1.0, delta=1e-6)
    with ledger.request(NODE, data) as session:
        refused(pl.errors.UnsupportedNode, lambda: session.release(NODE, data.count()))
        assert session.releases == 0
    crowd = pl.Ledger.create(None, budget=pl.Budget(9.0, 1e-5), unit="person", people_key=KEY)
    held = protect(crowd, ["b"] * 60, np.arange(60) // 2)
    parts = held.partition(held.cells("x", [0.5]))
    with pytest.raises(pl.errors.UnsupportedNode):  # a person would speak for k in each
        crowd.request(pl.Parallel([NODE, NODE, NODE]), held)
    nothing = pl.nodes.Public("not asked")
    with crowd.request(pl.Parallel([NODE, nothing, nothing]), held) as session, pytest.raises(
            pl.errors.UnsupportedNode):
        session.release(NODE, parts[0].groups("g"))


@pytest.mark.parametrize("kind", ["rdp", "zcdp", "gdp", "basic"])
@pytest.mark.parametrize("node", [NODE, LAPLACE, group_node(1.0, 1e-6, 3)],
                         ids=["geometric", "laplace", "gaussian"])
def test_groups_are_charged_and_refused_under_every_filter(kind, node):
    """Without a part of delta for thresholds nothing is granted but by basic; with it grants add
    up to no more than the budget, one more reads nothing, and both verifiers agree."""
    table = {"x": np.zeros(401), "g": ["mill"] * 300 + ["port"] * 100 + ["me"]}
    if kind != "basic":
        none = pl.Ledger.create(None, budget=pl.Budget(7.0, 1e-5), filter=kind)
        data = none.protect(table, schema=SCHEMA)
        with pytest.raises(pl.errors.UnsupportedNode):
            none.request(node, data)
        assert none.spent == 0.0 and not none.state.grants
    ledger = pl.Ledger.create(None, budget=pl.Budget(7.0, 1e-5, failure=5e-6), filter=kind)
    data = ledger.protect(table, schema=SCHEMA)
    spent = [0.0]

    def ask(_):
        with ledger.request(node, data, delta=1e-6) as session:
            assert session.release(node, data.groups("g")).names == ("mill", "port")
        spent.append(ledger.spent)

    with pytest.raises(pl.BudgetExceeded):
        list(map(ask, range(100)))
    grants = list(ledger.state.grants.values())
    assert len(grants) == len(spent) - 1 >= 1 and ledger.spent == spent[-1] <= 7.0
    assert spent == sorted(set(spent)) and spent[1] >= pl.epsilon(node, 1e-5) * (1 - 1e-9)
    assert sum(one.event.delta_units for one in grants) * 2.0**-512 <= 1e-5
    book = verify_history.Book()
    for line in lines_of(ledger):
        book.take(json.dumps(line).encode("ascii"))
    book.finish({}.get)
    assert ledger.verify() == book.faults == []


@pytest.mark.parametrize("wrong", [
    {"threshold": 1.0}, {"threshold": 0.5}, {"noise": "cauchy"}, {"groups_per_person": 0},
    {"scale": 0.0}, {"noise": "geometric", "scale": 0.1}, {"noise": "geometric", "scale": 1001.0},
    {"noise": "geometric", "threshold": 90.0}])
def test_nodes_that_can_never_be_right(wrong):
    with pytest.raises((InvalidMechanism, pl.InvalidValue)):
        pl.nodes.PartitionSelection(**{"threshold": 9.0, "scale": 2.0, **wrong})


def test_texts_are_keys_and_keys_are_texts():
    for kind, role in (("text", "feature"), ("numeric", "key"), ("text", "target")):
        with pytest.raises(SchemaError):
            pl.Column("g", kind, role)
    refused(SchemaError, lambda: pl.Column("g", "text", "key", categories=("a",)))
    assert pl.Schema.from_dict(SCHEMA.to_dict()) == SCHEMA
    found = pl.Schema.from_dict({"name": "s", "columns": [
        {"name": "g", "kind": "text"}, {"name": "x", "kind": "numeric", "lower": 0, "upper": 1}]})
    assert found.keys[0].role == "key"


def test_a_table_that_does_not_fit_is_refused_without_its_values():
    ledger = pl.Ledger.create(None, budget=pl.Budget(9.0, 1e-5))
    strict = pl.Schema("s", (SCHEMA.columns[0], pl.Column("g", "text", "key")))
    for table in ({"x": [0.0, 1.0]}, {"x": [0.0, 1.0], "g": ["secret", None]},
                  {"x": [0.0, 1.0], "g": ["secret"]}, {"x": [0.0, 1.0], "g": [["secret"], "b"]}):
        with pytest.raises(DataError) as told:
            ledger.protect(table, schema=strict)
        assert "secret" not in str(told.value)


@given(st.lists(st.integers(-1, 4), max_size=20), st.integers(0, 20))
def test_counts_of_stretches_are_those_of_the_whole(codes, cut):
    rows, question = rows_of(codes), GroupQuery(pl.Dataset(SCHEMA, None), "g")
    state = question.prepare(NODE, "add_remove")
    parts = [rows.subset(part) for part in np.split(np.arange(len(codes)), [min(cut, len(codes))])]
    found = question.merge(*(question.sketch(part, state) for part in parts))
    assert found.counts == question.sketch(rows, state).counts


def test_counts_merge_name_by_name():
    question = GroupQuery(pl.Dataset(SCHEMA, None), "g")
    whole = question.merge(GroupCounts({"a": 2, "b": 1}), GroupCounts({"b": 4}))
    assert whole.counts == Counter(a=2, b=5)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 4)), max_size=30))
def test_cells_of_names_are_those_of_the_names(pairs):
    """And a row is in one of them, wherever it stands."""
    rows = rows_of([code for _, code in pairs])
    cells = NamedCells("g", ["n3", "never", "n0"])
    found = cells.index(rows)
    assert found.tolist() == [{3: 0, 0: 2}.get(code, 3) for _, code in pairs] and cells.count == 4
    some = np.arange(0, len(pairs), 2)
    assert cells.index(rows.subset(some)).tolist() == found[some].tolist()


@pytest.mark.parametrize("wrong", ["mill", ["a", "a"], [""], [1], None, [b"a"]])
def test_names_of_cells_are_texts(wrong):
    refused(pl.InvalidValue, lambda: NamedCells("g", wrong))


def test_texts_are_no_groups_of_chunks():
    """Each chunk has its own codes; nothing is read, and nothing is spent."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(9.0, 1e-5))
    data = ledger.protect({"x": np.zeros(30), "g": ["mill"] * 30}, None, SCHEMA,
                          engine=Mischief(chunk_rows=10))
    leaf, cells = pl.Laplace(1.0), NamedCells("g", ["mill"])
    node = pl.nodes.PartitionSelection(20.0, 1.0)
    for plan, question in ((leaf, data.query((pl.questions.Ones(),), cells)),
                           (node, data.groups("g"))):
        with ledger.request(plan, data) as session:
            refused(UnsupportedNode, lambda session=session, plan=plan, question=question:
                    session.release(plan, question), match="table in memory")
    refused(UnsupportedNode, lambda: data.ask(pl.summary(pl.count(), by=["g"]), epsilon=1.0,
                                              delta=1e-6), match="table in memory")
    assert ledger.spent == 0


def test_cells_of_names_need_a_column_of_texts():
    ledger = pl.Ledger.create(None, budget=pl.Budget(9.0, 1e-5))
    data = protect(ledger, np.array(["mill"] * 30, dtype=object))
    leaf = pl.Laplace(1.0)
    for name in ("x", "nowhere"):
        with ledger.request(leaf, data) as session:
            refused(SchemaError, lambda session=session, name=name: session.release(
                leaf, data.query((pl.questions.Ones(),), NamedCells(name, ["mill"]))))
    assert len(data.partition(NamedCells("g", ["mill", "port"]))) == 3
