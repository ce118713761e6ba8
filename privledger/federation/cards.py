"""Who an owner is to others: a card that may be shown, and a secret that stays with its owner.

A card holds an Ed25519 key, by which a roster knows its owner, and the certificate that its
transport shows. The key signs the certificate, so a swapped one is found.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from pathlib import Path

from attrs import field, frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from privledger.errors import InvalidPlan
from privledger.federation.enlisted import Owner, is_signed, new_key, public_key, signed
from privledger.graph import canonical
from privledger.reading import load_json
from privledger.tables.values import Json, text_field

CARD, SECRET = "privledger card 1", "privledger secret 1"
YEARS = 10
_MARK = b"privledger federation card 1\0"


@frozen
class Card:
    """What others know of an owner.

    Attributes:
        owner: its name and its public key.
        certificate: of its transport, PEM.
    """

    owner: Owner
    certificate: str

    @property
    def host(self) -> str:
        """The name in the certificate: it follows from the key, not from a machine."""
        return host_of(self.owner.key)


@frozen
class Identity:
    """An owner's own card with its secrets. Never shown, never in a run file."""

    card: Card
    secret: bytes = field(repr=False)
    transport_key: str = field(repr=False)


def host_of(key: bytes) -> str:
    """The name that a certificate carries for an owner with this key."""
    return f"{hashlib.sha256(key).hexdigest()[:32]}.privledger.invalid"


def new_identity(name: str) -> Identity:
    """A fresh owner: an Ed25519 key, a P-256 key, and a certificate of ten years."""
    secret = new_key()
    owner = Owner(name, public_key(secret))
    private = ec.generate_private_key(ec.SECP256R1())
    host = host_of(owner.key)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    made = (x509.CertificateBuilder().subject_name(subject).issuer_name(subject)
            .public_key(private.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .sign(private, hashes.SHA256()))
    return Identity(
        Card(owner, made.public_bytes(serialization.Encoding.PEM).decode("ascii")), secret,
        private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                              serialization.NoEncryption()).decode("ascii"))


def write_identity(identity: Identity, folder: str | Path) -> tuple[Path, Path]:
    """NAME.card, to give away, and NAME.secret, which its owner alone may read.

    Raises:
        InvalidPlan: one of them exists already, or the folder does not.
    """
    name = identity.card.owner.name
    if not name.replace("-", "").replace("_", "").isalnum():
        raise InvalidPlan("name", name, "of letters, digits, - and _")
    card, secret = (Path(folder) / f"{name}.{end}" for end in ("card", "secret"))
    body = _body(identity.card)
    shown = body | {"signature": signed(identity.secret, _said(body)).hex()}
    kept = {"kind": SECRET, "secret": identity.secret.hex(),
            "transport_key": identity.transport_key, "card": shown}
    for place in (card, secret):
        if place.exists():
            raise InvalidPlan("file", str(place), "one that does not exist yet")
    _write(secret, kept, 0o600)
    _write(card, shown, 0o644)
    return card, secret


def read_card(path: str | Path) -> Card:
    """The card in a file.

    Raises:
        InvalidPlan: not a card, or its certificate is not signed by its own key.
    """
    return _card(load_json(path, "card"), Path(path).name)


def read_identity(path: str | Path) -> Identity:
    """The secret of an owner, with its card.

    Raises:
        InvalidPlan: not a secret, or others than its owner can read the file.
    """
    place = Path(path)
    value = load_json(place, "secret")
    if os.name == "posix" and place.stat().st_mode & 0o077:
        raise InvalidPlan("secret", place.name, "a file that its owner alone can read (0600)")
    try:
        if value["kind"] != SECRET:
            raise ValueError
        secret = bytes.fromhex(text_field(value, "secret", 64))
        card, key = value["card"], text_field(value, "transport_key", 4000)
        owned = public_key(secret)
    except Exception:  # its text could quote the secret
        raise InvalidPlan("secret", place.name, "one of privledger federate keygen") from None
    found = _card(card, place.name)
    if found.owner.key != owned:
        raise InvalidPlan("secret", place.name, "the secret of the card in it")
    return Identity(found, secret, key)


def _card(value: object, name: str) -> Card:
    try:
        assert isinstance(value, dict)
        body = {key: value[key] for key in ("kind", "name", "key", "certificate")}
        owner = Owner(text_field(body, "name", 100), bytes.fromhex(text_field(body, "key", 64)))
        if (body["kind"] != CARD or set(value) != {*body, "signature"} or not is_signed(
                owner.key, bytes.fromhex(text_field(value, "signature", 128)), _said(body))):
            raise ValueError
        certificate = text_field(body, "certificate", 8000)
        shown = x509.load_pem_x509_certificate(certificate.encode("ascii"))
        names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if names.get_values_for_type(x509.DNSName) != [host_of(owner.key)]:
            raise ValueError
    except Exception:
        raise InvalidPlan("card", name, "one of privledger federate keygen, as it was written"
                          ) from None
    return Card(owner, certificate)


def _body(card: Card) -> Json:
    return {"kind": CARD, "name": card.owner.name, "key": card.owner.key.hex(),
            "certificate": card.certificate}


def _said(body: Json) -> bytes:
    return _MARK + canonical(body).encode()


def _write(path: Path, value: Json, mode: int) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        raise InvalidPlan("file", str(path), f"one that can be written ({type(error).__name__})"
                          ) from None
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")
