"""`privledger serve`: four pages, for whoever has the address, on this machine."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import numpy as np
import pytest

import privledger as pl
from privledger.cli import serve
from privledger.cli.serve import HOST, Site, _Server

EVIL = '<script>alert(1)</script>"\'&\x1b[2J'


@pytest.fixture
def book(tmp_path):
    """A ledger with an unfriendly learner, an individual filter and a vouched node."""
    place = tmp_path / "book.ledger"
    schema = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0, 1),))
    with pl.Ledger.create(place, budget=pl.Budget(9.0, 1e-6), filter="gdp") as ledger:
        data = ledger.protect({"x": np.linspace(0, 1, 20)}, schema, name=EVIL)
        cap = pl.IndividualFilter("gdp", 0.01, node=pl.Repeat(pl.Gaussian(20.0), 3))
        with ledger.request(cap, data, learner=EVIL) as session:
            session.release(pl.Gaussian(20.0), session.filtered(cap).sum("x"))
        ledger.request(pl.Asserted(0.5, EVIL), data, learner="friend").close()
    return place


@pytest.fixture
def served(book):
    """Address parts of a running page."""
    ledger = pl.Ledger.open(book, read_only=True)
    server = _Server(Site(ledger, "right-token", verify=True), "right-token", 0)
    server.timeout = 0.05
    thread = threading.Thread(target=server.serve_until_idle, args=(60.0,), daemon=True)
    thread.start()
    yield server
    until = time.monotonic() + 30
    while thread.is_alive() and time.monotonic() < until:
        server.last = -1e9  # again and again: a request still under way is noted as just asked
        thread.join(0.1)
    assert not thread.is_alive()
    server.server_close()
    ledger.close()


def ask(server, path, *, token="right-token", method="GET", host=None):
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=10)
    sign = "&" if "?" in path else "?"
    whole = path if token is None else f"{path}{sign}token={token}"
    connection.putrequest(method, whole, skip_host=True)
    connection.putheader("Host", host or f"{HOST}:{server.server_port}")
    connection.endheaders()
    found = connection.getresponse()
    body = found.read().decode()
    connection.close()
    return found.status, body, found.headers


def test_the_four_pages(served):
    assert "epsilon 9" in ask(served, "/")[1]
    status, grants, _ = ask(served, "/grants?page=0")
    assert status == 200 and "friend" in grants
    at = grants.split("at=")[2].split('"')[0]
    plan = ask(served, f"/grant?at={at}")
    assert plan[0] == 200 and "IndividualFilter" in plan[1] and "Gaussian" in plan[1]
    record = ask(served, "/record?row=3&data=0")
    assert record[0] == 200 and "CONFIDENTIAL" in record[1]


@pytest.mark.parametrize("path", [
    "/nothing", "/../etc/passwd", "/grants?page=9", "/grants?page=-1", "/grants?page=x",
    "/grant?at=999999", "/grant", "/record?row=99999", "/record?row=1&data=7", "/record",
    "/record?row=1&row=2", "/grants?page=%D9%A1", "/record?row=1e3",
])
def test_anything_else_is_not_there_and_is_not_repeated(served, path):
    status, body, _ = ask(served, path)
    assert status == 404 and "no such page" in body
    assert path not in body


@pytest.mark.parametrize(("options", "expected"), [
    ({"token": None}, 403), ({"token": "wrong"}, 403), ({"token": ""}, 403),
    ({"token": "right-token&token=x"}, 403), ({"token": "%ff"}, 403),
    ({"host": "evil.example"}, 403), ({"host": "localhost"}, 403), ({"host": HOST}, 403),
    ({"token": "x" * 600}, 400),
    ({"method": "POST"}, 501), ({"method": "HEAD"}, 501), ({"method": "<b>"}, 501),
])
def test_without_token_or_host_or_get_there_is_nothing(served, options, expected):
    status, body, _ = ask(served, "/", **options)
    assert status == expected
    assert "epsilon" not in body and "right-token" not in body and "<b>" not in body


def test_labels_are_inert_and_headers_strict(served):
    for path in ("/", "/grants", "/record?row=1"):
        status, body, headers = ask(served, path)
        assert status == 200 and "<script" not in body and "\x1b" not in body
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"


def test_it_listens_here_only(served):
    assert served.server_address[0] == "127.0.0.1"
    assert served.socket.family == socket.AF_INET


def test_what_was_appended_is_shown_and_not_called_verified(served, book):
    assert "every entry re-read" in ask(served, "/")[1]
    with pl.Ledger.open(book) as ledger:
        schema = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0, 1),))
        data = ledger.protect({"x": np.linspace(0, 1, 20)}, schema, name="late")
        ledger.request(pl.Gaussian(20.0), data, learner="latecomer").close()
    page = ask(served, "/")[1]
    assert "every entry re-read" not in page and "not verified" in page
    assert "latecomer" in ask(served, "/grants")[1]


def test_it_writes_nothing(served, book):
    before = book.read_bytes()
    for path in ("/", "/grants", "/record?row=1"):
        ask(served, path)
    assert book.read_bytes() == before


def test_grants_come_a_hundred_at_a_time(tmp_path):
    with pl.Ledger.create(tmp_path / "many.ledger", budget=pl.Budget(9.0, 1e-6),
                          filter="gdp") as ledger:
        schema = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0, 1),))
        data = ledger.protect({"x": [0.5]}, schema, name="one")
        for number in range(120):
            ledger.request(pl.Gaussian(500.0), data, learner=f"n{number}!").close()
        site = Site(ledger, "t", verify=False)
        first, second = (site.answer("/grants", {"page": str(page)}) for page in (0, 1))
        assert first.count("<tr>") == 101 and second.count("<tr>") == 21
        assert "n119!" in first and "n0!" in second and "older" in first
        assert site.answer("/grants", {"page": "2"}) is None


def test_the_command_says_where_and_ends_by_itself(book):
    code = "from privledger.cli import main; main()"
    done = subprocess.Popen(
        [sys.executable, "-c", code, "serve", str(book), "--idle", "0.01", "--format", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    out, err = done.communicate(timeout=60)
    found = json.loads(out)
    parts = urlsplit(found["address"])
    assert parts.hostname == HOST and len(parts.query) > 30 and found["findings"] == 0
    assert done.returncode == 0 and "ended" in err


def dripping(server, stop, text=b"GET / HTTP/1.0\r\nX: ", every=0.05):
    """A client without a token that sends a byte now and then."""
    with socket.create_connection((HOST, server.server_port), timeout=10) as connection:
        try:
            connection.sendall(text)
            while not stop.wait(every):
                connection.sendall(b"a")
        except OSError:
            return


@pytest.fixture
def quick(monkeypatch):
    """A shorter deadline, so that the test need not wait for the real one."""
    assert serve.REQUEST_SECONDS <= 5
    monkeypatch.setattr(serve, "REQUEST_SECONDS", 1.0)


def test_a_dripping_client_holds_nobody(served):
    stop = threading.Event()
    clients = [threading.Thread(target=dripping, args=(served, stop), daemon=True)
               for _ in range(5)]
    for client in clients:
        client.start()
    try:
        begun = time.monotonic()
        assert ask(served, "/")[0] == 200
        assert time.monotonic() - begun < 0.9 * serve.REQUEST_SECONDS  # what one of them may take
    finally:
        stop.set()
        for client in clients:
            client.join(10)


def test_a_dripping_client_is_let_go_at_its_deadline(served, quick):
    begun = time.monotonic()
    dripping(served, threading.Event())
    assert time.monotonic() - begun < 5


def test_many_idle_connections_hold_nobody(served):
    held = [socket.create_connection((HOST, served.server_port), timeout=10)
            for _ in range(3 * serve.MOST_CONNECTIONS)]
    try:
        assert ask(served, "/")[0] == 200
        assert threading.active_count() < 3 * serve.MOST_CONNECTIONS
    finally:
        for one in held:
            one.close()


def test_a_slow_reader_of_the_answer_holds_nobody(served, quick):
    request = (f"GET /?token=right-token HTTP/1.0\r\nHost: {HOST}:{served.server_port}\r\n\r\n")
    held = []
    for _ in range(5):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        one.connect((HOST, served.server_port))
        one.sendall(request.encode())
        held.append(one)
    try:
        assert ask(served, "/grants")[0] == 200
    finally:
        for one in held:
            one.close()


@pytest.mark.parametrize("text", [
    b"GET / HTTP/1.0\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 4000) for n in range(90)),
    b"GET /" + b"a" * 200_000, b"X: " * 50_000])
def test_huge_requests_are_cut(served, text):
    with socket.create_connection((HOST, served.server_port), timeout=10) as connection:
        try:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65536)
        except OSError:
            answer = b""
    assert b"epsilon" not in answer
    assert ask(served, "/")[0] == 200
