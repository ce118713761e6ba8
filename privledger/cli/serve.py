"""`privledger serve`: a read-only page about one ledger, for this machine only."""

from __future__ import annotations

import hmac
import io
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import parse_qs, urlsplit

import click

from privledger.cli.opening import ledger_argument, reading
from privledger.cli.output import Guarded, format_option, note, say_served
from privledger.errors import PrivledgerError
from privledger.guard import Ledger
from privledger.ledger.view_compared import comparison
from privledger.ledger.view_records import data_names
from privledger.reports import pages, survey
from privledger.reports.verdict import LedgerVerdict
from privledger.storage import shown

HOST = "127.0.0.1"
IDLE_MINUTES = 15.0
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action "
                               "'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_LONGEST_QUERY = 500
REQUEST_SECONDS = 5.0  # from the first byte of a request to the last of its answer
MOST_CONNECTIONS = 32
MOST_ASKED = 16384  # bytes of a request, headers included
_WRITTEN = 1 << 16


def _verdict(ledger: Ledger) -> LedgerVerdict:
    """Of the ledger as it is now, compared with nothing."""
    seen = survey(ledger._history.store)
    return seen.verdict(seen.findings, comparison())


class Site:
    """What is served: one ledger, folded once and again when it grew."""

    def __init__(self, ledger: Ledger, token: str, *, verify: bool) -> None:
        self._ledger, self._token = ledger, token
        self._state = ledger.state  # before it is verified: nothing is called so that was not
        self.verdict = _verdict(ledger) if verify else None
        self._routes: dict[str, Callable[[Mapping[str, str]], str | None]] = {
            "/": self._totals, "/grants": self._grants, "/grant": self._grant,
            "/record": self._record}

    @property
    def findings(self) -> int | None:
        """How many an audit found; None if what is shown was not verified."""
        return None if self.verdict is None else len(self.verdict.findings)

    def answer(self, path: str, query: Mapping[str, str]) -> str | None:
        """The page at `path`, one of a fixed table; None if there is none."""
        route = self._routes.get(path)
        if route is None:
            return None
        if self._state.position != self._ledger._history.refresh().position:
            self._state, self.verdict = self._ledger.state, None  # the rest was not verified
        return route(query)

    def _totals(self, query: Mapping[str, str]) -> str:
        return pages.totals_page(self._state, shown(self._ledger.path), self.verdict,
                                 self._token)

    def _grants(self, query: Mapping[str, str]) -> str | None:
        number = _count(query.get("page", "0"))
        return None if number is None else pages.grants_page(self._state, number, self._token)

    def _grant(self, query: Mapping[str, str]) -> str | None:
        position = _count(query.get("at", ""))
        return None if position is None else pages.grant_page(self._state, position, self._token)

    def _record(self, query: Mapping[str, str]) -> str | None:
        row, place = _count(query.get("row", "")), _count(query.get("data", "0"))
        names = data_names(self._state)
        if row is None or place is None or place >= len(names):
            return None
        try:
            spend = self._ledger.record(row, names[place])
        except PrivledgerError:
            return None  # no record at that position
        unit = self._state.rule.unit if self._state.rule else ""
        whose = "person" if self._state.unit == "person" else "record"
        return pages.record_page(spend, unit, self._token, whose)


