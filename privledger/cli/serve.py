"""`privledger serve`: the report's page of one ledger, and its figures, for this machine only."""

from __future__ import annotations

import hmac
import io
import secrets
import socket
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import parse_qs, urlsplit

import click

from privledger.cli.output import (
    Guarded,
    as_json,
    format_option,
    ledger_argument,
    note,
    reading,
    say_served,
)
from privledger.cli.report import read_page
from privledger.guard import Ledger
from privledger.reports.page import ShownPerson, page_policy, render_page
from privledger.reports.page.render import inert_json
from privledger.storage import shown

HOST, IDLE_MINUTES = "127.0.0.1", 15.0
REQUEST_SECONDS = 5.0  # for a request to come, and for its answer to go
MOST_CONNECTIONS, MOST_ASKED, _LONGEST_QUERY = 32, 16384, 500  # MOST_ASKED: bytes, with headers
HTML, JSON = "text/html; charset=utf-8", "application/json"
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
           "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin"}
Answer = tuple[HTTPStatus, str, str]


class Site:
    """What is served: page and figures of one ledger, verified, and made again when it grew."""

    def __init__(self, place: str, ledger: Ledger, *, verify: bool) -> None:
        self._place, self._ledger, self._at = place, ledger, -1
        self._made: dict[str, tuple[str, str]] = {"/": (HTML, ""), "/figures": (JSON, "")}
        self.findings: int | None = None  # None: nothing was verified yet
        if verify:
            self.answer("/")

    def answer(self, path: str) -> tuple[str, str] | None:
        """Kind and text of what is at `path`; None if nothing is."""
        position = self._ledger._history.refresh().position
        if path in self._made and position != self._at:
            page = read_page(self._place, ShownPerson(), publishable=False)
            value = {"judgement": page.verdict.as_dict()} if page.content is None else (
                page.content.report.as_dict())
            self._made = {"/": (HTML, render_page(page)),
                          "/figures": (JSON, inert_json(as_json(value)))}
            self._at, self.findings = position, len(page.verdict.findings)
        return self._made.get(path)


class _Handler(BaseHTTPRequestHandler):
    """GET and nothing else; a client without the token, or by another name, gets nothing."""

    server_version, sys_version, protocol_version = "privledger", "", "HTTP/1.0"
    server: _Server

    def setup(self) -> None:
        """All of a request at once: it has one deadline, and a most that is read of it."""
        super().setup()
        asked, until = b"", time.monotonic() + REQUEST_SECONDS
        with suppress(OSError):  # too slow, or gone: what came is no request
            while len(asked) < MOST_ASKED and b"\n\r\n" not in asked and b"\n\n" not in asked:
                self.request.settimeout(max(0.001, until - time.monotonic()))
                more = self.request.recv(MOST_ASKED - len(asked))
                if not more:
                    break
                asked += more
        self.request.settimeout(REQUEST_SECONDS)  # for the whole answer
        ended = b"\n\r\n" in asked or b"\n\n" in asked
        self.rfile = io.BufferedReader(io.BytesIO(asked if ended else b""))

    def do_GET(self) -> None:
        """The page, the figures, or our own words."""
        self._send(*self._answer())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Whatever else was asked: our own words, never the request's."""
        self._send(*_said(HTTPStatus(code), "only GET is answered"))

    def _send(self, status: HTTPStatus, kind: str, body: str) -> None:
        data = body.encode("utf-8")
        with suppress(OSError):  # it went away, or took too long
            self.send_response(status)
            for name, value in (HEADERS | {
                    "Content-Security-Policy": f"{page_policy()}; frame-ancestors 'none'",
                    "Content-Type": kind, "Content-Length": str(len(data))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    def _answer(self) -> Answer:
        # Another site's name that was made to point here would bring its own Host.
        if self.headers.get_all("Host") != [f"{HOST}:{self.server.server_port}"]:
            return _said(HTTPStatus.FORBIDDEN, "not this host")
        if len(self.path) > _LONGEST_QUERY:
            return _said(HTTPStatus.BAD_REQUEST, "too long")
        try:
            parts = urlsplit(self.path)
            tokens = parse_qs(parts.query, max_num_fields=5).get("token", [])
        except ValueError:
            return _said(HTTPStatus.BAD_REQUEST, "not a query")
        given = tokens[0].encode("utf-8", "replace") if len(tokens) == 1 else b""
        if not hmac.compare_digest(given, self.server.token.encode()):
            return _said(HTTPStatus.FORBIDDEN, "the address needs its token")
        self.server.last = time.monotonic()
        try:
            with self.server.one_by_one:
                found = self.server.site.answer(parts.path)
        except Exception:  # its text may quote a value
            return _said(HTTPStatus.INTERNAL_SERVER_ERROR,
                         "this page cannot be shown: run privledger verify")
        return (HTTPStatus.OK, *found) if found else _said(HTTPStatus.NOT_FOUND, "no such page")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the address has the token in it."""


def _said(status: HTTPStatus, words: str) -> Answer:
    return status, HTML, f'<!doctype html><html lang="en"><title>{words}</title><h1>{words}</h1>'


class _Server(ThreadingMixIn, HTTPServer):
    """A thread per connection, on this machine's own address; pages are made one at a time.

    A client that drips, or says nothing, holds one thread for `REQUEST_SECONDS`. When
    all places are taken the oldest connection makes way: a newcomer always gets one.
    """

    daemon_threads, request_queue_size = True, 64

    def __init__(self, site: Site, token: str, port: int) -> None:
        super().__init__((HOST, port), _Handler)
        self.site, self.token, self.last, self.timeout = site, token, time.monotonic(), 1.0
        self.one_by_one, self._counting = threading.Lock(), threading.Lock()
        self._open: dict[int, socket.socket] = {}  # in the order they came

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._counting:
            if len(self._open) >= MOST_CONNECTIONS:
                with suppress(OSError):  # its own thread closes it
                    self._open.pop(next(iter(self._open))).shutdown(socket.SHUT_RDWR)
            self._open[id(request)] = request
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._counting:
            self._open.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away needs no answer."""

    def serve_until_idle(self, seconds: float) -> None:
        """Answer until no client with the token has asked for so long."""
        self.last = time.monotonic()
        while time.monotonic() - self.last < seconds:
            self.handle_request()


@click.command(cls=Guarded)
@ledger_argument
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True,
              help="Port, or 0 for any free port.")
@click.option("--idle", type=click.FloatRange(min=0, min_open=True), default=IDLE_MINUTES,
              show_default=True, help="Minutes without a request after which the server ends.")
@click.option("--verify/--no-verify", "check", default=True, show_default=True,
              help="Verify everything before the address is printed, or at the first request.")
@format_option
def serve(ledger: str, port: int, idle: float, check: bool, format_: str) -> None:
    """The page of `privledger report` about LEDGER on 127.0.0.1, made again when it grew.

    A person with the printed address can read it until the command ends; the same figures are JSON
    at /figures, behind the same token. CONFIDENTIAL where the page tells of records.
    """
    with reading(ledger) as opened:
        token, site = secrets.token_urlsafe(24), Site(ledger, opened, verify=check)
        try:
            server = _Server(site, token, port)
        except OSError:
            raise click.UsageError(f"port {port} cannot be used") from None
        with server:
            address = f"http://{HOST}:{server.server_port}/?token={token}"
            say_served(format_, {"ledger": shown(ledger), "address": address,
                                 "findings": site.findings, "receipt": opened.receipt.as_dict()},
                       address)
            server.serve_until_idle(60 * idle)
    note(f"ended: no request for {idle:g} minutes")
