"""Skips are shown, and in CI a reason that nobody allowed fails the run.

A skipped check is not a check. A whole suite of rules was once skipped in every CI run because
it looked for its subject in the wrong folder; nothing said so.
"""

from __future__ import annotations

import os
import re
from collections import Counter

import pytest

ALLOWED = (
    # (pattern of the reason, why nothing is lost by it)
    (r"the shared .* not here|shared .* (is|are) not here",
     "example data and reference values are not part of the repository"),
    (r"(?i)no chromium", "a browser needs a system package; .ci/run installs it where it may"),
    (r"no PostgreSQL server|PostgreSQL does not start here",
     "the server's wheel is in the extra `test`, but not for every platform"),
    (r"user namespaces|not permitted here|this kernel", "the kernel does not let a process do it"),
    (r"(opacus|opendp|diffprivlib) .*(not installed|does not work)|no dp_accounting here",
     "a stand-in has its contract; the package needs torch, or an older scikit-learn"),
    (r"needs root", "only root may do what is tried"))
"""Reasons that may appear in CI. Add one here with a sentence, or make the test run."""


def refused(reason: str) -> bool:
    """Whether a skip for this reason fails the run in CI."""
    return not any(re.search(pattern, reason) for pattern, _ in ALLOWED)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


class Skips:
    """Collects every skip of a run, whichever process it happened in."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.reasons[_reason(report)] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.reasons[_reason(report)] += 1

    @property
    def wrong(self) -> list[str]:
        return [reason for reason in self.reasons if refused(reason)]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.wrong and os.environ.get("CI") and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for reason, count in sorted(self.reasons.items()):
            mark = "NOT ALLOWED in CI: " if refused(reason) else ""
            terminalreporter.write_line(f"skipped {count}: {mark}{reason}")
