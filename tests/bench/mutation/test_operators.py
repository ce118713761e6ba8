"""Each operator changes one thing, in its place, and leaves a file that parses."""

import ast
from pathlib import Path

import pytest

from tests.bench.mutation.operators import places

ROOT = Path(__file__).resolve().parents[3]


def becomes(source):
    return {place.apply(source) for place in places(source)}


@pytest.mark.parametrize(("source", "mutants"), [
    ("a < b", {"(a <= b)"}),
    ("a <= b < c", {"(a < b < c)", "(a <= b <= c)"}),
    ("x is not None", {"(x is None)"}),
    ("a not in b", {"(a in b)"}),
    ("a + b", {"(a - b)"}),
    ("a * b - c", {"(a * b + c)", "(a / b) - c"}),
    ("a += b", {"a -= b"}),
    ("a and b and c", {"(a or b or c)"}),
    ("f(not a)", {"f((a))", "pass"}),
    ("-a", {"(a)"}),
    ("x = 3", {"x = (4)"}),
    ("x = 0.5", {"x = (1.5)"}),
    ("x = True", {"x = (False)"}),
    ("x = max(a, b)", {"x = (min(a, b))"}),
    ("x = np.min(a)", {"x = (np.max(a))"}),
    ("x = math.floor(a)", {"x = (math.ceil(a))"}),
    ("b if a else c", {"(b if not a else c)"}),
    ("check(a)", {"pass"}),
    ("raise E(a)", {"pass"}),
    ("def f():\n    return a", {"def f():\n    return None"}),
    ("def f():\n    return None", set()),
    ("'text'", set()),
    ("f'{a + 1}'", set()),
    ("x: Literal[1] = y", set()),
    ("if TYPE_CHECKING:\n    a = 1", set()),
    ("__all__ = [1]", set()),
    ("x = 'a' + b", set())])
def test_what_becomes_of_a_line(source, mutants):
    assert becomes(source) == mutants


def test_a_place_is_found_behind_letters_of_many_bytes():
    assert becomes("x = 'äöü∑', a < b") == {"x = 'äöü∑', (a <= b)"}


def test_every_other_line_stays_where_it_is():
    source = "def f(a):\n    if (a\n            > 1):\n        raise E(\n            a)\n    g()\n"
    for place in places(source):
        new = place.apply(source)
        assert new.splitlines()[:place.line - 1] == source.splitlines()[:place.line - 1]
        assert new.splitlines()[-1] in ("    g()", "    pass")


@pytest.mark.parametrize("name", ["rounding.py", *(pytest.param(
    name, marks=pytest.mark.slow) for name in ("ledger/decide.py", "accounting/curve.py"))])
def test_every_place_of_a_real_file_is_another_program(name):
    source = (ROOT / "privledger" / name).read_text(encoding="utf-8")
    tree = ast.dump(ast.parse(source))
    for place in places(source):
        assert ast.dump(ast.parse(place.apply(source))) != tree, place
