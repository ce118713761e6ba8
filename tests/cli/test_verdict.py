"""The first line: what it says of ledgers of every fate, and that words fit their numbers."""

import re

import numpy as np
import pytest

import privledger as pl
from privledger.ledger.view import comparison
from privledger.reports import ledger_report
from privledger.reports.survey import BAD, GOOD, OPEN, sentence

SCHEMA = pl.Schema.from_dict({"name": "t", "columns": [
    {"name": "x", "kind": "numeric", "lower": 0, "upper": 1}]})
X = {"x": np.linspace(0, 1, 20)}
WRONG = re.compile(r"\b1 (grants|entries|releases|findings|answers|members|cells|times|rounds|"
                   r"records|nodes|ways|kinds|parts|rows|ledgers|others|boxes|scopes)\b")


def book(path, *plans, fail=False, mode="private", custom=False):
    with pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6), mode=mode) as ledger:
        data = ledger.protect(X, SCHEMA, name="t")
        for plan in plans:
            try:
                with ledger.request(plan, data, learner="a") as session:
                    if not isinstance(plan, pl.Asserted):
                        asked = (data.custom(lambda rows: rows["x"], 1.0, "so they say")
                                 if custom else data.count())
                        session.release(plan, asked)
                    if fail:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                pass
    return path


def verdict(path):
    with pl.Ledger.open(path, read_only=True) as ledger:
        return ledger_report(ledger._history.store, ledger.state).verdict


def test_all_is_paid_and_proved(tmp_path):
    found = verdict(book(tmp_path / "a", pl.Gaussian(20.0)))
    assert (found.level, found.word) == (GOOD, "within budget")
    assert found.text.startswith("Within budget: epsilon 0.")
    assert ". Not simulated. " in found.text
    assert ". No unverified claims. No receipt was given, so " in found.text
    assert found.clauses[-1].level == OPEN


@pytest.mark.parametrize(("plans", "custom", "words"), [
    ((pl.Gaussian(20.0), pl.Asserted(0.01, "so")), False,
     "Unverified claims: the price of 1 grant"),
    ((pl.Gaussian(20.0),), True, "Unverified claims: 1 of 1 answer, under 1 grant"),
    ((pl.Gaussian(30.0), pl.Gaussian(40.0)), True,
     "Unverified claims: 2 of 2 answers, under 2 grants")])
def test_what_rests_on_a_word_is_counted_and_never_green(tmp_path, plans, custom, words):
    found = verdict(book(tmp_path / "a", *plans, custom=custom))
    assert found.level == OPEN
    assert f". {words}. " in found.text


def test_a_simulation_keeps_to_no_budget(tmp_path):
    found = verdict(book(tmp_path / "a", pl.Gaussian(20.0), mode="simulation"))
    assert (found.level, found.word) == (BAD, "NOT PRIVATE")
    assert found.text.startswith("NOT PRIVATE: ")
    assert "within budget" not in found.text


def test_what_an_honest_correction_overspends_is_over_budget_and_not_forged(call, tmp_path):
    path = book(tmp_path / "a", pl.Gaussian(20.0))
    with pl.Ledger.open(path) as ledger:
        ledger.correct(next(iter(ledger.state.grants)), pl.Gaussian(0.5), "a wrong number")
    found = verdict(path)
    assert (found.level, found.word, found.over) == (BAD, "OVER BUDGET", True)
    page = call("verify", path)
    assert page.exit_code == 3
    assert page.stdout.startswith("OVER BUDGET: epsilon ")
    assert "NOT TRUSTED" not in page.stdout


def test_every_surface_says_the_same_line(call, as_json, tmp_path):
    path = book(tmp_path / "a", pl.Gaussian(20.0), custom=True)
    line = verdict(path).text
    said = [call("verify", path).stdout]
    said.append(call("report", path, "-o", tmp_path / "a.html").stdout)
    assert [one.splitlines()[0] for one in said] == [line] * 2
    shown = call("show", path).stdout.splitlines()[:3]
    assert [one.partition(" ")[0] for one in shown] == ["Within", "Spent", "Attention:"]
    for clause in verdict(path).clauses[1:]:
        assert f"{sentence(clause.text)}." in shown[0 if clause.level == GOOD else 2]
    judged = [as_json("show", path)["judgement"], as_json("verify", path)["judgement"]]
    assert judged[0] == judged[1]
    assert judged[0]["line"] == line
    html = (tmp_path / "a.html").read_text()
    assert all(sentence(part.text).replace("'", "&#39;") in html for part in verdict(path).clauses)


