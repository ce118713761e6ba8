"""log, top, diff, whatif, explain of a grant, and exports for other tools."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

import privledger as pl
from privledger.reports.formats import inert
from tests.worlds import schema_of


@pytest.fixture
def two(make_ledger, spend, tmp_path):
    """A ledger with two grants, and the receipt from between them."""
    place = make_ledger(tmp_path / "two.ledger", epsilon=2.0, filter="gdp")
    with pl.Ledger.open(place) as ledger:
        (tmp_path / "then.json").write_text(json.dumps(ledger.receipt.as_dict()))
        spend(ledger, "second", 3)
    return place, tmp_path / "then.json"


def grants(as_json, place):
    return [entry["grant"] for entry in as_json("log", place, "--kind", "granted")["entries"]]


def test_log_lists_every_entry_once_and_in_order(as_json, call, two):
    place, _ = two
    with pl.Ledger.open(place, read_only=True) as ledger:
        entries = ledger._history.store.read()
    found = as_json("log", place)
    assert [one["hash"] for one in found["entries"]] == [entry.hash for entry in entries]
    assert found["receipt"]["entries"] == len(entries)
    assert len(call("log", place).stdout.splitlines()) == len(entries)
    assert not [one for one in found["entries"] if one["text"] == "malformed"]


def test_log_filters(as_json, two):
    place, then = two
    since = json.loads(then.read_text())["entries"]
    later = as_json("log", place, "--since", since)["entries"]
    assert [one["position"] for one in later] == list(range(since, later[-1]["position"] + 1))
    name = grants(as_json, place)[1]
    kinds = [one["kind"] for one in as_json("log", place, "--grant", name)["entries"]]
    assert kinds == ["granted", "released", "settled"]
    assert as_json("log", place, "--grant", "nobody")["entries"] == []


def test_top_ranks_and_marks(as_json, call, tmp_path):
    place = tmp_path / "vouched.ledger"
    schema = schema_of("t", {"x": (0, 1)})
    with pl.Ledger.create(place, budget=pl.Budget(2.0, 0.0), filter="basic") as ledger:
        data = ledger.protect({"x": [0.5] * 9}, schema, name="rows")
        ledger.request(pl.Laplace(10.0, 1.0), data, learner="small").close()
        ledger.request(pl.Asserted(0.75, "so says a friend"), data, learner="friend").close()
    found = as_json("top", place)["top"]
    assert [(rank["name"], rank["asserted"]) for rank in found["learner"]] == [
        ("friend", True), ("small", False)]
    assert found["learner"][0]["epsilon"] == pytest.approx(0.75)
    assert {rank["name"] for rank in found["mechanism"]} == {"Asserted", "Laplace"}
    assert "ASSERTED" in call("top", place, "--by", "learner").stdout
    assert as_json("top", place, "--most", 1)["top"]["grant"][0]["epsilon"] == pytest.approx(0.75)


def test_records_are_ranked_on_request_only_and_marked(as_json, call, tmp_path):
    place = tmp_path / "records.ledger"
    schema = schema_of("t", {"x": (0, 1)})
    with pl.Ledger.create(place, budget=pl.Budget(2.0, 1e-6), filter="gdp") as ledger:
        data = ledger.protect({"x": [0.5, 0.9, 0.6]}, schema, name="rows")
        cap = pl.IndividualFilter("gdp", 0.01, node=pl.Repeat(pl.Gaussian(20.0), 3))
        with ledger.request(cap, data, learner="sums") as session:
            session.release(pl.Gaussian(20.0), session.filtered(cap).sum("x"))
    assert as_json("top", place)["records"] is None
    rows = as_json("top", place, "--records")["records"]
    assert [row["row"] for row in rows] == [1, 2, 0]
    page = call("top", place, "--records")
    assert "CONFIDENTIAL" in page.stdout and "confidential" in page.stderr
    assert "CONFIDENTIAL" not in call("top", place).stdout


def test_a_ledger_that_is_not_trusted_ranks_nobody(call, as_json, two, monkeypatch):
    from privledger.cli import record
    from privledger.findings import Finding

    read = record.read_once
    monkeypatch.setattr(record, "read_once", lambda store: evolve(
        read(store), findings=(Finding("rule", 1, "text"),)))
    assert call("top", two[0]).exit_code == 3
    assert as_json("top", two[0])["top"] == {}


def test_diff_with_a_receipt_tells_what_came_after_it(as_json, call, two):
    place, then = two
    found = as_json("diff", then, place)["changes"]
    assert [change["before"] for change in found["grants"]] == [None]
    assert "second" in found["grants"][0]["after"]
    facts = {change["what"]: change for change in found["facts"]}
    assert facts["spent epsilon"]["before"] < facts["spent epsilon"]["after"]
    assert facts["grants"]["before"] == 1 and facts["grants"]["after"] == 2
    assert sum(change["after"] or 0 for change in found["nodes"]) == 3
    back = as_json("diff", place, then)["changes"]
    assert back["grants"][0]["after"] is None
    assert "nothing is different" in call("diff", place, place).stdout


def test_diff_refuses_a_receipt_of_something_else(call, make_ledger, two, tmp_path):
    other = make_ledger(tmp_path / "other.ledger")
    page = call("diff", two[1], other)
    assert page.exit_code == 3 and "another ledger" in page.stdout
    page = call("diff", two[0], other)
    assert page.exit_code == 0 and "two different ledgers" in page.stdout
    assert call("diff", two[1], two[1]).exit_code == 2


def test_diff_of_plans(as_json, call, run_file, tmp_path, two):
    second = tmp_path / "more.toml"
    second.write_text(run_file.read_text().replace("rounds = 3", "rounds = 5"))
    found = as_json("diff", run_file, second)["changes"]
    assert {change["what"]: (change["before"], change["after"]) for change in found["facts"]}[
        "parameter rounds"] == (3, 5)
    assert [change["after"] for change in found["nodes"]] == [None, 5]
    for name, node in (("a.json", pl.Gaussian(5.0)), ("b.json", pl.Repeat(pl.Gaussian(5.0), 2))):
        (tmp_path / name).write_text(json.dumps(pl.nodes.to_json(node)))
    found = as_json("diff", tmp_path / "a.json", tmp_path / "b.json")["changes"]
    assert found["nodes"] == [{"what": "Gaussian(noise_multiplier=5)", "before": 1, "after": 2}]
    assert call("diff", run_file, two[0]).exit_code == 2


def test_whatif_says_what_a_request_would_hear(as_json, call, two):
    place, _ = two
    name = grants(as_json, place)[0]
    with pl.Ledger.open(place) as ledger:
        left, before = ledger.left, ledger.receipt
    assert as_json("whatif", place, "--again", name)["fits"] is (left > 0.5)
    many = as_json("whatif", place, "--again", name, "--times", 100)
    assert not many["fits"] and many["instead"].startswith("would fit: epsilon")
    assert call("whatif", place, "--again", name, "--times", 100).exit_code == 1
    assert call("whatif", place, "--again", "grant").exit_code == 2  # two begin like this
    with pl.Ledger.open(place, read_only=True) as ledger:
        assert ledger.receipt == before


def test_whatif_of_a_learner(as_json, call, two, run_file):
    place, _ = two
    ask = ("whatif", place, "--learner", "tiny", "--schema", run_file.parent / "schema.json")
    assert as_json(*ask, "--epsilon", 0.5)["fits"] is True
    assert as_json(*ask, "--epsilon", 1.9)["fits"] is False
    assert call(*ask).exit_code == 2
    assert call("whatif", place).exit_code == 2


def test_replace_one_costs_more_and_never_the_raw_price(as_json, call, two):
    found = as_json("whatif", two[0], "--relation", "replace_one", "--rows", 2)["others"]
    own, replaced, rows = [one["epsilon"] for one in found]
    with pl.Ledger.open(two[0], read_only=True) as ledger:
        plans = ledger.graph()
    assert own == pytest.approx(pl.epsilon(plans, 1e-6))
    assert replaced == pytest.approx(pl.epsilon(pl.nodes.AsReplaceOne(plans), 1e-6, "replace_one"))
    assert replaced > 1.9 * own and rows > 1.9 * own
    assert call("whatif", two[0], "--relation", "replace_label").exit_code == 1


def test_explain_names_a_grant_and_a_node(as_json, call, two):
    place, _ = two
    second = grants(as_json, place)[1]
    found = as_json("explain", place, second[:-2])
    assert "second on people" in found["words"][0] and "for it" in found["words"][1]
    assert found["epsilon"] == pytest.approx(0.5, rel=1e-3)
    one = as_json("explain", place, second, "--node", "0.0")
    assert one["epsilon"] < found["epsilon"] and one["node"].startswith("Gaussian")
    for wrong in ("0.9", "1", "0.x", "0.0.0"):
        assert call("explain", place, second, "--node", wrong).exit_code == 2
    # Without a grant it was a usage error until the total could be done by hand.
    assert "to recalculate in Python:" in call("explain", place).output
    assert call("explain", place, "grant-").exit_code == 2


def test_explain_says_what_is_vouched_for(call, tmp_path):
    place = tmp_path / "node.json"
    place.write_text(json.dumps(pl.nodes.to_json(pl.Asserted(0.5, "trust [red]me\x1b[2J"))))
    page = call("explain", place, "--delta", "0").stdout
    assert "ASSERTED, not proved" in page and "\x1b" not in page


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_exports_for_other_tools(call, two, kind, tmp_path):
    out = tmp_path / "out"
    assert call("export", two[0], "-o", out, "--as", kind).exit_code == 0
    text = out.read_text(encoding="utf-8")
    if kind == "json":
        assert len(json.loads(text)) == pl.Ledger.open(two[0]).receipt.entries
    else:
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [row["learner"] for row in rows if row["kind"] == "granted"] == ["tiny", "second"]
    assert call("export", two[0], "-o", tmp_path / "x", "--as", kind,
                "--include-records").exit_code == 2


def test_an_export_as_events(call, two, tmp_path):
    dp_event = pytest.importorskip("dp_accounting.dp_event")
    assert hasattr(dp_event, "GaussianDpEvent")
    page = call("export", two[0], "-o", "-", "--as", "dp-event")
    assert json.loads(page.stdout)["event"] == "ComposedDpEvent"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", " =1", "\r=1", "\uff1d1",
                                  "\ufeff=1", "\n=1"])
def test_no_cell_is_a_formula(text):
    cell = str(inert(text))
    assert cell.startswith("'") or not cell.lstrip("? ").startswith(("=", "+", "-", "@"))
    assert cell.startswith(("'", "?"))


def test_a_learner_named_like_a_formula_is_inert_in_csv(call, make_ledger, tmp_path):
    place = make_ledger(tmp_path / "f.ledger", learner='=HYPERLINK("http://x","y")')
    page = call("export", place, "-o", "-", "--as", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(page)))
    assert [row["learner"][:2] for row in rows if row["kind"] == "granted"] == ["'="]
    assert [cell for row in rows for cell in row.values() if cell[:1] in ("=", "+", "@")] == []


@pytest.mark.parametrize("module", ["verify", "check"])
def test_a_gate_over_a_ledger_loads_no_session(module):
    code = (f"import sys, privledger.cli.{module}; print([m for m in ('privledger.guard', "
            "'privledger.questions', 'privledger.broker', 'scipy', 'rich') if m in sys.modules])")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_group_alone_loads_no_numbers():
    code = ("import sys, privledger.cli; print([m for m in ('numpy', 'privledger.ledger') "
            "if m in sys.modules])")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
    assert Path(pl.__file__).exists()
