"""A certificate authority for an afternoon, and certificates that it signed."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signed(name, key, issuer, issuer_key, *, authority):
    now = datetime.datetime.now(datetime.UTC)
    return (x509.CertificateBuilder().subject_name(_name(name)).issuer_name(_name(issuer))
            .public_key(key.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(authority, None), critical=True)
            .sign(issuer_key, hashes.SHA256()))


def certificates(folder: Path, *names: str) -> dict[str, Path]:
    """Files by name: `ca`, and for each of `names` its certificate and `NAME-key`."""
    authority = ec.generate_private_key(ec.SECP256R1())
    made = {"ca": _signed("ca", authority, "ca", authority, authority=True)}
    keys = {}
    for name in names:
        keys[name] = ec.generate_private_key(ec.SECP256R1())
        made[name] = _signed(name, keys[name], "ca", authority, authority=False)
    files = {}
    for name, certificate in made.items():
        files[name] = folder / f"{name}.pem"
        files[name].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    for name, key in keys.items():
        files[f"{name}-key"] = folder / f"{name}-key.pem"
        files[f"{name}-key"].write_bytes(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption()))
    return files
