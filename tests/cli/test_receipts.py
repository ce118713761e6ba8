"""Signed receipts."""

import json

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli.app import main
from privledger.reports.receipt import check_signature, sign_receipt
from tests.worlds import refused

RUNNER = CliRunner()


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "ledger.db"
    pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6)).close()
    (tmp_path / "key").write_bytes(b"a secret of many bytes\n")
    (tmp_path / "other").write_bytes(b"another secret of many bytes")
    (tmp_path / "short").write_bytes(b"short")
    return path


def test_a_signed_receipt_is_accepted_and_an_altered_one_refused(ledger, tmp_path):
    made = RUNNER.invoke(main, ["receipt", str(ledger), "--key-file", str(tmp_path / "key"),
                                "--format", "json"])
    assert made.exit_code == 0
    (tmp_path / "receipt.json").write_text(made.stdout)
    verify = ["verify", str(ledger), "--receipt", str(tmp_path / "receipt.json"), "--key-file"]
    assert RUNNER.invoke(main, [*verify, str(tmp_path / "key")]).exit_code == 0
    assert RUNNER.invoke(main, [*verify, str(tmp_path / "other")]).exit_code == 3
    value = json.loads(made.stdout)
    for field, changed in (("entries", 2), ("epsilon", 0.5), ("uuid", "x"), ("signature", "0")):
        (tmp_path / "receipt.json").write_text(json.dumps(value | {field: changed}))
        assert RUNNER.invoke(main, [*verify, str(tmp_path / "key")]).exit_code == 3


def test_an_unsigned_receipt_and_a_short_key_are_refused(ledger, tmp_path):
    made = RUNNER.invoke(main, ["receipt", str(ledger), "--format", "json"])
    (tmp_path / "receipt.json").write_text(made.stdout)
    verify = ["verify", str(ledger), "--receipt", str(tmp_path / "receipt.json")]
    assert RUNNER.invoke(main, verify).exit_code == 0
    assert RUNNER.invoke(main, [*verify, "--key-file", str(tmp_path / "key")]).exit_code == 3
    short = RUNNER.invoke(main, ["receipt", str(ledger), "--key-file", str(tmp_path / "short")])
    assert short.exit_code == 2 and "short" not in short.stdout
    assert RUNNER.invoke(main, ["verify", str(ledger), "--key-file",
                                str(tmp_path / "key")]).exit_code == 2


def test_a_signature_covers_every_field():
    receipt = {"uuid": "u", "entries": 3, "head": "h", "epsilon": 0.1, "delta": 0.0, "mode": "p"}
    signed = sign_receipt(receipt, b"k" * 16)
    check_signature(signed, b"k" * 16)
    for field in receipt:
        with pytest.raises(pl.errors.InvalidPlan):
            check_signature({**signed, field: "changed"}, b"k" * 16)
    refused(pl.errors.InvalidPlan, lambda: check_signature({**signed, "more": 1}, b"k" * 16))
