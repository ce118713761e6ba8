"""Put the files of this folder into one: `python -m privledger.standalone.build > one.py`."""

from __future__ import annotations

import ast
from pathlib import Path

PARTS = ("reading", "shapes", "closed_forms", "leaves", "amounts", "steps", "distributions",
         "prices", "dues", "meter", "vectors", "book", "verifier")
END = '''

if __name__ == "__main__":
    sys.exit(main())
'''


def one_file() -> str:
    """The text of `verify_history.py`."""
    here = Path(__file__).resolve().parent
    texts = {part: (here / f"{part}.py").read_text(encoding="utf-8") for part in PARTS}
    usage = ast.get_docstring(ast.parse(texts["verifier"]), clean=False)
    imports: set[str] = {"import sys"}  # for the last line
    bodies = [_body(part, text, imports) for part, text in texts.items()]
    head = (f'#!/usr/bin/env python3\n"""{usage}\nMade of several files by '
            'privledger/standalone/build.py: change those.\n"""\n\n'
            "# ruff: noqa\n\nfrom __future__ import annotations\n\n")
    return head + "\n".join(sorted(imports)) + "\n" + "".join(bodies) + END


def _body(part: str, text: str, imports: set[str]) -> str:
    """A part without its docstring and imports; those of the library are collected."""
    lines = text.splitlines()
    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            ours = isinstance(node, ast.ImportFrom) and (node.level or node.module == "__future__")
            if not ours:
                imports.add("\n".join(lines[node.lineno - 1:node.end_lineno]).split("  #")[0])
            lines[node.lineno - 1:node.end_lineno] = [""] * (
                (node.end_lineno or node.lineno) - node.lineno + 1)
    document = tree.body[0]
    words = (ast.get_docstring(tree) or part).splitlines()
    rest = "\n".join(lines[document.end_lineno:]).strip("\n")
    title = "\n".join(f"# {line}".rstrip() for line in words) if part != "verifier" else "# Reports"
    return f"\n\n# {'-' * 95}\n{title}\n# {'-' * 95}\n\n\n{rest}\n"


if __name__ == "__main__":
    print(one_file(), end="")
