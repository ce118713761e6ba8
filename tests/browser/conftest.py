"""A real browser that is already on the machine; nothing is ever downloaded."""

import os
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from tests.worlds import refused, schema_of

SCHEMA = schema_of("stays", {"stay": (0.0, 60.0)})
ROUND = pl.Gaussian(20.0)
FILTER = pl.IndividualFilter("gdp", 0.01, node=pl.Repeat(ROUND, 8))


@pytest.fixture(scope="session")
def chromium():
    """Debian's Chromium, driven by Playwright."""
    sync = pytest.importorskip("playwright.sync_api",
                               reason="playwright is not installed (extra: browser)")
    program = os.environ.get("PRIVLEDGER_CHROMIUM") or shutil.which("chromium")
    if not program:
        pytest.skip("no chromium: apt-get install chromium")
    # Chromium's own sandbox refuses to run as root.
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program,
                                       args=["--no-sandbox"] if root else [])
        yield browser
        browser.close()


class Tab:
    """One page, and everything that it asked for or complained about."""

    def __init__(self, browser, place, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(15_000)
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.address = place.as_uri()
        self.page.goto(self.address)
        self.page.wait_for_selector("html[data-ready]", state="attached")


@pytest.fixture
def visit(chromium):
    """Open a file. At the end: nothing else was asked for, and nobody complained."""
    tabs = []

    def open_tab(place, **options):
        tabs.append(Tab(chromium, place, **options))
        return tabs[-1].page

    yield open_tab
    for tab in tabs:
        tab.context.close()
        assert tab.requests == [tab.address]
        assert tab.complaints == []


def lived(path, learner="stay model", name="patients"):
    """A ledger with a whole plan, a filter, many parts and a refusal."""
    with pl.Ledger.create(path, budget=pl.Budget(2.0, 1e-6), filter="gdp") as ledger:
        data = ledger.protect({"stay": np.linspace(0, 60, 300)}, SCHEMA, name=name)
        with ledger.request(pl.Repeat(ROUND, 2), data, learner="counts") as session:
            for _ in range(2):
                session.release(ROUND, data.count())
        with ledger.request(FILTER, data, learner=learner) as session:
            handle = session.filtered(FILTER)
            for _ in range(8):
                session.release(ROUND, handle.sum("stay"))
        parts = pl.Parallel([pl.Gaussian(50.0 + place) for place in range(250)])
        ledger.request(parts, data, learner="departments").close()
        refused(pl.BudgetExceeded, lambda: ledger.request(pl.Gaussian(0.5), data, learner="greedy"))
    return path


def written(ledger, *options, code=0):
    """The report of a ledger."""
    place = ledger.with_name(ledger.stem + "".join(options) + ".html")
    done = CliRunner().invoke(main, ["report", str(ledger), "-o", str(place), *options])
    assert done.exit_code == code, done.output
    return place


@pytest.fixture(scope="session")
def ledger(tmp_path_factory):
    return lived(tmp_path_factory.mktemp("browser") / "people.ledger")


@pytest.fixture(scope="session")
def pages(ledger):
    """The page with what is shown by default, with every record, and for everybody."""
    return {"plain": written(ledger), "records": written(ledger, "--include-records"),
            "publishable": written(ledger, "--publishable")}
