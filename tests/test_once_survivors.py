"""Lines that mutants of them survived: each has a test that fails without it."""

from __future__ import annotations

import ast
import io
import os
import re
import threading
import time
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from attrs import evolve
from rich.console import Console

import privledger as pl
from privledger.accounting import DEFAULT_ORDERS, delta_from_zcdp, epsilon_from_zcdp
from privledger.accounting.pld import losses
from privledger.accounting.pld.pairs import LaplacePair
from privledger.cli.run import score
from privledger.cli.show import render_ledger
from privledger.findings import Finding
from privledger.graph import to_json
from privledger.guard import session as closing
from privledger.guard.service import Request
from privledger.ledger import audit
from privledger.ledger.auditing import STATES
from privledger.ledger.codec import decode
from privledger.ledger.entries import make_entry
from privledger.ledger.events import Released, ReleasedNode
from privledger.ledger.filters import fixed_filter
from privledger.ledger.history import History
from privledger.ledger.rules import RULES, SCOPES, Rule, origins_of
from privledger.ledger.state import State
from privledger.ledger.view import lines_of
from privledger.ledger.view_records import SpendLine
from privledger.reports import ledger_report
from privledger.reports.risk import _line
from privledger.storage import MemoryStore
from privledger.storage.place import Place
from tests import house
from tests.bodies import lines_of as lines_of_ledger
from tests.bodies import stored
from tests.worlds import protected, refused, schema_of, together

X = schema_of("s", {"x": (0.0, 1.0)})


@pytest.mark.parametrize("noise", [0.5, 1e-3, 1e-30, 1e-80])
@pytest.mark.parametrize("order", [1.5, 2.0, 9.0, 40.0, 400.0])
def test_the_curve_of_three_answers(noise, order):
    """Around the order where its closed form leaves the floats, too."""
    found = pl.rdp(pl.RandomizedResponse(noise, 3), [order], "replace_one")[0]
    with mp.workdps(400):
        wrong = mp.mpf(noise) / 3
        right = 1 - 2 * wrong
        exact = mp.log(right**order * wrong ** (1 - order) + wrong**order * right ** (1 - order)
                       + wrong) / (order - 1)
        assert exact <= mp.mpf(found) <= mp.log(right / wrong) * (1 + mp.mpf(10) ** -13)
        if (order - 1) * exact < 590:
            assert found <= exact * (1 + mp.mpf(10) ** -9)


@pytest.mark.parametrize("node", [pl.Asserted(1.0, "x"), pl.Asserted(1.0, "x", delta=1e-9)])
def test_nothing_is_proved_from_below_for_what_somebody_vouches_for(node):
    for times in (1, 7):
        assert pl.epsilon(pl.Repeat(node, times), 1e-6, explain=True).lower == 0


@pytest.mark.parametrize("rho", [0, -1.0, float("nan"), float("inf"), True, "1"])
def test_an_asserted_rho_is_a_number_above_zero(rho):
    refused(pl.InvalidValue, lambda: pl.AssertedZCDP(rho, "because"))


@pytest.mark.parametrize("why", ["", "  ", None, 3])
@pytest.mark.parametrize("kind", [pl.Asserted, pl.AssertedZCDP])
def test_an_assertion_has_a_reason(kind, why):
    refused(pl.errors.InvalidMechanism, lambda: kind(1.0, why))


def test_what_an_entry_brings_that_a_policy_can_forbid():
    created = {"relation": "add_remove", "mode": "simulation",
               "budget": {"epsilon": 1.0, "delta": 1e-6}}
    plan = to_json(pl.Sequential([pl.Gaussian(1.0), pl.Asserted(1.0, "x")]))

    def origins(kind, **body):
        return origins_of(decode(kind, body), {"t": 5}, "add_remove", 1e-6)

    for kind in ("granted", "scope", "corrected"):
        found = origins(kind, plan=plan, learner="a", data="t")
        assert set(found.mechanisms) >= {"Gaussian", "Asserted"}
        assert found.asserted
        assert bool(found.learners) == bool(found.rows) == (kind == "granted")
    assert origins("corrected", plan=None).mechanisms == ()
    assert origins("window", window="w", plan=plan).mechanisms == ()
    assert origins("window", window="w").windows == ("w",)
    assert origins("released", questions=["asserted: a", "count"]).asserted == ("asserted: a",)
    first = origins("created", **created)
    assert (first.simulated, first.relation, first.budget_delta) == (True, "add_remove", 1e-6)
    assert not origins("window", window="w").simulated


