"""Masks: they cancel over all owners, hide each, and are used once."""

import numpy as np
import pytest
from attrs import evolve
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from privledger.errors import NotGranted
from privledger.federation import SEED_BITS, MaskedSum, PlainSum, party
from privledger.federation.party import Attempt, _modulo
from tests.worlds import refused

NAMES = ["a", "b", "c"]
FIRST = Attempt(bytes(32), 0, 0, tuple(NAMES), bytes(32))


def sums(names):
    secrets = {name: X25519PrivateKey.generate() for name in names}
    keys = {name: secret.public_key().public_bytes_raw() for name, secret in secrets.items()}
    return [MaskedSum.between(secrets[name], name, keys, names) for name in names]


@given(st.integers(2, 5), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40))
def test_the_sum_of_all_is_the_sum_and_each_is_hidden(k, values):
    vector = np.array(values, dtype=np.uint64)
    names = [str(i) for i in range(k)]
    found = [one.masked(vector, FIRST) for one in sums(names)]
    total = found[0]
    for one in found[1:]:
        total = total + one
    assert (total == vector * np.uint64(k)).all()
    for one in found:  # equal by chance: 2**-64 each
        assert (one != vector).all()


@pytest.mark.parametrize("change", [
    {"run": b"1" * 32}, {"round": 1}, {"attempt": 1}, {"members": ("a", "b")},
    {"transcript": b"1" * 32}])
def test_everything_about_an_attempt_is_in_its_mask(change):
    one = sums(NAMES)[0]
    zero = np.zeros(4, dtype=np.uint64)
    assert (one.masked(zero, FIRST) != one.masked(zero, evolve(FIRST, **change))).all()


@pytest.mark.parametrize("make", [PlainSum, lambda: sums(NAMES)[0]])
def test_an_attempt_is_burnt(make):
    one, zero = make(), np.zeros(4, dtype=np.uint64)
    one.masked(zero, FIRST)
    refused(NotGranted, lambda: one.masked(zero, FIRST), match="already")


def test_keys_of_streams_have_256_bits(monkeypatch):
    sizes, real = [], party.ChaCha20
    monkeypatch.setattr(party, "ChaCha20",
                        lambda key, nonce: (sizes.append(len(key)), real(key, nonce))[1])
    sums(NAMES)[0].masked(np.zeros(4, dtype=np.uint64), FIRST)
    assert sizes == [32, 32]
    assert SEED_BITS == 256


def test_a_key_that_gives_no_secret_is_refused_and_nothing_shows_one():
    secret = X25519PrivateKey.generate()
    keys = {"a": secret.public_key().public_bytes_raw(), "b": bytes(32)}
    refused(NotGranted, lambda: MaskedSum.between(secret, "a", keys, ["a", "b"]))
    one = sums(NAMES)[0]
    assert one._pairs[0][1].hex() not in repr(one)
    assert repr(one._pairs[0][1]) not in repr(one)


PRIME = 2**255 - 19


def _inverse(key):
    return pow(int.from_bytes(key, "little"), -1, PRIME).to_bytes(32, "little")


def _top_bit(key):
    return key[:31] + bytes([key[31] ^ 0x80])


@pytest.mark.parametrize("points", [_inverse, _top_bit, bytes])
def test_an_owner_with_anothers_secret_takes_no_mask_away(points):
    """E gives out a key that is worth B's: X25519 of A with both is one secret."""
    names = ["E", "A", "B"]
    secrets = {name: X25519PrivateKey.generate() for name in ("A", "B")}
    keys = {name: secret.public_key().public_bytes_raw() for name, secret in secrets.items()}
    keys["E"] = points(keys["B"])
    both = [secrets["A"].exchange(X25519PublicKey.from_public_bytes(keys[name])) for name in "EB"]
    assert both[0] == both[1]
    one, zero = MaskedSum.between(secrets["A"], "A", keys, names), np.zeros(4, dtype=np.uint64)
    assert (one.masked(zero, FIRST) != zero).all()  # zero by chance: 2**-64 each
    assert one._pairs[0][1] != one._pairs[1][1]


def test_both_of_a_pair_have_one_key_and_other_names_another():
    secrets = {name: X25519PrivateKey.generate() for name in "ab"}
    keys = {name: secret.public_key().public_bytes_raw() for name, secret in secrets.items()}
    found = [MaskedSum.between(secrets[name], name, keys, ["a", "b"])._pairs[0][1] for name in "ab"]
    assert found[0] == found[1]
    renamed = MaskedSum.between(secrets["a"], "a", {"a": keys["a"], "c": keys["b"]}, ["a", "c"])
    assert renamed._pairs[0][1] != found[0]


@given(st.lists(st.integers(-2**53, 2**53).map(float) | st.sampled_from([-2.0**63, 2.0**63]),
                min_size=1, max_size=9))
def test_steps_are_taken_modulo_two_to_the_64(steps):
    found = _modulo(np.array(steps))
    assert [int(one) for one in found] == [int(step) % 2**64 for step in steps]
