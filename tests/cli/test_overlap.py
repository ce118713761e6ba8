"""One table under two ledgers is noticed; nothing else is."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli.app import main
from tests.worlds import schema_of

SMALL = schema_of("one", {"x": (0.0, 1.0)})
KEY = b"a secret of the organisation"


def made(path, values, key=KEY, name="t"):
    with pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6)) as ledger:
        data = ledger.protect({"x": np.array(values)}, SMALL, name=name, fingerprint_key=key)
        with ledger.request(pl.Gaussian(20.0), data) as session:
            session.release(pl.Gaussian(20.0), data.count())
    return str(path)


def test_a_shared_table_is_found_and_its_ledgers_added_up(tmp_path):
    first = made(tmp_path / "a.db", [0.1, 0.2], name="patients")
    second = made(tmp_path / "b.db", [0.1, 0.2], name="people")
    third = made(tmp_path / "c.db", [0.2, 0.1])
    found = CliRunner().invoke(main, ["overlap", first, second, third, "--format", "json"])
    assert found.exit_code == 1
    (shared,) = json.loads(found.stdout)["overlaps"]
    assert {use["data"] for use in shared["uses"]} == {"patients", "people"}
    assert shared["epsilon"] == pytest.approx(2 * shared["uses"][0]["epsilon"])
    assert "one table under 2 ledgers" in CliRunner().invoke(main, ["overlap", first,
                                                                    second]).stdout


def test_other_rows_another_key_a_copy_or_no_key_are_no_overlap(tmp_path):
    first = made(tmp_path / "a.db", [0.1, 0.2])
    copy = tmp_path / "copy.db"
    copy.write_bytes((tmp_path / "a.db").read_bytes())
    others = [made(tmp_path / "b.db", [0.1, 0.3]),
              made(tmp_path / "c.db", [0.1, 0.2], key=b"another secret altogether"),
              made(tmp_path / "d.db", [0.1, 0.2], key=None), str(copy)]
    assert CliRunner().invoke(main, ["overlap", first, *others]).exit_code == 0


@pytest.mark.parametrize("key", [b"short", "a string of more than 16", 3])
def test_a_bad_key_is_refused_and_not_shown(key):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    with pytest.raises(pl.InvalidValue) as refusal:
        ledger.protect({"x": np.array([0.5])}, SMALL, fingerprint_key=key)
    assert "short" not in str(refusal.value).replace("a shorter one", "")
