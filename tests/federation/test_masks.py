"""Masks: they cancel over all owners, hide each, and are used once."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from privledger.errors import NotGranted
from privledger.federation import SEED_BITS, MaskedSum, PlainSum, secure_sum
from privledger.federation.secure_sum import Attempt

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
    with pytest.raises(NotGranted, match="already"):
        one.masked(zero, FIRST)


def test_keys_of_streams_have_256_bits(monkeypatch):
    sizes, real = [], secure_sum.ChaCha20
    monkeypatch.setattr(secure_sum, "ChaCha20",
                        lambda key, nonce: (sizes.append(len(key)), real(key, nonce))[1])
    sums(NAMES)[0].masked(np.zeros(4, dtype=np.uint64), FIRST)
    assert sizes == [32, 32]
    assert SEED_BITS == 256


def test_a_key_that_gives_no_secret_is_refused_and_nothing_shows_one():
    secret = X25519PrivateKey.generate()
    keys = {"a": secret.public_key().public_bytes_raw(), "b": bytes(32)}
    with pytest.raises(NotGranted):
        MaskedSum.between(secret, "a", keys, ["a", "b"])
    one = sums(NAMES)[0]
    assert one._pairs[0][1].hex() not in repr(one)
    assert repr(one._pairs[0][1]) not in repr(one)