def spent_ledger():
    ledger, data = protected(pl.Budget(1.0, 1e-6), {"x": [0.5]}, X, filter="gdp", name="people")
    with ledger.request(pl.Gaussian(9.0), data, learner="a") as session:
        session.release(pl.Gaussian(9.0), data.count())
    return ledger


def test_every_finding_is_shown():
    ledger = spent_ledger()
    report = evolve(ledger_report(ledger._history.store, ledger.state),
                    findings=(Finding("some-rule", 3, "what is wrong"),))
    page = Console(file=io.StringIO(), width=200, color_system=None)
    render_ledger(page, report)
    assert "some-rule" in page.file.getvalue()
    assert "what is wrong" in page.file.getvalue()


def test_releases_say_what_they_ran_under():
    leaf = to_json(pl.Gaussian(2.0))
    nodes = [ReleasedNode([], leaf), ReleasedNode([{"kind": "poisson"}, {"kind": "part"}], leaf)]
    lines = lines_of([Released("g", 0, ["count"], nodes, [[0, 0, 1], [1, 0, 1], [1, 0, 1]])])
    assert [(line.mechanism, line.count) for line in lines] == [
        ("Gaussian(noise_multiplier=2)", 1),
        ("Gaussian(noise_multiplier=2) under poisson > part", 2)]
    assert {line.kind for line in lines} == {"Gaussian"}


@pytest.mark.parametrize("kind", ["settled", "released", "aborted"])
def test_an_entry_about_no_grant_is_found(kind):
    store = MemoryStore()
    entries = spent_ledger()._history.store.read()[:2]
    with store.transaction() as transaction:
        for entry in entries:
            transaction.append(entry)
        transaction.append(make_entry(2, decode(kind, {
            "grant": "grant-nobody", "time": "", "touched": True, "releases": 0, "nodes": [],
            "questions": [], "items": [], "noise": ""}), entries[-1].hash))
    assert any("no grant before it" in found.message or "never granted" in found.message
               or found.position == 2 for found in audit(store))


def test_a_rule_that_cannot_finish_is_a_finding_about_no_entry(monkeypatch):
    """It names the rule, at no position, and the others go on."""
    store = spent_ledger()._history.store
    assert audit(store) == []

    def broken(*arguments):
        raise RuntimeError("of a rule")

    monkeypatch.setattr("privledger.ledger.rules.RULES", tuple(
        Rule(one.kinds, one.name, broken) if (one.kinds, one.name) == ("granted", SCOPES) else one
        for one in RULES))
    (found,) = audit(store)
    assert (found.rule, found.position) == (SCOPES, -1)
    assert "too malformed" in found.message and "RuntimeError" in found.message


@pytest.mark.parametrize("error", [ZeroDivisionError, RecursionError, pl.errors.LedgerCorrupt])
def test_a_history_that_cannot_be_folded_at_some_entry_is_a_finding(monkeypatch, error):
    """Whatever an edited entry makes of the state, and at whichever entry: no audit is clean."""
    store = spent_ledger()._history.store
    for at in range(len(store.read())):
        def take(state, entry, at=at, own=State.take):
            if entry.position == at:
                raise error("of an entry")
            own(state, entry)

        with monkeypatch.context() as patch:
            patch.setattr(State, "take", take)
            assert STATES in {found.rule for found in audit(store)}, at


def lived_lines():
    ledger, data = protected(pl.Budget(1.0, 1e-6), {"x": [0.5]}, X, filter="gdp", name="people")
    ledger.open_scope(pl.IndividualFilter("gdp", 1e-3), name="s")
    with ledger.request(pl.Gaussian(9.0), data) as session:
        session.release(pl.Gaussian(9.0), data.count())
    return lines_of_ledger(ledger)


@pytest.mark.parametrize(("change", "said"), [
    (lambda lines, at: lines.insert(len(lines), lines.pop(at["filter"])), "fixed"),
    (lambda lines, at: lines.append(lines[at["filter"]]), "fixed twice"),
    (lambda lines, at: lines.append(lines[at["scope"]]), "scope opened twice"),
    (lambda lines, at: lines[at["created"]][1].update(unit="person", key_check=None), "people"),
    (lambda lines, at: lines[at["granted"]][1].update(units=-1), "less than nothing"),
    (lambda lines, at: lines[at["granted"]][1].update(window="w"), "another window")])
