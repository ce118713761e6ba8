"""One fault at a time in the living process: a line replaced, and put back.

The module is compiled again with the line replaced. Functions that differ get their new code in
place, so that whoever holds one has the fault, too; constants of modules and defaults of fields
are set. Prices that were remembered are forgotten, before and after.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CellType, CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, Literal

import attrs
import privledger_learners
from attrs import define, field, frozen

import privledger

Tool = Literal["lockstep", "noise law", "guessing", "kit"]
TOOLS: tuple[Tool, ...] = ("lockstep", "noise law", "guessing", "kit")
# Where they are imported from, installed or not.
ROOTS = tuple(Path(package.__file__ or "").parent for package in (privledger, privledger_learners))
_OURS = tuple(str(root) for root in ROOTS)


@frozen
class Fault:
    """A line that could have been written, and breaks a promise.

    Attributes:
        name: of words with hyphens. family: what kind of mistake it is.
        file: from the folder that both packages are in: `privledger/...`.
        old, new: text of a line, or of a few; `old` occurs once in the file.
        learner: name of one in `suspects.SUSPECTS` that runs the line.
        seen_by: the tools that should notice.
        breaks: why it breaks privacy, the accounting, or a rule, in one sentence.
    """

    name: str
    family: str
    file: str
    old: str
    new: str
    learner: str
    seen_by: tuple[Tool, ...]
    breaks: str

    @property
    def path(self) -> Path:
        """Of the file."""
        package, rest = self.file.split("/", 1)
        return next(root for root in ROOTS if root.name == package) / rest

    @property
    def module(self) -> ModuleType:
        """What the file makes."""
        return importlib.import_module(self.file.removesuffix(".py").replace("/", "."))

    def patched(self) -> tuple[str, str]:
        """Text of the file without and with the fault."""
        text = self.path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {text.count(self.old)} places in {self.file}")
        return text, text.replace(self.old, self.new)


def functions_in(code: CodeType) -> Iterator[CodeType]:
    """Codes of the functions of a module and of its classes; not those inside of others."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            if one.co_flags & 0x1 or one.co_name.startswith("<"):  # CO_OPTIMIZED: a function
                yield one
            else:
                yield from functions_in(one)


def changed(fault: Fault) -> list[tuple[CodeType, CodeType]]:
    """Codes of the functions that differ, without and with the fault."""
    before, after = fault.patched()
    file = str(fault.module.__file__)
    codes = [list(functions_in(compile(text, file, "exec", dont_inherit=True)))
             for text in (before, after)]
    if [one.co_qualname for one in codes[0]] != [one.co_qualname for one in codes[1]]:
        raise ValueError(f"{fault.name}: other functions than before")
    return [(one, other) for one, other in zip(*codes, strict=True) if _differ(one, other)]


def _differ(one: CodeType, other: CodeType) -> bool:
    """Whether they do something else. Lines of a file that moved are nothing else."""
    if one.co_code != other.co_code or one.co_names != other.co_names or (
            len(one.co_consts) != len(other.co_consts)):
        return True
    return any(_differ(a, b) if isinstance(a, CodeType) and isinstance(b, CodeType)
               else repr(a) != repr(b)  # 0.0 and False are equal, and not the same
               for a, b in zip(one.co_consts, other.co_consts, strict=True))


Code = tuple[str, str, int]
"""Where a function is from: its file, its qualified name, its first line."""


@define
class _Known:
    """Functions and caches of this process: looked for again when modules were imported since."""

    modules: int = 0
    functions: dict[Code, list[FunctionType]] = field(factory=dict)
    caches: list[Any] = field(factory=list)

    def fresh(self) -> _Known:
        """This, brought up to date."""
        if self.modules != len(sys.modules):
            self.functions, self.caches = {}, []
            for one in _reached():
                if type(one) is FunctionType and one.__code__.co_filename.startswith(_OURS):
                    self.functions.setdefault(_place(one.__code__), []).append(one)
                elif type(one) is functools._lru_cache_wrapper:
                    self.caches.append(one)
            self.modules = len(sys.modules)
        return self


