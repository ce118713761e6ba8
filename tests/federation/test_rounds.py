"""Many owners, one learner: the same model, one price for each owner, and what is refused."""

import copy
import itertools

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from privledger_learners import SGBDTRegressor

import privledger as pl
from privledger.errors import EngineError, InvalidPlan, NotGranted, UnsupportedNode
from privledger.federation import (
    Direct,
    Federation,
    InProcess,
    Owner,
    Party,
    Run,
    new_key,
    public_key,
    verify_statements,
)
from tests.all_cases import all_cases
from tests.worlds import MADE_UP as SCHEMA
from tests.worlds import Silent, refused
from tests.worlds import made_up as table

BUDGET = pl.Budget(3.0, 1e-6)
PLAN = pl.Gaussian(2.0)


def guarded(X, y, source=None):
    ledger = pl.Ledger.create(None, budget=BUDGET)
    if source is not None:
        ledger._source = source
    return ledger, ledger.protect(X, y, SCHEMA, name="table")


def split(X, y, edges):
    bounds = [0, *edges, len(y)]
    return [({name: array[a:b] for name, array in X.items()}, y[a:b])
            for a, b in itertools.pairwise(bounds)]


class Loose(Direct):
    """A line that a test can break: `change` sees each message and each reply."""

    def __init__(self, party):
        self.party, self.heard, self.change = party, [], lambda message, ask: ask(message)

    def ask(self, message):
        self.heard.append(copy.deepcopy(message))
        return self.change(message, InProcess(self.party).ask)


def owners(parts, plan=PLAN, *, delta=0.0, source=None, learner="somebody"):
    """(ledgers, run, parties by name) of one table each."""
    keys = {f"owner {i}": new_key() for i in range(len(parts))}
    run = Run.of("a run", tuple(Owner(name, public_key(key)) for name, key in keys.items()),
                 SCHEMA, plan, delta=delta, learner=learner)
    ledgers, parties = [], {}
    for (name, key), (X, y) in zip(keys.items(), parts, strict=True):
        ledger, data = guarded(X, y, source() if source else None)
        ledgers.append(ledger)
        parties[name] = Party(run, name, data, key)
    return ledgers, run, parties


def federated(run, parties):
    lines = {name: Loose(party) for name, party in parties.items()}
    return Federation(run, SCHEMA, lines, BUDGET), lines