def test_what_no_ledger_writes_is_found_and_adds_up_to_nothing(change, said):
    """With hashes that are right: the one history is refused by who folds it, and by an audit."""
    assert audit(stored(*lived_lines())) == []
    lines = lived_lines()
    change(lines, {kind: place for place, (kind, _) in enumerate(lines)})
    store = stored(*lines)
    assert any(said in found.message for found in audit(store)), audit(store)
    with pytest.raises(pl.errors.LedgerCorrupt):
        History(store).refresh()


@pytest.mark.parametrize("promise", [None, 1.0, (1.0, 1e-6), {"epsilon": 1.0}, "1",
                                     SimpleNamespace(epsilon=1.0, delta=0.0, failure=0.0)])
def test_what_is_no_budget_makes_no_ledger(tmp_path, promise):
    for make in (pl.Ledger.create, pl.Ledger.open_or_create):
        refused(pl.InvalidValue, lambda make=make: make(tmp_path / "l", budget=promise))
    assert not list(tmp_path.iterdir())


def test_too_many_different_pairs_are_rounded_up_to_few():
    """Every one is counted as one that is no smaller; none is lost, none comes twice."""
    counts = {LaplacePair(0.001 * size): size % 7 + 1 for size in range(1, 1001)}
    few = dict(losses._few(counts))
    assert losses._DISTINCT / 2 < len(few) <= losses._DISTINCT < len(counts)
    assert sum(few.values()) == sum(counts.values())
    for least in (0.0005, 0.1005, 0.5, 0.7777, 0.9995):
        def above(some, least=least):
            return sum(count for pair, count in some.items() if pair.epsilon > least)
        assert above(few) >= above(counts)
    assert losses._few(dict(list(counts.items())[:losses._DISTINCT])) == tuple(
        list(counts.items())[:losses._DISTINCT])


@pytest.mark.parametrize("rho", [1e-3, 0.02, 0.5])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2])
def test_delta_of_zcdp_is_the_inverse_of_its_epsilon(rho, delta):
    """And never below what Gaussian noise of that rho leaks."""
    again = delta_from_zcdp(rho, epsilon_from_zcdp(rho, delta))
    assert delta * 0.99 <= again <= delta * 1.01
    for epsilon in (0.1, 1.0, 3.0):
        truth = pl.delta(pl.Gaussian((2 * rho) ** -0.5), epsilon)
        assert truth * (1 - 1e-6) <= delta_from_zcdp(rho, epsilon) <= 1
    assert delta_from_zcdp(0.0, 1.0) == 0.0


@pytest.mark.parametrize("kind", ["basic", "gdp", "zcdp"])
def test_filters_of_all_orders_have_none(kind):
    rule = fixed_filter(kind, pl.Budget(1.0, 1e-6))
    assert rule.order == 0.0 and rule.orders == DEFAULT_ORDERS


def test_scores_of_a_classification():
    schema = pl.Schema("s", (*X.columns, pl.Column("y", "categorical", "target",
                                                   categories=("a", "b", "c"))))
    model = SimpleNamespace(predict=lambda rows: np.array(["a", "a", "b", "c"]))
    found = score(model, {"x": [0] * 4}, np.array(["a", "a", "a", "c"]), schema)
    assert found == {"rows": 4, "model": {"accuracy": 0.75}, "baseline": {"accuracy": 0.75}}
    model = SimpleNamespace(predict=lambda rows: np.array(["b", "b", "b", "b"]))
    assert score(model, {"x": [0] * 4}, np.array(["a", "b", "c", "c"]), schema) == {
        "rows": 4, "model": {"accuracy": 0.25}, "baseline": {"accuracy": 0.5}}


def test_scores_of_a_regression():
    schema = pl.Schema("s", (*X.columns, pl.Column("y", "numeric", "target", 0.0, 10.0)))
    model = SimpleNamespace(predict=lambda rows: np.array([1.0, 2.0, 5.0]))
    found = score(model, {"x": [0, 0, 0]}, np.array([1.0, 3.0, 5.0]), schema)
    assert found["rows"] == 3
    assert found["model"]["rmse"] == pytest.approx((1 / 3) ** 0.5)
    assert found["model"]["mae"] == pytest.approx(1 / 3)
    assert found["model"]["r2"] == pytest.approx(1 - 1 / 8)
    assert found["baseline"] == {"rmse": pytest.approx((8 / 3) ** 0.5),
                                 "mae": pytest.approx(4 / 3), "r2": 0.0}
    same = score(model, {"x": [0, 0, 0]}, np.array([2.0, 2.0, 2.0]), schema)
    assert same["model"]["r2"] == 0.0


