"""Run a notebook's cells in this process, as a kernel would, and keep what they show.

    python -m tests.touring docs/examples/tour.ipynb      run it, and write the outputs into it
"""

import ast
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

TOUR = Path(__file__).parents[1] / "docs" / "examples" / "tour.ipynb"


def toured(book):
    """The same notebook with the outputs of a fresh run; the first error ends it."""
    names = {"__name__": "__main__"}
    return {**book, "cells": [_run(cell, names, place) if cell["cell_type"] == "code" else cell
                              for place, cell in enumerate(book["cells"])]}


def _run(cell, names, place):
    tree, said, shown = ast.parse(cell["source"]), io.StringIO(), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(said):
        exec(compile(tree, f"cell {place}", "exec"), names)
        if last is not None:
            shown = eval(compile(ast.Expression(last.value), f"cell {place}", "eval"), names)
    outputs = []
    if said.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": said.getvalue()})
    if shown is not None:
        data = {"text/plain": repr(shown)}
        if hasattr(shown, "_repr_html_"):
            data["text/html"] = shown._repr_html_()
        outputs.append({"output_type": "execute_result", "execution_count": None,
                        "metadata": {}, "data": data})
    return {**cell, "outputs": outputs}


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else TOUR
    done = toured(json.loads(where.read_text(encoding="utf-8")))
    where.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
