"""What is skipped in CI for a reason that nobody allowed fails the run."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.all_cases import all_cases
from tests.skips import ALLOWED, refused
from tests.thinning import EXAMPLES, STRIDES

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(("whole_file", "reason", "in_ci", "code"), [
    (False, "the wind is wrong", "true", 1),
    (True, "the wind is wrong", "true", 1),
    (False, "the wind is wrong", "", 0),
    (False, "needs root", "true", 0)])
def test_a_reason_that_nobody_allowed_fails_the_run_in_ci(tmp_path, whole_file, reason, in_ci,
                                                          code):
    """Also if a whole file is skipped while it is read, and no test of it is ever seen."""
    skip = f"import pytest\npytest.skip({reason!r}, allow_module_level=True)\n"
    inside = f"import pytest\ndef test_other():\n    pytest.skip({reason!r})\n"
    (tmp_path / "test_one.py").write_text(skip if whole_file else inside, encoding="utf-8")
    (tmp_path / "test_two.py").write_text("def test_that_runs():\n    pass\n", encoding="utf-8")
    (tmp_path / "conftest.py").write_text(
        "from tests.skips import Skips\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(Skips(), 'skips')\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items()
                   if name != "CI" and not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        env={**environment, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
             **({"CI": in_ci} if in_ci else {})})
    assert done.returncode == code, done.stdout + done.stderr
    assert reason in done.stdout
    assert ("NOT ALLOWED in CI" in done.stdout) == refused(reason)


def test_every_reason_that_is_allowed_says_why():
    assert all(len(why.split()) >= 5 for _, why in ALLOWED)
    assert refused("the wind is wrong") and not refused("needs root")


def test_every_family_that_is_thinned_is_there():
    for family in [*STRIDES, *EXAMPLES]:
        file, _, name = family.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), family


def test_cases_of_one_test_all_run_and_those_that_fail_are_named():
    seen = []

    @all_cases("one", [1, 2, 3])
    @all_cases(("two", "three"), [("a", "b"), pytest.param("c", "d", id="odd")])
    def law(one, two, three, fixture):
        seen.append((one, two, three, fixture))
        assert one == 2

    assert list(inspect.signature(law).parameters) == ["fixture"]
    with pytest.raises(AssertionError) as caught:
        law(fixture="x")
    assert len(seen) == 6 and "2 of 3 cases of law fail: (1,); (3,)" in caught.value.__notes__
    with pytest.raises(AssertionError, match="a test of its own"):
        all_cases("one", [pytest.param(1, marks=pytest.mark.slow)])