G = pl.Gaussian(2.0)
NO_LABEL_PROOF = {
    "allocation": pl.nodes.RandomAllocation(10, G),
    "allocation, as replace one": pl.nodes.AsReplaceOne(pl.nodes.RandomAllocation(10, G)),
    "cut off": pl.nodes.TruncatedPoissonSample(0.1, 50, 1000, G),
    "cut off, as replace one": pl.nodes.AsReplaceOne(
        pl.nodes.TruncatedPoissonSample(0.1, 50, 1000, G)),
    "fixed size": pl.nodes.FixedSizeSample(5, 100, G)}


@pytest.mark.parametrize("around", [
    lambda node: node, lambda node: pl.Repeat(node, 3), lambda node: pl.Sequential([G, node]),
    lambda node: pl.Parallel([node, G])])
@pytest.mark.parametrize("case", NO_LABEL_PROOF)
def test_what_has_no_proof_for_labels_has_no_price_inside_label_only(case, around):
    node = around(NO_LABEL_PROOF[case])
    with pytest.raises((pl.errors.UnsupportedNode, pl.errors.RelationMismatch)):
        pl.epsilon(pl.nodes.LabelOnly(node), 1e-6, "replace_label")


@pytest.mark.parametrize("node", [pl.Laplace(1.0), pl.Exponential(0.7),
                                  pl.Sequential([pl.Laplace(2.0), pl.Laplace(3.0)])],
                         ids=pl.nodes.label)
@pytest.mark.parametrize("rate", [1e-3, 0.3, 0.999])
def test_a_sample_costs_no_more_than_what_is_sampled_as_a_gdp_statement_too(node, rate):
    whole = pl.epsilon(node, 1e-6, accountant="gdp")
    assert pl.epsilon(pl.PoissonSample(rate, node), 1e-6, accountant="gdp") <= whole
    fixed = pl.nodes.FixedSizeSample(int(1000 * rate), 1000, node)
    assert pl.epsilon(fixed, 1e-6, "replace_one", accountant="gdp") <= pl.epsilon(
        node, 1e-6, "replace_one", accountant="gdp")


def test_two_threads_that_close_one_session_settle_it_once(monkeypatch):
    schema = schema_of("one", {"x": (0.0, 1.0)})
    ledger, data = protected(pl.Budget(1.0), {"x": [0.5] * 8}, schema)
    granted = ledger._grant(Request(pl.Laplace(4.0), data), None)
    granted.release(pl.Laplace(4.0), data.count())
    gate, settled, true = threading.Barrier(4), [], closing.settle

    def slowly(*arguments):
        settled.append(arguments)
        time.sleep(0.05)  # long enough for the others to come
        return true(*arguments)

    def close():
        gate.wait()
        granted.close()

    monkeypatch.setattr(closing, "settle", slowly)
    together(4, close)
    assert len(settled) == 1 and ledger.verify() == []


@pytest.mark.parametrize("relation", ["replace_one", "replace_label"])
def test_places_of_people_and_places_of_rows_are_told_apart(relation):
    """Two people, the first with two of three rows: places are of people where the number of rows
    is private, and of rows where it is public. Against sums by hand."""
    schema = schema_of("people", {"x": (0.0, 1.0)}, y=["0", "1"])
    rows = relation == "replace_label"
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e9), relation=relation, unit="person",
                              people_key=b"k" * 32, mode="simulation", seed=1)
    data = ledger.protect({"x": [0.25, 0.5, 1.0]}, ["0", "0", "1"], schema,
                          people=["a", "a", "b"], public_features=rows, name="t")
    places = np.array([1, 0, 1]) if rows else np.array([1, 0])
    node = pl.Laplace(1e-5, 2.0)
    plan = pl.nodes.LabelOnly(node) if rows else node
    question = data.query((pl.questions.ClassIs(1) if rows else pl.questions.Ones(),),
                          pl.questions.IndexCells(places, 2))
    with ledger.request(plan, data) as session:
        found = session.release(node, question)
    # One label, in the row of cell 1; or everything of each person, in a cell of its own.
    assert np.round(found).tolist() == ([0.0, 1.0] if rows else [1.0, 1.0])


ARRAYS = re.compile(r"\b(ndarray|NDArray|Array|Floats|Ints|Complex)\b")


