"""Sphinx settings. Build: `sphinx-build -W -b html docs build/site`; no network is used."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS.parent / "learners")]

import privledger  # noqa: E402

project = "privledger"
author = "the privledger authors"
version = release = privledger.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["examples", "figures"]
html_theme = "furo"
html_title = f"privledger {release}"
html_copy_source = False
html_show_copyright = False

myst_heading_anchors = 4
default_role = "code"  # a name in single backticks is code, in docstrings as in Markdown
highlight_language = "none"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # attributes are listed once, where the docstring explains them
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False

HEADINGS = {
    "privledger.tables": "Schemas",
    "privledger.tables": "Tables",
    "privledger.errors": "Errors",
    "privledger.findings": "Findings",
    "privledger.graph": "Plans, prices and the composition graph",
    "privledger.ledger": "Budgets, caps, policies and receipts",
    "privledger.graph": "Mechanisms",
    "privledger.nodes": "Rarer nodes, and plans as text",
    "privledger.plugins": "Learners as plugins",
    "privledger.questions": "Questions",
    "privledger.guard": "Ledgers and sessions",
    "privledger.testing": "The conformance kit",
    "privledger_learners": "Learners",
}


# scikit-learn writes these into every estimator, with links into its own manual.
SKIPPED = "__init__, set_fit_request, set_score_request, set_predict_request, " \
          "set_partial_fit_request, set_transform_request, set_predict_proba_request"


def _entry(module: str, name: str) -> str:
    """One public name, with its members if it is a class."""
    value = getattr(importlib.import_module(module), name)
    if isinstance(value, type):
        # What a Ledger shares with its handle is in a class of its own, which has no entry.
        more = "   :inherited-members:\n" if name == "Ledger" else ""
        return (f".. autoclass:: {module}.{name}\n   :members:\n{more}"
                f"   :exclude-members: {SKIPPED}\n")
    # Data has no docstring of its own: what help() shows there is its type's.
    kind = "autofunction" if callable(value) else "py:data"
    return f".. {kind}:: {module}.{name}\n"


def _page(heading: str, entries: list[tuple[str, str]]) -> str:
    """The page of a group: `entries` are (module, name)."""
    return "\n".join([heading, "=" * len(heading), "", *(_entry(*entry) for entry in entries)])


def write_reference(app: Any = None) -> None:
    """One page for each group of public names, in docs/reference/ (not kept in git)."""
    folder = DOCS / "reference"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.rst"):
        old.unlink()
    learners = importlib.import_module("privledger_learners")
    pages: dict[str, list[tuple[str, str]]] = {"privledger_learners": [
        ("privledger_learners", name) for name in learners.__all__]}
    for name, home in privledger._HOME_OF.items():
        if home == "privledger":  # a module of names: its own page
            names = importlib.import_module(f"privledger.{name}").__all__
            pages.setdefault(f"privledger.{name}", []).extend(
                (f"privledger.{name}", one) for one in names if one not in privledger.__all__)
        else:
            pages.setdefault(home, []).append(("privledger", name))
    for home, entries in pages.items():
        page = _page(HEADINGS.get(home, home), entries)
        name = home.removeprefix("privledger.").replace("privledger_", "")
        (folder / f"{name}.rst").write_text(page, encoding="utf-8")


# Marks of reStructuredText that are plain text in our docstrings: |x| and names such as model_.
_MARKS = re.compile(r"(`[^`]*`)|(\||\b\w+_\b)")


def plain_marks(app: Any, what: str, name: str, value: Any, options: Any,
                lines: list[str]) -> None:
    """Keep bars and trailing underscores as they are, outside code and examples."""
    for place, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[place] = _MARKS.sub(
                lambda found: found[1] or re.sub(r"([|_])$", r"\\\1", found[2]), line)


def setup(app: Any) -> None:
    # Before napoleon (priority 500), which reads `name: text` as a field.
    app.connect("autodoc-process-docstring", plain_marks, priority=400)
    app.connect("builder-inited", write_reference)
