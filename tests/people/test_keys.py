"""The key of people: in its file, and nowhere else."""

import copy
import hmac
import os
import pickle

import pytest

import privledger as pl
from privledger.tables.person_keys import (
    PURPOSE,
    PeopleKey,
    digests,
    key_to_bytes,
    make_people_key,
    people_key,
    read_people_key,
)
from tests.worlds import refused


@pytest.mark.parametrize("key", [b"k" * 16, b"k" * 32, b"k" * 64, b"k" * 65, bytes(range(200))])
def test_digests_are_hmac_sha256(key):
    ids = ["17", "anna b", "\u00e5"]
    right = b"".join(hmac.digest(key, PURPOSE + one.encode(), "sha256")[:16] for one in ids)
    assert key_to_bytes(digests(PeopleKey(key), ids)) == right
    assert PeopleKey(key).check == hmac.digest(
        key, b"privledger people key check 1", "sha256")[:16].hex()


def test_a_key_shows_nothing(tmp_path):
    key = make_people_key(tmp_path / "k")
    text = (tmp_path / "k").read_text().split()[-1]
    assert repr(key) == str(key) == "PeopleKey(hidden)" and text not in repr(vars(type(key)))
    assert copy.copy(key) is copy.deepcopy(key) is key
    refused(TypeError, lambda: pickle.dumps(key))


def test_a_file_is_for_its_owner(tmp_path):
    place = tmp_path / "k"
    made = make_people_key(place)
    assert os.stat(place).st_mode & 0o777 == 0o600
    assert read_people_key(place).check == made.check == people_key(str(place)).check
    refused(pl.errors.InvalidValue, lambda: make_people_key(place), match="new file")
    for mode in (0o640, 0o604, 0o620, 0o610):
        place.chmod(mode)
        refused(pl.errors.InvalidValue, lambda: read_people_key(place), match="by its owner only")


@pytest.mark.parametrize("text", ["", "privledger people key 1\n", "privledger people key 2\n" +
                                  "ab" * 32, "privledger people key 1\n" + "ab" * 31,
                                  "privledger people key 1\n" + "zz" * 32, "\xff" * 80])
def test_what_is_no_key_file_is_refused_and_not_quoted(tmp_path, text):
    place = tmp_path / "k"
    place.write_bytes(text.encode("latin-1"))
    place.chmod(0o600)
    with pytest.raises(pl.errors.InvalidValue, match="people-key") as caught:
        read_people_key(place)
    assert "ab" * 8 not in str(caught.value) and "zz" not in str(caught.value)


def test_neither_folder_nor_pipe_nor_nothing_is_a_key(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("pipe", "absent", "."):
        with pytest.raises(pl.errors.InvalidValue):
            read_people_key(tmp_path / name)
    for given in (b"short", 17, None, bytearray(32)):
        with pytest.raises(pl.errors.InvalidValue):
            people_key(given)


def test_a_key_given_for_its_path_is_not_quoted(tmp_path):
    for given in ("ab" * 32, tmp_path / ("ab" * 32), "ab" * 3000, "privledger\0" + "ab" * 32):
        with pytest.raises(pl.errors.InvalidValue) as caught:
            people_key(given)
        chain = caught.value
        assert "abab" not in f"{chain!r}{chain.args}{vars(chain)}"


def test_nothing_that_a_learner_holds_leads_to_the_key_or_to_people():
    from privledger.guard.enrolling import Enrolling, EnrolmentState
    from privledger.tables.person_ids import Persons
    from tests.guard.test_capabilities import WIDE, reached

    schema = pl.Schema("t", (pl.Column("x", "numeric", lower=-1.0, upper=1.0),))
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e9, 1e-6), filter="gdp", unit="person",
                              people_key=b"k" * 32)
    data = ledger.protect({"x": [0.5, 0.1, 0.2]}, schema=schema, people=[17, 17, 4])
    scope = data.ledger.open_scope(pl.IndividualFilter("gdp", 1e-6))
    with data.ledger.request(pl.Repeat(WIDE, 2), data) as session:
        session.release(WIDE, data.count())
        found = reached(data, data.ledger, session, scope, data.rows_per_person([2]),
                        data.poisson(0.5), data.partition(3))
    assert not [
        one for one in found if isinstance(one, PeopleKey | Enrolling | EnrolmentState | Persons)]