def records():
    """(where, class, its decorator, its fields by name: annotation and default) of all attrs."""
    for name, path in house.OURS.items():
        for one in ast.walk(house.tree(name)):
            said = [ast.unparse(each) for each in getattr(one, "decorator_list", ())]
            if isinstance(one, ast.ClassDef) and any(
                    each.split("(")[0] in ("frozen", "define") for each in said):
                yield f"{path.name}: {one.name}", " ".join(said), {
                    each.target.id: (ast.unparse(each.annotation),
                                     ast.unparse(each.value) if each.value else "")
                    for each in one.body if isinstance(each, ast.AnnAssign)}


def test_records_with_arrays_are_not_compared_by_them():
    """Whether arrays are equal is no single answer, and they have no hash."""
    wrong = [where for where, said, held in records() if "eq=False" not in said and any(
        ARRAYS.search(kind) and "Callable" not in kind and "ClassVar" not in kind
        and "eq=False" not in value for kind, value in held.values())]
    assert wrong == []


def test_no_secret_is_shown():
    """Bytes that are called so, but for the public key of an owner."""
    wrong = [f"{where}.{name}" for where, said, held in records() if "repr=False" not in said
             for name, (kind, value) in held.items()
             if ((name.strip("_") in ("key", "secret") and "bytes" in kind) or name in (
                 "transport_key", "tls_key")) and "repr=False" not in value]
    assert wrong == ["enlisted.py: Owner.key"]


PUBLIC = {"CustomValue", "CustomScores", "Groups", "Picked", "Score"}
"""Questions whose arrays are public, or released."""


def test_what_lives_inside_the_guard_is_not_shown():
    """Classes that say so of themselves, and those of questions that hold arrays: their fields are
    records, or sums of records."""
    wrong = []
    for name, path in house.OURS.items():
        for one in ast.walk(house.tree(name)):
            if not isinstance(one, ast.ClassDef) or one.name in PUBLIC:
                continue
            said = " ".join(map(ast.unparse, one.decorator_list))
            fields = [each for each in one.body if isinstance(each, ast.AnnAssign)]
            arrays = "(" in said and path.parent.name == "questions" and any(
                ARRAYS.search(ast.unparse(each.annotation))
                and "repr=False" not in ast.unparse(each) for each in fields)
            page = ast.get_docstring(one) or ""
            inside = "nside the guard" in page.split("\n\n")[0]
            shown = "repr=False" not in said and not any(
                getattr(each, "name", "") == "__repr__" for each in one.body)
            wrong += [f"{path.name}: {one.name}"] * ((arrays or inside) and shown)
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "pread"), reason="the system has no shared index")
def test_every_byte_that_names_a_log_and_how_far_it_was_copied_is_looked_at(tmp_path):
    file = tmp_path / "index"

    def seen(data):
        file.write_bytes(data)
        place = object.__new__(Place)
        place._index = os.open(file, os.O_RDONLY)
        try:
            return place._copied()
        finally:
            os.close(place._index)

    blank = bytes(136)
    changed = {at for at in range(136)
               if seen(blank[:at] + b"x" + blank[at + 1:])[0] != seen(blank)[0]}
    assert changed == {*range(32, 40), *range(96, 100), *range(128, 132)}
    copying = {at for at in range(136) if seen(blank[:at] + b"x" + blank[at + 1:])[1]}
    assert copying == {*range(96, 100), *range(128, 132)} and not seen(blank)[1]


@pytest.mark.parametrize(("amount", "said"), [
    (0.0, "nothing"), (1.0, "10 per cent of what it may use"), (1e-9, "1 per cent"),
    (10.0, "all that one computation may use")])
def test_a_statement_says_how_much_a_computation_used(amount, said):
    line = SpendLine("g", "tree", "Gaussian", amount, 10.0, None, "whole plan", data="pay",
                     time="2026-01-02T03:04:05+00:00")
    assert _line(line).startswith(f"- 2026-01-02, tree, on pay: it used {said}")


@pytest.mark.parametrize(("width", "said"), [(1, "one real number per row"),
                                             (2, "2 real numbers per row")])
def test_a_custom_query_is_told_what_it_must_return(width, said):
    ledger = pl.Ledger.create(None, budget=pl.Budget(9.0, 1e-6))
    data = ledger.protect({"x": np.linspace(0, 1, 5)}, X)
    block = pl.questions.CustomValue(lambda rows: np.zeros((len(rows["x"]), 3)), 1.0, "why",
                                     width=width)
    with ledger.request(pl.Gaussian(1.0), data) as session, pytest.raises(
            pl.errors.DataError, match=f"must return {said}"):
        session.release(pl.Gaussian(1.0), data.query((block,)))
