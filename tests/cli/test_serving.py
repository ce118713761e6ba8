"""`privledger serve`: the page and its figures, for whoever has the address, on this machine."""

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
from privledger.cli.report import read_page
from privledger.cli.serve import HOST, Site, _Server
from privledger.reports.page import ShownPerson, render_page
from tests.doctored import doctor
from tests.worlds import schema_of

EVIL = '<script>alert(1)</script>"\'&\x1b[2J'


@pytest.fixture
def book(tmp_path):
    """A ledger with an unfriendly learner, an individual filter and a vouched node."""
    place = tmp_path / "book.ledger"
    schema = schema_of("t", {"x": (0, 1)})
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
    server = _Server(Site(str(book), ledger, verify=True), "right-token", 0)
    server.timeout = 0.05
    thread = threading.Thread(target=server.serve_until_idle, args=(60.0,), daemon=True)
    thread.start()
    yield server
    until = time.monotonic() + 120
    while thread.is_alive() and time.monotonic() < until:
        server.last = -1e9  # again and again: a request still under way is noted as just asked
        thread.join(0.1)
    assert not thread.is_alive()
    server.server_close()
    ledger.close()


def ask(server, path, *, token="right-token", method="GET", host=None):
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=120)
    sign = "&" if "?" in path else "?"
    whole = path if token is None else f"{path}{sign}token={token}"
    connection.putrequest(method, whole, skip_host=True)
    connection.putheader("Host", host or f"{HOST}:{server.server_port}")
    connection.endheaders()
    found = connection.getresponse()
    body = found.read().decode()
    connection.close()
    return found.status, body, found.headers


def test_the_page_is_the_reports_and_the_figures_are_shows(served, book, as_json):
    status, page, headers = ask(served, "/")
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    made = read_page(book, ShownPerson(), publishable=False)
    assert page == render_page(made) and "friend" in page and "IndividualFilter" in page
    status, figures, headers = ask(served, "/figures")
    assert status == 200 and headers["Content-Type"] == "application/json"
    assert json.loads(figures) == as_json("show", book)


@pytest.mark.parametrize("path", [
    "/nothing", "/../etc/passwd", "/figures/", "/grants?page=0", "/record?row=1", "/%00",
    "/index.html", "/FIGURES"])
def test_anything_else_is_not_there_and_is_not_repeated(served, path):
    status, body, _ = ask(served, path)
    assert status == 404 and "no such page" in body
    assert path not in body


@pytest.mark.parametrize(("options", "expected"), [
    ({"token": None}, 403), ({"token": "wrong"}, 403), ({"token": ""}, 403),
    ({"token": "right-token&token=x"}, 403), ({"token": "%ff"}, 403),
    ({"host": "evil.example"}, 403), ({"host": "localhost"}, 403), ({"host": HOST}, 403),
    ({"token": "x" * 600}, 400),
    ({"method": "POST"}, 501), ({"method": "HEAD"}, 501), ({"method": "<b>"}, 501)])
def test_without_token_or_host_or_get_there_is_nothing(served, options, expected):
    status, body, _ = ask(served, "/", **options)
    assert status == expected
    assert "epsilon" not in body and "right-token" not in body and "<b>" not in body


def test_labels_are_inert_and_headers_strict(served):
    for path in ("/", "/figures", "/nothing"):
        _, body, headers = ask(served, path)
        assert "<script>alert" not in body and "\x1b" not in body
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"


def test_it_listens_here_only(served):
    assert served.server_address[0] == "127.0.0.1"
    assert served.socket.family == socket.AF_INET


def test_what_was_appended_is_verified_and_shown(served, book):
    assert "Every entry was re-read" in ask(served, "/")[1]
    with pl.Ledger.open(book) as ledger:
        schema = schema_of("t", {"x": (0, 1)})
        data = ledger.protect({"x": np.linspace(0, 1, 20)}, schema, name="late")
        ledger.request(pl.Gaussian(20.0), data, learner="latecomer").close()
    for path in ("/", "/figures"):
        page = ask(served, path)[1]
        assert "every entry was re-read" in page.lower() and "latecomer" in page


def test_what_was_edited_meanwhile_is_never_called_good(served, book):
    assert ask(served, "/")[0] == 200
    with pl.Ledger.open(book) as ledger:
        ledger.open_window("next")
    doctor(book, "UPDATE entries SET body = replace(body, 'friend', 'fiend')")
    for path in ("/", "/figures"):
        status, page, _ = ask(served, path)
        assert status == 500 or "NOT TRUSTED" in page
        assert "within budget" not in page


def test_nothing_is_verified_before_somebody_asks(book):
    with pl.Ledger.open(book, read_only=True) as ledger:
        site = Site(str(book), ledger, verify=False)
        assert site.findings is None
        assert "Every entry was re-read" in site.answer("/")[1] and site.findings == 0


def test_it_writes_nothing(served, book):
    before = book.read_bytes()
    for path in ("/", "/figures"):
        ask(served, path)
    assert book.read_bytes() == before


def test_the_command_says_where_and_ends_by_itself(book):
    code = "from privledger.cli import main; main()"
    done = subprocess.Popen(
        [sys.executable, "-c", code, "serve", str(book), "--idle", "0.01", "--format", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    out, err = done.communicate(timeout=120)
    found = json.loads(out)
    parts = urlsplit(found["address"])
    assert parts.hostname == HOST and len(parts.query) > 30 and found["findings"] == 0
    assert done.returncode == 0 and "ended" in err


def dripping(server, stop, text=b"GET / HTTP/1.0\r\nX: ", every=0.05):
    """A client without a token that sends a byte now and then."""
    with socket.create_connection((HOST, server.server_port), timeout=120) as connection:
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


def test_a_dripping_client_holds_nobody(served, monkeypatch):
    monkeypatch.setattr(serve, "REQUEST_SECONDS", 120.0)  # on a busy machine an answer takes long
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
            client.join(120)


def test_a_dripping_client_is_let_go_at_its_deadline(served, quick):
    begun = time.monotonic()
    dripping(served, threading.Event())
    assert time.monotonic() - begun < 60


def test_many_idle_connections_hold_nobody(served):
    held = [socket.create_connection((HOST, served.server_port), timeout=120)
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
        assert ask(served, "/figures")[0] == 200
    finally:
        for one in held:
            one.close()


@pytest.mark.parametrize("text", [
    b"GET / HTTP/1.0\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 4000) for n in range(90)),
    b"GET /" + b"a" * 200_000, b"X: " * 50_000])
def test_huge_requests_are_cut(served, text):
    with socket.create_connection((HOST, served.server_port), timeout=120) as connection:
        try:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65536)
        except OSError:
            answer = b""
    assert b"epsilon" not in answer
    assert ask(served, "/")[0] == 200