def _count(text: str) -> int | None:
    """A small number that is not negative; nothing else is."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None


class ServedLine(io.RawIOBase):
    """A connection with one deadline for all of it, and a most that is read from it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until = time.monotonic() + REQUEST_SECONDS
        self._left = MOST_ASKED

    def readable(self) -> bool:
        """True: io asks, before it puts a buffer around."""
        return True

    def writable(self) -> bool:
        """True: io asks, before it puts a buffer around."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what came, as long as time and bytes are left.

        Raises:
            TimeoutError: the line was open for too long, or sent too much.
        """
        view = memoryview(buffer)[:self._left]
        if not view:
            raise TimeoutError("asked too much")
        self._connection.settimeout(self._remaining())
        size = self._connection.recv_into(view)
        self._left -= size
        return size

    def write(self, data: Any) -> int:
        """Send all of it within the time that is left."""
        self._connection.settimeout(self._remaining())
        self._connection.sendall(data)  # the timeout is for all of it
        return len(data)

    def _remaining(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("took too long")
        return left


class _Handler(BaseHTTPRequestHandler):
    """GET and nothing else; whoever has not the token, or came by another name, gets nothing."""

    server_version, sys_version = "privledger", ""
    protocol_version = "HTTP/1.0"

    def setup(self) -> None:
        self.connection = self.request
        self.line = ServedLine(self.request)
        self.rfile = io.BufferedReader(self.line)
        self.wfile = io.BufferedWriter(self.line, _WRITTEN)

    def finish(self) -> None:
        with suppress(OSError, ValueError):  # it went away, or took too long
            self.wfile.flush()
        self.line.close()

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        self._send(*self._answer(server))

    def send_error(self, code: int, message: str | None = None,
                   explain: str | None = None) -> None:
        """Whatever else was asked: our own words, never the request's."""
        self._send(code, pages.message_page("only GET is answered"))

    def _send(self, status: int, body: str) -> None:
        data = body.encode("utf-8")
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _answer(self, server: _Server) -> tuple[HTTPStatus, str]:
        # Another site's name that was made to point here would bring its own Host.
        if self.headers.get_all("Host") != [f"{HOST}:{server.server_port}"]:
            return HTTPStatus.FORBIDDEN, pages.message_page("not this host")
        if len(self.path) > _LONGEST_QUERY:
            return HTTPStatus.BAD_REQUEST, pages.message_page("too long")
        try:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(
                parts.query, max_num_fields=5).items() if len(values) == 1}
        except ValueError:
            return HTTPStatus.BAD_REQUEST, pages.message_page("not a query")
        given = query.get("token", "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, server.token.encode()):
            return HTTPStatus.FORBIDDEN, pages.message_page("the address needs its token")
        server.last = time.monotonic()
        try:
            with server.one_by_one:
                found = server.site.answer(parts.path, query)
        except Exception:  # its text may quote a value
            return (HTTPStatus.INTERNAL_SERVER_ERROR,
                    pages.message_page("this page cannot be shown; privledger verify says why"))
        if found is None:
            return HTTPStatus.NOT_FOUND, pages.message_page("no such page")
        return HTTPStatus.OK, found

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the address has the token in it."""


class _Server(ThreadingMixIn, HTTPServer):
    """A thread per connection, on this machine's own address; pages are made one at a time.

    Whoever drips, or says nothing, holds a thread for `REQUEST_SECONDS` and nobody else. When
    all places are taken the oldest connection makes way: a newcomer always gets one.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, site: Site, token: str, port: int) -> None:
        super().__init__((HOST, port), _Handler)
        self.site, self.token, self.last = site, token, time.monotonic()
        self.timeout = 1.0
        self.one_by_one = threading.Lock()
        self._open: dict[int, socket.socket] = {}  # in the order they came
        self._counting = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._counting:
            if len(self._open) >= MOST_CONNECTIONS:
                oldest = self._open.pop(next(iter(self._open)))
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its own thread closes it
            self._open[id(request)] = request
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._counting:
            self._open.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's business."""

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/?token={self.token}"

    def serve_until_idle(self, seconds: float) -> None:
        """Answer until nobody with the token has asked for so long."""
        self.last = time.monotonic()
        while time.monotonic() - self.last < seconds:
            self.handle_request()


@click.command(cls=Guarded)
@ledger_argument
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True,
              help="0 for any that is free.")
@click.option("--idle", type=click.FloatRange(min=0, min_open=True), default=IDLE_MINUTES,
              show_default=True, help="Minutes without a request after which it ends.")
@click.option("--verify/--no-verify", "check", default=True, show_default=True,
              help="Verify everything before the first page.")
@format_option
def serve(ledger: str, port: int, idle: float, check: bool, format_: str) -> None:
    """A read-only page about LEDGER on 127.0.0.1, for ledgers too large for a report.

    Whoever has the printed address can read it until the command ends.
    """
    with reading(ledger) as opened:
        token = secrets.token_urlsafe(24)
        site = Site(opened, token, verify=check)
        try:
            server = _Server(site, token, port)
        except OSError:
            raise click.UsageError(f"port {port} cannot be used") from None
        with server:
            say_served(format_, {"ledger": shown(ledger), "address": server.address,
                                 "findings": site.findings, "receipt": opened.receipt.as_dict()},
                       server.address)
            server.serve_until_idle(60 * idle)
    note(f"ended: nobody asked for {idle:g} minutes")
