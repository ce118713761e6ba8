"""`postgresql://user@host/database?ledger=NAME`: which ledger, where. A password is never shown."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote, urlsplit

from attrs import field, frozen

from privledger.errors import LedgerError

SCHEMES = ("postgresql", "postgres")
DEFAULT_LEDGER = "main"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]*)(?::([0-9]{0,5}))?")
_SHOWN = ("host", "hostaddr", "port", "user", "dbname", "service", "sslmode", "sslrootcert",
          "target_session_attrs")
_HELP = ("not a URL that can be understood: postgresql://USER@HOST:PORT/DATABASE?ledger=NAME. "
         "Write special characters of a password as %XX, or keep it in PGPASSWORD or ~/.pgpass")


@frozen
class Address:
    """One ledger in one database.

    Attributes:
        ledger: its name inside the database.
        location: the URL without what is secret; it opens the same ledger.
        parameters: for the driver, with the password.
    """

    ledger: str
    location: str
    parameters: dict[str, str] = field(repr=False)

    def hide(self, text: str) -> str:
        """`text` in one line and without any parameter that `location` does not show."""
        for name, value in self.parameters.items():
            if re.search("pass|secret|key", name):
                text = text.replace(value, "***")
        text = "".join(letter if letter.isprintable() else " " for letter in text)
        return " ".join(text.split())[:300]


def parse_address(url: object) -> Address:
    """Take a URL apart, strictly: no part of a password may be taken for something else.

    Raises:
        LedgerError: it cannot be understood. The message quotes nothing of it.
    """
    found = _parse(url) if isinstance(url, str) else None
    if found is None:  # raised here, and not in a handler, which would chain what it quotes
        raise LedgerError(_HELP)
    parameters, hosts = found
    name = parameters.pop("ledger", DEFAULT_LEDGER)
    if not _NAME.fullmatch(name):
        raise LedgerError("the name of a ledger in a database has at most 100 letters, digits, "
                          "'_', '-' and '.', and does not begin with '-' or '.'")
    return Address(name, _shown(parameters, hosts, name), parameters)


def _parse(url: str) -> tuple[dict[str, str], str] | None:
    if not url.isascii() or not url.isprintable() or " " in url or "#" in url:
        return None
    try:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or "@" in parts.path + parts.query:
            return None
        login, _, hosts = parts.netloc.rpartition("@")
        if "@" in login:
            return None
        user, _, password = login.partition(":")
        names = _hosts(hosts)
        given = {"user": user, "password": password, **names, "dbname": parts.path[1:]}
        for pair in parts.query.split("&") if parts.query else ():
            key, _, value = pair.partition("=")
            if not re.fullmatch("[a-z_]+", key) or given.get(key):
                return None
            given[key] = value
        decoded = {key: unquote(value, errors="strict") for key, value in given.items()}
    except ValueError:
        return None
    if any("\0" in value for value in decoded.values()):
        return None
    return {key: value for key, value in decoded.items() if value or key == "ledger"}, hosts


def _hosts(text: str) -> dict[str, str]:
    """Hosts and ports of a list of servers."""
    found = [_HOST.fullmatch(host) for host in text.split(",")]
    hosts = [one[1].strip("[]") for one in found if one]
    ports = [one[2] or "" for one in found if one]
    if len(hosts) < len(found):
        raise ValueError
    return {"host": ",".join(hosts) if any(hosts) else "",
            "port": ",".join(ports) if any(ports) else ""}


def _shown(parameters: dict[str, str], hosts: str, ledger: str) -> str:
    user = quote(parameters.get("user", ""), safe="")
    database = quote(parameters.get("dbname", ""), safe="")
    inside = {"user", "dbname"} | ({"host", "port"} if hosts else set())
    more = [f"{key}={quote(parameters[key], safe='/')}" for key in _SHOWN
            if key in parameters and key not in inside]
    return (f"postgresql://{user + '@' if user else ''}{hosts}/{database}?"
            + "&".join([f"ledger={ledger}", *more]))
