"""A witness signs one history of a ledger and no second one."""

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import privledger as pl
from privledger.cli.app import main
from privledger.ledger.checkpoint import begins_with, consistency, root
from privledger.reports.receipt import check_signature
from tests.standalone.test_proofs import some
from tests.worlds import schema_of

SCHEMA = schema_of("t", {"x": (0, 1)})


@given(st.integers(1, 60), st.data())
def test_a_proof_is_taken_apart_as_it_was_made(size, data):
    leaves = some(size)
    before = data.draw(st.integers(1, size))
    path, top, small = consistency(leaves, before), root(leaves), root(leaves[:before])
    assert begins_with(top, size, small, before, path)
    assert not begins_with(top, size, root(some(before, "x")), before, path)
    assert not begins_with(root(some(size, "x")), size, small, before, path)
    assert not begins_with(top, size, small, before, [*path, top])
    for at in range(len(path)):
        wrong = [*path]
        wrong[at] = wrong[at][::-1]
        assert not begins_with(top, size, small, before, wrong)
        assert not begins_with(top, size, small, before, path[:at])


class Owner:
    """A ledger, and whoever shows its receipts to a witness."""

    def __init__(self, folder):
        self.folder, self.path, self.made = folder, str(folder / "l.ledger"), 0
        ledger = pl.Ledger.create(self.path, budget=pl.Budget(2.0, 1e-6))
        self.data = ledger.protect({"x": np.arange(9) / 9}, SCHEMA, name="t")
        self.ledger = ledger
        (folder / "key").write_text("k" * 32)

    def spend(self):
        self.ledger.request(pl.Gaussian(20.0), self.data, learner="a").close()

    def receipt(self, path=None):
        self.made += 1
        place = self.folder / f"r{self.made}.json"
        done = CliRunner().invoke(main, ["receipt", path or self.path, "--format", "json"])
        place.write_text(done.stdout)
        return place

    def proof(self, since, path=None):
        self.made += 1
        place = str(self.folder / f"p{self.made}.json")
        done = CliRunner().invoke(main, ["prove", path or self.path, "--since", str(since), "-o",
                                         place])
        assert done.exit_code == 0, done.output
        return place

    def witness(self, receipt, *more, book="book"):
        self.made += 1
        out = self.folder / f"w{self.made}.json"
        done = CliRunner().invoke(main, [
            "witness", str(self.folder / book), str(receipt), "--key-file",
            str(self.folder / "key"), "-o", str(out), *more])
        assert out.exists() == (done.exit_code == 0), done.output
        return done.exit_code, out


@pytest.fixture
def owner(tmp_path):
    return Owner(tmp_path)


def test_a_ledger_that_grows_is_witnessed_again_and_again(owner):
    first = owner.receipt()
    code, signed = owner.witness(first, "--new-book")
    assert code == 0
    value = json.loads(signed.read_text())
    check_signature(value, b"k" * 32)
    assert value["receipt"]["tree"] == json.loads(first.read_text())["tree"] and value["seen"]
    assert owner.witness(first)[0] == 0  # nothing moved
    owner.spend()
    second = owner.receipt()
    assert owner.witness(second)[0] == 3  # no proof
    assert owner.witness(second, "--proof", owner.proof(first))[0] == 0
    # The countersigned receipt is one: the ledger is compared with it.
    assert CliRunner().invoke(main, ["verify", owner.path, "--receipt", str(signed)]).exit_code == 0


def test_a_second_history_is_refused(owner, tmp_path):
    start = owner.receipt()
    assert owner.witness(start, "--new-book")[0] == 0
    owner.ledger._history.store.close()
    other = str(tmp_path / "copy" / "l.ledger")
    (tmp_path / "copy").mkdir()
    shutil.copy(owner.path, other)
    owner.ledger = pl.Ledger.open(owner.path)
    owner.data = owner.ledger.protect({"x": np.arange(9) / 9}, SCHEMA, name="t")
    owner.spend()
    grown = owner.receipt()
    assert owner.witness(grown, "--proof", owner.proof(start))[0] == 0
    assert owner.witness(start)[0] == 3  # it goes back
    forged = json.loads(grown.read_text()) | {"head": "0" * 64, "tree": "0" * 64}
    forged["entries"] += 2
    (tmp_path / "f.json").write_text(json.dumps(forged))
    assert owner.witness(tmp_path / "f.json", "--proof", owner.proof(start))[0] == 3


@pytest.mark.parametrize("change", [{"tree": None}, {"tree": "x" * 64}, {"entries": True},
                                    {"entries": 0}, {"head": "short"}, {"uuid": 3}])
def test_a_receipt_without_a_tree_is_refused(owner, tmp_path, change):
    value = json.loads(owner.receipt().read_text()) | change
    (tmp_path / "r.json").write_text(json.dumps(value))
    assert owner.witness(tmp_path / "r.json", "--new-book")[0] == 2
    assert not (tmp_path / "book").exists()


def test_a_book_that_is_gone_or_damaged_signs_nothing(owner, tmp_path):
    receipt = owner.receipt()
    assert owner.witness(receipt)[0] == 3
    assert owner.witness(receipt, "--new-book")[0] == 0
    assert owner.witness(receipt, "--new-book")[0] == 3
    book = tmp_path / "book"
    whole = book.read_text()
    for text in (whole[:-1], whole[:-20], "no line\n", whole + "{}\n", whole + "[]\n"):
        book.write_text(text)
        assert owner.witness(receipt)[0] == 3
        assert book.read_text() == text
