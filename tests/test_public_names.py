"""The public names: few, in one list, sorted, documented; and the old ones lead to the new."""

import ast
import inspect
import re
import subprocess
import sys
import types
import warnings
from pathlib import Path

import pytest

import privledger
from privledger.former import MOVED
from privledger.testing.scans import FACES
from tests.all_cases import all_cases

ROOT = Path(__file__).parents[1]
DOCUMENTED = [(home, name)
              for home in (privledger, *(getattr(privledger, face) for face in sorted(FACES)))
              for name in getattr(home, "__all__", ())
              if callable(getattr(home, name))]
PROMISED = {
    "Laplace", "Gaussian", "Exponential", "RandomizedResponse", "DiscreteLaplace",
    "DiscreteGaussian", "PoissonSample", "Repeat", "Sequential", "Parallel", "epsilon", "delta",
    "rdp", "calibrate", "Budget", "Ledger", "BudgetExceeded", "Schema", "read_table"}
OLD = {name: place for place, names in MOVED.items() for name in names}
WRITTEN = [path for folder in ("privledger", "learners", "tests", "docs")
           for path in sorted((ROOT / folder).rglob("*"))
           if path.suffix in (".py", ".pyi", ".md", ".txt", ".toml")
           and "reference" not in path.parts
           and path.name not in ("former.py", Path(__file__).name)]


def test_the_top_is_small():
    """Sixty, modules counted in: what a reader can hold. The rest has a module of its own."""
    assert len(privledger.__all__) <= 60


def test_all_is_sorted_and_without_repeats():
    assert list(privledger.__all__) == sorted(set(privledger.__all__))


def test_the_one_list_of_names_is_what_there_is():
    """`__init__.py` reads the stub by lines, a type checker as Python. Both see the same."""
    stub = ast.parse(Path(privledger.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    typed = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            (name,) = node.names
            assert name.name == name.asname, f"line {node.lineno}: not handed on"
            typed[name.name] = node.module
    assert typed == privledger._HOME_OF
    assert sorted(typed) == privledger.__all__
    modules = {name for name, home in typed.items() if home == "privledger"}
    assert modules == FACES | {"engines"}, "learners import the former; engines are for owners"
    for name, home in typed.items():
        if home != "privledger":
            assert getattr(privledger, name) is getattr(sys.modules[home], name)
    public = {name for name, value in vars(privledger).items()
              if not name.startswith("_") and not isinstance(value, types.ModuleType)}
    assert public - {"import_module", "Any", "Path"} <= set(privledger.__all__)


def test_dir_shows_the_names_and_nothing_else():
    assert dir(privledger) == sorted([*privledger.__all__, "__version__"])


def test_promised_names_are_there():
    assert set(privledger.__all__) >= PROMISED


@pytest.mark.parametrize("face", sorted(name for name, home in privledger._HOME_OF.items()
                                        if home == "privledger"))
def test_a_public_module_says_what_is_public_in_it(face):
    """The site's reference has a page for each, made of this."""
    assert getattr(privledger, face).__all__


def test_a_name_has_one_place():
    """What stands at the top stands nowhere else, but for errors: there is the whole tree."""
    for face in ("nodes", "questions"):
        assert not set(getattr(privledger, face).__all__) & set(privledger.__all__)


@all_cases("name", sorted(OLD))
def test_an_old_name_leads_to_its_place(name):
    with pytest.warns(DeprecationWarning, match=rf"privledger\.{OLD[name]}\.{name};") as caught:
        value = getattr(privledger, name)
    assert value is getattr(getattr(privledger, OLD[name]), name)
    assert caught[0].filename == __file__  # whoever wrote it, not the package
    assert name not in privledger.__all__


def test_an_old_name_is_imported_with_a_warning():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec("from privledger import OneOf", {})
    assert {warning.category for warning in caught} == {DeprecationWarning}


def test_a_name_that_never_was_is_none():
    with pytest.raises(AttributeError, match="no attribute 'Gausian'"):
        privledger.Gausian  # noqa: B018


def test_nobody_here_uses_an_old_name():
    dotted = re.compile(rf"(?<![\w./])(?:pl|privledger)\.({'|'.join(OLD)})\b(?!\.(?:py|md)\b)")
    listed = re.compile(r"^\s*from privledger import (\([^)]*\)|[^\n]+)", re.MULTILINE)
    found = []
    for path in WRITTEN:
        text = path.read_text(encoding="utf-8")
        used = dotted.findall(text) + [name for names in listed.findall(text)
                                       for name in re.findall(r"\w+", names) if name in OLD]
        found += [f"{path.relative_to(ROOT)}: {name}" for name in used]
    assert not found


def test_every_exception_of_the_tree_is_under_errors():
    from privledger import errors

    tree = {name for name, value in vars(errors).items()
            if inspect.isclass(value) and issubclass(value, errors.PrivledgerError)}
    drawn = set(re.findall(r"^\s*[│├└─ ]*([A-Z]\w+) ", errors.__doc__, re.MULTILINE))
    assert tree - {"PrivledgerError"} <= drawn
    assert tree == set(errors.__all__)


def test_star_import_gives_what_all_says():
    scope = {}
    exec("from privledger import *", scope)
    assert set(privledger.__all__) <= set(scope)


def test_the_bare_import_loads_nothing():
    code = ("import sys; before = set(sys.modules); import privledger; "
            "print(sorted(m for m in set(sys.modules) - before if m.split('.')[0] in "
            "('privledger', 'numpy', 'scipy', 'attr', 'networkx', 'ast')))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['privledger']"


def test_public_names_have_a_docstring():
    bare = []
    for home, name in DOCUMENTED:
        value = getattr(home, name)
        doc = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        if not doc or doc.startswith("Method generated by attrs"):
            bare.append(f"{home.__name__}.{name}")
    assert len(DOCUMENTED) > 100 and not bare


DEEP = ("Ledger", "LedgerHandle", "Session", "Dataset", "Schema", "Partition")
SELF_EVIDENT = {"Ledger.budget", "Ledger.relation", "Ledger.mode", "Ledger.path", "Ledger.receipt",
                "Session.grant", "Dataset.chain", "Schema.features", "Schema.target",
                "Schema.feature_index"}


def _methods():
    for name in DEEP:
        for method, value in vars(getattr(privledger, name)).items():
            shown = inspect.isfunction(value) or isinstance(value, property | staticmethod)
            if shown and not method.startswith("_") and f"{name}.{method}" not in SELF_EVIDENT:
                yield f"{name}.{method}", value


def test_methods_of_public_classes_are_documented():
    targets = {name: value.fget if isinstance(value, property)
               else getattr(value, "__func__", value) for name, value in _methods()}
    assert not [name for name, target in targets.items()
                if not target.__doc__ and target.__name__ != "task"]