def few(k=3, n=60, **more):
    X, y = table(n)
    ledgers, run, parties = owners(split(X, y, [n * i // k for i in range(1, k)]), **more)
    federation, lines = federated(run, parties)
    return ledgers, run, federation, list(lines.values())


def count_of(federation):
    with federation.data.ledger.request(PLAN, federation.data) as session:
        return session.release(PLAN, federation.data.count())


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("k", [1, 5, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", [{}, {"individual_filter": "gdp"}])
def test_without_noise_it_is_the_model_of_one_table(k, skewed, options):
    X, y = table(400)
    edges = [2 * i + 2 for i in range(k - 1)] if skewed else [400 * i // k for i in range(1, k)]
    learner = SGBDTRegressor(epsilon=2.0, delta=1e-6, schema=SCHEMA, n_trees=10, random_state=1,
                             **options)
    plan = learner.plan(SCHEMA)
    central = learner.fit(guarded(X, y, Silent())[1]).predict(X)
    ledgers, run, parties = owners(split(X, y, edges), plan, delta=1e-6, source=Silent)
    federation, _ = federated(run, parties)
    there = SGBDTRegressor(epsilon=2.0, delta=1e-6, schema=SCHEMA, n_trees=10, random_state=1,
                           **options).fit(federation.data)
    assert (there.predict(X) == central).all()
    assert verify_statements(run, federation.statements) == []
    for ledger in ledgers:  # each owner paid the whole, in its own ledger
        assert 1.99 < ledger.spent <= 2.0 and ledger.verify() == []
        assert next(grant.releases for grant in ledger.state.grants.values()) > 1


def test_noise_is_the_whole_noise_of_every_owner():
    """100 sums of 3 noises of sd 20: their mean square is 1200. Of a chi square with 100 degrees
    of freedom, below 42 or above 190 has probability under 1e-6."""
    leaf = pl.Gaussian(20.0)
    plan = pl.Repeat(leaf, 100)
    _, _, federation, _ = few(plan=plan)
    with federation.data.ledger.request(plan, federation.data) as session:
        found = np.array([session.release(leaf, federation.data.count()) for _ in range(100)])
    assert 42 < float(((found - 60) ** 2).sum()) / 1200 < 190


def test_what_leaves_an_owner_is_masked():
    _, _, federation, lines = few(source=Silent)
    kept = []
    lines[0].change = lambda message, ask: kept.append(ask(message)) or kept[-1]
    assert count_of(federation) == 60
    (release,) = [reply for reply in kept if "masked" in reply]
    assert set(release) == {"grids", "shapes", "masked"}
    from privledger.tables.values import array_in

    words = array_in(release["masked"], "u")
    steps = int(20 / float.fromhex(release["grids"][0]))
    assert words[0] != steps  # equal by chance: 2**-64


def test_nothing_is_read_before_the_owners_own_reservation(monkeypatch):
    """At the moment rows are shown, the grant of that very ledger is in its history."""
    from privledger.guard.vault import Vault

    ledgers, _, federation, _ = few()
    seen, real = [], Vault.check
    monkeypatch.setattr(Vault, "check", lambda self, task: (seen.append(
        [len(ledger.state.grants) for ledger in ledgers]), real(self, task))[1])
    count_of(federation)
    assert seen == [[1, 1, 1]] * 3


def test_an_owner_that_cannot_pay_stops_everybody_and_nobody_pays():
    ledgers, _, federation, lines = few()
    own = lines[2].party.data
    with own.ledger.request(PLAN, own) as session:
        session.release(PLAN, own.count())
    before = [ledger.spent for ledger in ledgers]
    refused(pl.BudgetExceeded, lambda: federation.data.ledger.request(PLAN, federation.data))
    assert [ledger.spent for ledger in ledgers] == before
    refused(NotGranted, lambda: federation.data.ledger.request(PLAN, federation.data), match="over")


def test_another_plan_a_second_grant_and_other_questions_are_refused():
    ledgers, _, federation, _ = few()
    data = federation.data
    refused(NotGranted, lambda: data.ledger.request(pl.Gaussian(1.0), data), match="another plan")
    assert [ledger.spent for ledger in ledgers] == [0, 0, 0]
    _, _, federation, _ = few()
    data = federation.data
    count_of(federation)
    refused(NotGranted, lambda: data.ledger.request(PLAN, data), match="over")
    _, _, federation, lines = few()
    federation.data.ledger.request(PLAN, federation.data)
    again = lines[0].heard[-1]
    again["round"] += 1
    assert "one grant" in lines[0].party.answer(again)["text"]
    federation.end()
    refused(UnsupportedNode, lambda: data.ledger.spent, match="totals")
    refused(UnsupportedNode, lambda: data.ledger.open_scope(pl.IndividualFilter("gdp", 1.0)))


def test_noise_of_another_kind_is_refused_by_name():
    plan = pl.Laplace(1.0)
    ledgers, _, federation, _ = few(plan=plan)
    with pytest.raises(UnsupportedNode, match="Laplace"), \
            federation.data.ledger.request(plan, federation.data) as session:
        session.release(plan, federation.data.count())
    assert [ledger.spent for ledger in ledgers] == [0, 0, 0]  # nothing was read: handed back


def test_a_lost_or_garbled_reply_is_asked_again_and_costs_nothing_more():
    ledgers, _, federation, lines = few(source=Silent)
    state = {"left": 2}

    def flaky(message, ask):
        reply = ask(message)
        if "masked" in reply and state["left"]:
            state["left"] -= 1
            if state["left"]:
                raise OSError("gone")
            return reply | {"shapes": [[7]]}
        return reply

    lines[1].change = flaky
    assert count_of(federation) == 60
    assert [m["attempt"] for m in lines[1].heard if m.get("round") == 1] == [0, 1, 2]
    for ledger in ledgers:
        assert [grant.releases for grant in ledger.state.grants.values()] == [1]


def test_a_question_that_never_arrived_is_asked_again():
    _, _, federation, lines = few(source=Silent)
    state = {"left": 1}

    def deaf(message, ask):
        if message.get("round") == 1 and state["left"]:
            state["left"] -= 1
            raise OSError("gone")
        return ask(message)

    lines[1].change = deaf
    assert count_of(federation) == 60


def test_an_owner_that_stays_away_ends_the_run_and_charges_stand():
    ledgers, _, federation, lines = few()

    def gone(message, ask):
        if message.get("round") == 1:
            raise OSError("gone")
        return ask(message)

    lines[2].change = gone
    refused(EngineError, lambda: count_of(federation), match="void")
    assert ledgers[0].spent > 0 and ledgers[1].spent > 0
    assert ledgers[2].spent == 0  # it read nothing, and was told that the run is over


def test_two_questions_in_one_round_do_not_add_up():
    """A coordinator that tells one owner something else learns noise; statements tell."""
    _, _run, federation, lines = few(source=Silent)

    def other(message, ask):
        message = copy.deepcopy(message)
        if message.get("asked", {}).get("ask") == "release":
            message["asked"]["query"]["what"] = "something else"
        return ask(message)

    lines[0].change = other
    data = federation.data
    with pytest.raises(EngineError, match="round 1 is void"), \
            data.ledger.request(PLAN, data) as session:
        session.release(PLAN, data.histogram("colour"))  # by chance in range: under 1e-8


@all_cases(("edit", "why"), [
    ({"round": 0}, "older round"), ({"round": 3}, "older round"), ({"round": True}, "round"),
    ({"attempt": 0}, "used attempt"), ({"attempt": 8}, "attempt"),
    ({"members": ["owner 0", "owner 1"]}, "all owners"), ({"run": "0" * 64}, "another run"),
    ({"asked": {"ask": "release", "rollover": 1}}, "another question"), ({"asked": 1}, "")])
def test_replays_older_rounds_and_other_words_are_refused(edit, why):
    _, _, federation, lines = few()
    with federation.data.ledger.request(PLAN, federation.data) as session:
        session.release(PLAN, federation.data.count())
        answer, last = lines[0].party.answer, lines[0].heard[-1] | {"attempt": 1}
        for _ in range(2):
            turned_away = answer(last | edit)
            assert "error" in turned_away and why in turned_away["text"]
        assert "masked" in answer(last)
        assert "error" in answer(last)
        assert "error" in answer({})


def test_strangers_swapped_keys_and_second_meetings_are_refused():
    _, run, _federation, lines = few()
    party = lines[0].party
    hellos = [line.party._hello() for line in lines]
    assert "error" in party.answer({"meet": hellos})  # they met already
    X, y = table(10)
    _, run, parties = owners(split(X, y, [5]))
    first, second = parties.values()
    one, two = first._hello(), second._hello()
    for wrong in ([one], [one, one], [one, two | {"owner": "a stranger"}],
                  [one, two | {"public": one["public"]}], [one, two | {"signature": "AAAA"}],
                  [one, {}], [one, one, two]):
        assert "error" in first.answer({"meet": wrong})
    first._fresh = X25519PrivateKey.generate()  # a true hello of this owner, of another day
    assert "another key" in first.answer({"meet": [one, two]})["text"]
    refused(InvalidPlan, lambda: Party(run, first.name, first.data, new_key()))
    refused(NotGranted, lambda: Party(run, "a stranger", first.data, new_key()))


def test_what_cannot_join_is_refused():
    X, y = table(10)
    _, run, _parties = owners([(X, y)])
    key = new_key()
    own = Owner("owner 0", public_key(key))
    for ledger, error in (
            (pl.Ledger.create(None, budget=BUDGET, mode="simulation", seed=1), NotGranted),
            (pl.Ledger.create(None, budget=BUDGET, relation="replace_one"), InvalidPlan)):
        data = ledger.protect(X, y, SCHEMA, name="t")
        with pytest.raises(error):
            Party(Run.of("r", (own,), SCHEMA, PLAN, delta=0.0, learner="l"), "owner 0", data, key)
    plain = guarded(X, y)[1]
    other = pl.Schema("another", SCHEMA.columns)
    public = pl.Ledger.create(None, budget=BUDGET, relation="replace_label").protect(
        X, y, SCHEMA, name="t", public_features=True)
    persons = pl.Ledger.create(None, budget=BUDGET, unit="person", people_key=b"k" * 32).protect(
        X, y, SCHEMA, people=list(range(10)))
    for data, schema, relation, error in (
            (persons, persons.schema, "add_remove", UnsupportedNode),
            (plain, other, "add_remove", InvalidPlan),
            (public, SCHEMA, "replace_label", UnsupportedNode)):
        with pytest.raises(error):
            Party(Run.of("r", (own,), schema, PLAN, delta=0.0, learner="l", relation=relation),
                  "owner 0", data, key)
    for noise in ("shared", "halved"):  # one owner has nobody to share it with
        with pytest.raises(InvalidPlan):
            Run("r", (own,), run.schema, run.plan, 0.0, "l", "add_remove", noise=noise)
    with pytest.raises(pl.errors.InvalidValue):
        Run("r", (own, own), run.schema, run.plan, 0.0, "l", "add_remove")


def test_statements_of_one_transcript_and_no_edit():
    _, run, federation, _ = few()
    count_of(federation)
    said = federation.statements
    assert verify_statements(run, said) == []
    assert verify_statements(run, said[:2]) and verify_statements(run, [*said, said[0]])
    for name, value in (("rounds", 9), ("transcript", "00"), ("run", "00"), ("receipt", {}),
                        ("owner", "owner 1"), ("owner", "nobody"), ("signature", "AAAA")):
        assert verify_statements(run, [said[0] | {name: value}, *said[1:]])
    assert verify_statements(run, [{}, *said[1:]])


@all_cases("bad", [0, -1, 9, True, 1.5, float("nan"), float("inf"), "1", None])
def test_numbers_that_are_none(bad):
    X, y = table(10)
    _, run, parties = owners([(X, y)])
    lines = {name: InProcess(party) for name, party in parties.items()}
    refused(pl.errors.InvalidValue, lambda: Federation(run, SCHEMA, lines, BUDGET, attempts=bad))
    if bad != 0:
        with pytest.raises(pl.errors.InvalidValue):
            Run("r", run.owners, run.schema, run.plan, bad, "l", "add_remove")
    refused(pl.errors.InvalidValue, lambda: Owner("name", bad))
