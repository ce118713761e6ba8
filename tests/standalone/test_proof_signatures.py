"""Signatures beside proofs, checked without a package, as `cryptography` checks them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.cli.app import main
from privledger.standalone import verify_proof
from privledger.standalone.verify_proof import ORDER, Wrong, signed

SCHEMA = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0, 1),))
PEM = serialization.Encoding.PEM


@settings(max_examples=25, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.binary(max_size=200), st.integers(0, 511),
       st.integers(0, 255))
def test_it_accepts_what_the_package_signs_and_nothing_else(seed, message, bit, other):
    secret = Ed25519PrivateKey.from_private_bytes(seed)
    key, signature = secret.public_key().public_bytes_raw(), secret.sign(message)
    assert signed(key, signature, message)
    assert not signed(key, signature, message + b"x")
    turned = bytearray(signature)
    turned[bit // 8] ^= 1 << bit % 8
    assert not accepted(key, bytes(turned), message)
    changed = bytearray(key)
    changed[other // 8] ^= 1 << other % 8
    assert not accepted(bytes(changed), signature, message)
    more = int.from_bytes(signature[32:], "little") + ORDER  # the same point, said otherwise
    assert not signed(key, signature[:32] + more.to_bytes(33, "little")[:32], message)
    assert not signed(key, signature[:63], message)


def accepted(*given):
    try:
        return signed(*given)
    except Wrong:
        return False


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Two receipts, signed and countersigned, a proof, and the keys."""
    folder = tmp_path_factory.mktemp("proofs")
    for name in ("owner", "witness", "stranger"):
        secret = Ed25519PrivateKey.generate()
        (folder / f"{name}.key").write_bytes(secret.private_bytes(
            PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        (folder / f"{name}.pem").write_bytes(secret.public_key().public_bytes(
            PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    path = str(folder / "l.ledger")
    with pl.Ledger.create(path, budget=pl.Budget(2.0, 1e-6)) as ledger:
        data = ledger.protect({"x": np.arange(50) / 50}, SCHEMA, name="t")
        for name in ("june", "today"):
            ledger.request(pl.Gaussian(20.0), data, learner=name).close()
            made = called("receipt", path, "--sign-key", folder / "owner.key", "--format", "json")
            (folder / f"{name}.json").write_text(made.stdout)
            more = ["--proof", folder / "p.json"] if name == "today" else ["--new-book"]
            if name == "today":
                called("prove", path, "--since", folder / "june.json", "--until",
                       folder / "today.json", "-o", folder / "p.json")
            called("witness", folder / "book", folder / f"{name}.json", "--sign-key",
                   folder / "witness.key", "-o", folder / f"seen-{name}.json", *more)
    return folder


def called(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done


def proved(folder, receipts, **keys):
    words = [str(folder / "p.json"), *(str(folder / name) for name in receipts)]
    for name, key in keys.items():
        words += [f"--{name}-key", str(folder / f"{key}.pem")]
    return verify_proof.main(words)


PLAIN, SEEN = ("june.json", "today.json"), ("seen-june.json", "seen-today.json")


def test_signed_and_countersigned_receipts_are_known_by_their_keys(shown, capsys):
    assert proved(shown, PLAIN) == proved(shown, PLAIN, public="owner") == 0
    assert proved(shown, SEEN, public="owner", witness="witness") == 0
    said = capsys.readouterr().out
    assert "signed by the owner" in said and "countersigned" in said
    for receipts, keys in ((PLAIN, {"public": "stranger"}), (SEEN, {"public": "witness"}),
                           (SEEN, {"witness": "owner"}), (PLAIN, {"witness": "witness"}),
                           (("june.json", "seen-today.json"), {"witness": "witness"})):
        assert proved(shown, receipts, **keys) == 3


@pytest.mark.parametrize("change", [{"epsilon": 0.0}, {"time": "2020-01-01T00:00:00+00:00"},
                                    {"signature": "00"}, {"signature": "zz"}, {"algorithm": "none"},
                                    {"signature": None}])
def test_an_altered_receipt_is_not_the_owners(shown, change):
    altered = json.loads((shown / "june.json").read_text()) | change
    (shown / "altered.json").write_text(json.dumps(altered))
    assert proved(shown, ("altered.json", "today.json"), public="owner") == 3


@pytest.mark.parametrize("text", ["",
                                  "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
                                  "-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----\n"])
def test_a_key_that_is_none_proves_nothing(shown, text):
    (shown / "bad.pem").write_text(text)
    assert proved(shown, PLAIN, public="bad") == 3


def test_an_option_without_its_file_is_a_mistake(shown):
    words = [str(shown / name) for name in ("p.json", *PLAIN)]
    assert verify_proof.main([*words, "--public-key"]) == 2
    assert verify_proof.main([*words, "--other", "x"]) == 2
