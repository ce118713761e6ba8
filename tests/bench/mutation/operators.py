"""What a mutant changes: one place of one file, as text, so that all other lines stay the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from attrs import frozen

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
              ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.FloorDiv}
CALLS = {"max": "min", "min": "max", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}


@frozen
class Place:
    """One change: the text between two offsets of a file becomes another."""

    line: int  # from 1
    start: int  # characters from the beginning of the file
    end: int
    text: str
    what: str  # the operator, and what it does here

    def apply(self, source: str) -> str:
        return source[:self.start] + self.text + source[self.end:]


def places(source: str) -> list[Place]:
    """Every change there is, in the order of the file; each leaves a file that parses."""
    offsets, found = _offsets(source), []
    for node in _walked(ast.parse(source)):
        for new, what in _changes(node):
            # Columns are in bytes of UTF-8.
            start, end = (_character(source, offsets[line - 1], column) for line, column in (
                (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)))
            found.append(Place(node.lineno, start, end, _written(node, new), what))
    return sorted(found, key=lambda place: (place.start, place.end, place.what))


def _offsets(source: str) -> list[int]:
    found = [0]
    for line in source.split("\n"):
        found.append(found[-1] + len(line) + 1)
    return found


def _character(source: str, line_start: int, column: int) -> int:
    stop = source.find("\n", line_start)
    line = source[line_start:] if stop < 0 else source[line_start:stop]
    return line_start + len(line.encode()[:column].decode())


def _written(node: ast.AST, new: ast.AST) -> str:
    text = ast.unparse(new)
    return f"({text})" if isinstance(node, ast.expr) else text


def _walked(tree: ast.Module) -> Iterator[ast.AST]:
    """Nodes that run: no annotations, no docstrings, nothing only a type checker reads."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name, field in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_params") or isinstance(node, ast.JoinedStr):
                continue
            children = field if isinstance(field, list) else [field]
            waiting += [child for child in children
                        if isinstance(child, ast.AST) and not _for_checkers(child)]


def _for_checkers(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]).startswith("__")
    return isinstance(node, (ast.Import, ast.ImportFrom)) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _changes(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """What may become of a node."""
    for kind, change in OPERATORS.items():
        if isinstance(node, kind):
            yield from change(node)


def _compare(node: ast.Compare):
    for index, operator in enumerate(node.ops):
        other = COMPARISONS[type(operator)]()
        operators = [*node.ops[:index], other, *node.ops[index + 1:]]
        yield (ast.Compare(node.left, operators, node.comparators),
               f"comparison: {type(operator).__name__} -> {type(other).__name__}")


def _binary(node: ast.BinOp):
    other = ARITHMETIC.get(type(node.op))
    if other is not None and not _is_text(node.left) and not _is_text(node.right):
        yield (ast.BinOp(node.left, other(), node.right),
               f"arithmetic: {type(node.op).__name__} -> {other.__name__}")


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str))


def _changed_in_place(node: ast.AugAssign):
    other = ARITHMETIC.get(type(node.op))
    if other is not None:
        yield (ast.AugAssign(node.target, other(), node.value),
               f"arithmetic: {type(node.op).__name__}= -> {other.__name__}=")


def _constant(node: ast.Constant):
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value), f"constant: {node.value} -> {not node.value}"
    elif isinstance(node.value, (int, float)):
        other = node.value + 1 if abs(node.value) < 2**50 else node.value * 2
        yield ast.Constant(other), f"constant: {node.value} -> {other}"


def _boolean(node: ast.BoolOp):
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield (ast.BoolOp(other, node.values),
           f"logic: {type(node.op).__name__} -> {type(other).__name__}")


def _negation(node: ast.UnaryOp):
    if isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand, f"drop: {type(node.op).__name__}"


def _conditional(node: ast.IfExp):
    yield ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse), "condition: turned"


def _returned(node: ast.Return):
    if node.value is not None and ast.unparse(node.value) != "None":
        yield ast.Return(ast.Constant(None)), "return: None"


def _raised(node: ast.Raise):
    yield ast.Pass(), "drop: raise"


def _statement(node: ast.Expr):
    if isinstance(node.value, ast.Call):
        yield ast.Pass(), "drop: call"


def _call(node: ast.Call):
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in CALLS:
        new = (ast.Attribute(node.func.value, CALLS[name])
               if isinstance(node.func, ast.Attribute) else ast.Name(CALLS[name]))
        yield ast.Call(new, node.args, node.keywords), f"call: {name} -> {CALLS[name]}"


OPERATORS = {
    ast.Compare: _compare, ast.BinOp: _binary, ast.AugAssign: _changed_in_place,
    ast.Constant: _constant, ast.BoolOp: _boolean, ast.UnaryOp: _negation,
    ast.IfExp: _conditional, ast.Return: _returned, ast.Raise: _raised, ast.Expr: _statement,
    ast.Call: _call}
