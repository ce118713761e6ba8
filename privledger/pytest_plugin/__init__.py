"""pytest plugin: a ledger for a test, and a privacy budget that fails it.

    @pytest.mark.privacy_budget(epsilon=1.0, delta=1e-6)
    def test_training(privledger_ledger):
        data = privledger_ledger.protect(X, y, schema)
        ...

pytest loads every installed plugin in every run, also where it is not used. So this module
imports the rest of the package only where the fixture is used.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

_LEDGER: pytest.StashKey[Any] = pytest.StashKey()
MARKER = "privacy_budget"
FIXTURE = "privledger_ledger"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--privledger-policy FILE`, which every ledger of the fixture must keep to."""
    parser.getgroup("privledger").addoption(
        "--privledger-policy", metavar="FILE", default=None,
        help="Every ledger of the fixture privledger_ledger must keep to this policy.")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and read the policy at the start: a wrong one stops the run."""
    config.addinivalue_line("markers", f"{MARKER}(epsilon, delta=0.0, relation='add_remove', "
                                       f"filter='auto'): budget of the fixture {FIXTURE}")
    path = config.getoption("--privledger-policy")
    if path is not None:
        from privledger.pytest_plugin.using import load_policy

        try:
            load_policy(path)  # found out at the start, not after the first test
        except ValueError as error:
            raise pytest.UsageError(f"--privledger-policy: {error}") from None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A budget that nothing would be held to is a mistake."""
    if item.get_closest_marker(MARKER) and FIXTURE not in getattr(item, "fixturenames", ()):
        pytest.fail(f"@pytest.mark.{MARKER} needs the fixture {FIXTURE}: without it nothing is "
                    "counted", pytrace=False)


@pytest.fixture
def privledger_ledger(request: pytest.FixtureRequest) -> Generator[Any, None, None]:
    """A fresh ledger in memory with the budget of the marker, or else of the policy."""
    from privledger.guard.inside import _observing
    from privledger.pytest_plugin.using import Noting, make_ledger

    marker = request.node.get_closest_marker(MARKER)
    policy = request.config.getoption("--privledger-policy")
    try:
        ledger = make_ledger(None if marker is None else (marker.args, marker.kwargs), policy)
    except (ValueError, TypeError) as error:
        pytest.fail(f"{MARKER}: {error}", pytrace=False)
    request.node.stash[_LEDGER] = ledger
    with _observing(Noting()):
        yield ledger
    ledger.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """After the test: its spend as properties; a broken budget or policy fails it."""
    try:
        result = yield
    finally:
        ledger = item.stash.get(_LEDGER, None)
        if ledger is not None:
            from privledger.pytest_plugin.using import spend_properties

            item.user_properties.extend(spend_properties(ledger))
    if ledger is not None:
        from privledger.pytest_plugin.using import complaints

        found = complaints(ledger, item.config.getoption("--privledger-policy"), item.nodeid)
        if found:
            pytest.fail(found, pytrace=False)
    return result