_HOLDERS = (FunctionType, CellType, functools._lru_cache_wrapper, property, classmethod,
            staticmethod, functools.partial, functools.cached_property, dict, list, tuple,
            MappingProxyType)


def _reached() -> Iterator[Any]:
    """What modules of the two packages hold: functions, classes, and what these hold."""
    waiting: list[Any] = [vars(module) for name, module in list(sys.modules.items())
                          if name.partition(".")[0] in ("privledger", "privledger_learners")]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        kind = one if isinstance(one, type) else type(one)  # a class, or a row of a table
        ours = isinstance(one, _HOLDERS) or (kind.__module__.startswith("privledger") and (
            kind is one or kind.__name__.endswith("Row")))
        if not ours or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, FunctionType):  # not its globals, which are the module's
            waiting += [*(one.__closure__ or ()), *vars(one).values()]
        else:
            waiting += gc.get_referents(one)


def _place(code: CodeType) -> Code:
    return code.co_filename, code.co_qualname, code.co_firstlineno


_known = _Known()


def functions_of(fault: Fault, code: CodeType) -> list[FunctionType]:
    """Every function of this process that has the code of a function of the fault's file."""
    assert fault.module  # it must be imported before it can be changed
    return _known.fresh().functions.get(_place(code), [])


def forget() -> None:
    """Every cached result of the two packages: it was computed by the other code."""
    for one in _known.fresh().caches:
        one.cache_clear()


@contextmanager
def applied(fault: Fault) -> Iterator[None]:
    """The process with the fault in it."""
    undo = [*_swap_functions(fault), *_set_values(fault)]
    if not undo:
        raise ValueError(f"{fault.name}: nothing would change")
    forget()
    try:
        yield
    finally:
        for step in reversed(undo):
            step()
        forget()


def _swap_functions(fault: Fault) -> list[Callable[[], None]]:
    undo: list[Callable[[], None]] = []
    for before, after in changed(fault):
        found = functions_of(fault, before)
        if not found:
            raise ValueError(f"{fault.name}: nobody runs {before.co_qualname}")
        for one in found:
            undo.append(functools.partial(setattr, one, "__code__", one.__code__))
            one.__code__ = after.replace(co_filename=one.__code__.co_filename)
    return undo


def _set_values(fault: Fault) -> list[Callable[[], None]]:
    """Constants of the module, wherever they are known; defaults of fields and of classes."""
    before, after = (ast.parse(text).body for text in fault.patched())
    undo: list[Callable[[], None]] = []
    for one, other in zip(before, after, strict=True):
        if ast.dump(one) == ast.dump(other):
            continue
        if isinstance(other, ast.Assign):
            undo += _set_constant(fault.module, other)
        elif isinstance(one, ast.ClassDef) and isinstance(other, ast.ClassDef):
            holder = getattr(fault.module, one.name)
            for first, second in zip(one.body, other.body, strict=True):
                if isinstance(second, ast.AnnAssign) and ast.dump(first) != ast.dump(second):
                    undo.append(_set_default(fault.module, holder, second))
    return undo


def _set_constant(module: ModuleType, line: ast.Assign) -> list[Callable[[], None]]:
    (target,) = line.targets
    assert isinstance(target, ast.Name)
    old, new = getattr(module, target.id), _value(module, line.value)
    holders = [one for name, one in list(sys.modules.items()) if name.startswith("privledger")
               and vars(one).get(target.id) is old]
    for holder in holders:
        setattr(holder, target.id, new)
    return [functools.partial(setattr, holder, target.id, old) for holder in holders]


def _set_default(module: ModuleType, holder: Any, line: ast.AnnAssign) -> Callable[[], None]:
    """The default of a field that no argument sets: attrs looks it up for every new object."""
    assert isinstance(line.target, ast.Name) and isinstance(line.value, ast.Call)
    field = getattr(attrs.fields(holder), line.target.id)
    assert not field.init
    new = next(_value(module, one.value) for one in line.value.keywords if one.arg == "default")
    old = field.default
    object.__setattr__(field, "default", new)
    return functools.partial(object.__setattr__, field, "default", old)


def _value(module: ModuleType, node: ast.expr) -> Any:
    return eval(compile(ast.Expression(node), str(module.__file__), "eval"), vars(module))
