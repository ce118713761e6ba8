"""The rooms of the package: how large they are, what imports what; a table and a drawing of them.

    python -m tests.rooms           # how many lines of code each room has
    python -m tests.rooms --write   # make docs/figures/rooms.svg and docs/architecture.md anew
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

import networkx as nx

from tests import house

ROOT = house.ROOTS[0]
DOCS = Path(__file__).parents[1] / "docs"
FIGURE, PAGE = DOCS / "figures" / "rooms.svg", DOCS / "architecture.md"
_BEGIN, _END = "<!-- made by tests.rooms -->\n", "<!-- end -->\n"


def room_of(path: Path) -> str:
    """The folder or file of a module at the top of the package; "" for the package itself."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py").replace("__init__", "")


def code_lines(text: str, tree: ast.Module) -> int:
    """Lines that are neither blank, comment, docstring nor import."""
    kinds = ["code"] * len(text.splitlines())
    for node in ast.walk(tree):
        lines = range(0)
        if isinstance(node, ast.Import | ast.ImportFrom):
            lines = range(node.lineno - 1, node.end_lineno or node.lineno)
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and (
                    isinstance(first.value.value, str)):
                lines = range(first.lineno - 1, first.end_lineno or first.lineno)
        for line in lines:
            kinds[line] = "other"
    return sum(kind == "code" and bool(line.strip()) and not line.strip().startswith("#")
               for kind, line in zip(kinds, text.splitlines(), strict=True))


@cache
def sizes() -> dict[str, tuple[int, int]]:
    """Room -> (files, code lines)."""
    found: dict[str, tuple[int, int]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        files, lines = found.get(room_of(path), (0, 0))
        found[room_of(path)] = files + 1, lines + code_lines(
            path.read_text(encoding="utf-8"), house.tree(house.NAMES[path]))
    return found


def graph() -> nx.DiGraph:
    """An arrow from each room to each that it imports from; only what nothing else implies."""
    rooms = nx.DiGraph()
    for name, path in house.OURS.items():
        if not path.is_relative_to(ROOT) or not room_of(path):
            continue
        own = room_of(path)
        rooms.add_node(own)
        for other in house.needs(name):
            target = house.FILES[other]
            if target.is_relative_to(ROOT) and room_of(target) not in ("", own):
                rooms.add_edge(own, room_of(target))
    return nx.transitive_reduction(rooms)


def drawing() -> str:
    """Rooms as boxes, the lowest at the bottom; a line goes down to what a room imports."""
    rooms, places = graph(), {}
    levels = list(nx.topological_generations(rooms.reverse()))
    for height, level in enumerate(levels):
        for column, name in enumerate(sorted(level)):
            x = (column + 0.5) * 960 / len(level)
            places[name] = x, 40 + 62 * (len(levels) - 1 - height)
    lines = [f'<line x1="{places[a][0]:.0f}" y1="{places[a][1] + 16}" x2="{places[b][0]:.0f}" '
             f'y2="{places[b][1] - 16}"/>' for a, b in sorted(rooms.edges)]
    boxes = []
    for name, (x, y) in sorted(places.items()):
        count = sizes()[name][1]
        boxes += [f'<rect x="{x - 54:.0f}" y="{y - 16}" width="108" height="32" rx="5"/>',
                  f'<text x="{x:.0f}" y="{y - 1}">{escape(name)}</text>',
                  f'<text x="{x:.0f}" y="{y + 11}" font-size="9">{round(count, -2)} lines</text>']
    tall = 62 * len(levels) + 20
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 {tall}" role="img" '
        'font-family="sans-serif" font-size="12" fill="#333">',
        "<title>The rooms of privledger; a line leads down to a room that is imported</title>",
        f'<rect width="960" height="{tall}" fill="#fff"/>',
        '<g stroke="#9ab" stroke-width="1">', *lines, "</g>",
        '<g fill="#eef4fa" stroke="#357" text-anchor="middle">',
        *(box.replace("<text", '<text fill="#222" stroke="none"') for box in boxes),
        "</g>", "</svg>", ""])


def table() -> str:
    """Rooms in the order of the layers, with what the first line of each says."""
    rows = []
    for name in reversed(list(nx.topological_sort(graph()))):
        path = ROOT / name / "__init__.py"
        path = path if path.is_file() else ROOT / f"{name}.py"
        text = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()
        files, lines = sizes()[name]
        rows.append(f"| `{name}` | {files} | {round(lines, -2)} | {text[0] if text else ''} |")
    return "\n".join(["| room | files | code lines | what it is |", "|---|---|---|---|", *rows, ""])


def page(text: str) -> str:
    """The page with its table made anew."""
    before, rest = text.split(_BEGIN)
    return before + _BEGIN + table() + _END + rest.split(_END)[1]


if __name__ == "__main__":
    if "--write" in sys.argv:
        FIGURE.write_text(drawing(), encoding="utf-8")
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for room, (files, lines) in sorted(sizes().items(), key=lambda one: -one[1][1]):
        print(f"{room or '(package)':14s} {files:4d} files {lines:6d} lines of code")
    print(f"{'in all':14s} {sum(f for f, _ in sizes().values()):4d} files "
          f"{sum(n for _, n in sizes().values()):6d} lines of code")