def test_every_surface_takes_a_receipt_and_says_which(call, as_json, tmp_path):
    path = book(tmp_path / "a", pl.Gaussian(20.0))
    kept = tmp_path / "r.json"
    kept.write_text(call("receipt", path, "--format", "json").stdout)
    shown = call("show", path, "--receipt", kept).stdout.splitlines()
    lines = [call("verify", path, "--receipt", kept).stdout,
             call("report", path, "-o", tmp_path / "a.html", "--receipt", kept).stdout]
    assert len({one.splitlines()[0] for one in lines}) == 1
    assert "No receipt was given" not in lines[0] + shown[0] + shown[2]
    assert "Compared with the receipt of 20" in lines[0] and "Compared with the" in shown[0]
    assert as_json("show", path, "--receipt", kept)["judgement"]["comparison"]["with"] == "receipt"
    assert "No receipt was given" not in (tmp_path / "a.html").read_text()
    other = book(tmp_path / "b", pl.Gaussian(20.0))
    for words in (("show", other), ("verify", other), ("report", other, "-o", tmp_path / "b.html")):
        ended = call(*words, "--receipt", kept)
        assert ended.exit_code == 3
        assert ended.stdout.startswith("NOT TRUSTED")


def test_a_publishable_line_does_not_count_answers(tmp_path):
    from attrs import evolve

    found = evolve(verdict(book(tmp_path / "a", pl.Gaussian(20.0), custom=True)), publishable=True)
    assert "1 of 1" not in found.text
    kept = found.as_dict()
    assert {kept[name] for name in ("answers", "vouched_answers", "vouched_grants")} == {None}
    assert kept["vouched"] is None
    assert found.level == OPEN
    named = evolve(found, compared=comparison(head="0" * 64))
    assert named.clauses[-1].level == GOOD


@pytest.mark.parametrize("many", [0, 1, 2])
@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("custom", [False, True])
def test_words_fit_their_numbers_on_every_surface(call, tmp_path, many, fail, custom):
    plans = [pl.Repeat(pl.Gaussian(40.0 + place), 1) for place in range(many)]
    path = book(tmp_path / "a", *(plan.node for plan in plans), fail=fail, custom=custom)
    other = book(tmp_path / "b")
    (tmp_path / "r.json").write_text(call("receipt", other, "--format", "json").stdout)
    pages = [call(*arguments).stdout for arguments in (
        ("show", path), ("show", path, "--all"), ("verify", path), ("log", path), ("top", path),
        ("diff", other, path), ("record", path, 0), ("report", path, "-o", tmp_path / "p.html"),
        ("verify", other, "--receipt", tmp_path / "r.json"), ("overlap", path, other),
        ("export", path, "-o", tmp_path / "x.jsonl"), ("whatif", path, "--rows", 1))]
    wrong = [WRONG.search(page) for page in [*pages, (tmp_path / "p.html").read_text()]]
    assert [one[0] for one in wrong if one] == []
    if fail and many:
        assert "failed" in pages[0] and "settled" not in pages[0]


def test_check_is_not_green_over_what_a_policy_allows_on_somebodys_word(call, tmp_path):
    policy = tmp_path / "p.toml"
    policy.write_text("[policy]\nmax_epsilon = 1.0\nmax_delta = 1e-6\nallow_asserted = true\n")
    for custom, line in ((True, "within the policy; 1 unverified claim"),
                         (False, "within the policy")):
        path = book(tmp_path / f"{custom}", pl.Gaussian(20.0), custom=custom)
        page = call("check", path, "--policy", policy)
        assert page.exit_code == 0
        assert page.stdout.splitlines()[0].rstrip() == line
