"""Checks of a learner's own source: no samplers, no insides of privledger. Nothing is run.

A scan reads names; a hidden name passes it. The other checks look at what happens.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from privledger.testing.examples import Example
from privledger.testing.fitting import fail

SAMPLER, NAMES = "no-sampler-of-its-own", "public-names-only"

# Draws that noise is made of. A seeded generator may still make public choices: `integers`,
# `choice`, `permutation`, `random`, `uniform` of numpy's Generator.
NOISE = frozenset({
    "laplace", "normal", "gauss", "normalvariate", "standard_normal", "multivariate_normal",
    "gumbel", "exponential", "standard_exponential", "expovariate", "logistic", "geometric",
    "poisson", "binomial", "negative_binomial", "gamma", "standard_gamma", "gammavariate",
    "standard_t", "standard_cauchy", "lognormal", "lognormvariate", "rvs", "triangular", "vonmises",
    "randn", "betavariate", "weibull", "pareto",
})
_SEEDED = frozenset({"default_rng", "Generator", "SeedSequence", "BitGenerator", "PCG64"})
_GENERATORS = frozenset({"rng", "random", "generator", "random_state", "prng", "rand", "gen"})
_INSIDES = frozenset({"_vault", "_history", "_source", "_meter", "_spends", "_state", "_touched",
                      "_log", "_request", "_filters", "_samples", "_Vault__rows"})
_OTHERS = frozenset({"privledger", "sklearn", "builtins", "abc", "typing"})
Look = Callable[[ast.Module], Iterator[tuple[int, str]]]
FACES = frozenset({"errors", "nodes", "plugins", "questions", "testing"})  # modules to import from


def modules_of(learner: Any) -> tuple[ModuleType, ...]:
    """The modules of the learner's classes, and what they import from their own package."""
    kind = learner if inspect.isclass(learner) else type(learner)
    queue = [base.__module__ for base in kind.__mro__
             if base.__module__.partition(".")[0] not in _OTHERS]
    found: dict[str, ModuleType] = {}
    while queue:
        name = queue.pop()
        module = sys.modules.get(name)
        if name in found or module is None or getattr(module, "__file__", None) is None:
            continue
        found[name] = module
        package = name.partition(".")[0]
        queue += [other for other in _imported(_source_of(module)) if _loaded(other, package)]
    return tuple(found.values())


def _loaded(name: str, package: str) -> bool:
    """Whether `name` is a module of `package`; it is imported to find out."""
    if name.partition(".")[0] != package or package == "__main__":
        return False
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _source_of(module: ModuleType) -> str:
    """The module's source, as its file is now."""
    return Path(str(module.__file__)).read_text(encoding="utf-8")


@lru_cache(maxsize=1024)  # learners share modules; what a source says depends on its text alone
def _imported(source: str) -> tuple[str, ...]:
    """Dotted names of every import; `from a import b` gives a and a.b."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(found)


@lru_cache(maxsize=1024)  # of what is offered, too: the names of a process do not change
def _seen(look: Look, source: str) -> tuple[tuple[int, str], ...]:
    """Everything that `look` finds in a source: lines and names."""
    return tuple(look(ast.parse(source)))


def _dotted(node: ast.AST) -> tuple[str, ...]:
    """`a.b.c` as ("a", "b", "c"); calls and subscripts in between are left out."""
    if isinstance(node, ast.Attribute):
        return (*_dotted(node.value), node.attr)
    if isinstance(node, ast.Call):
        return _dotted(node.func)
    return (node.id,) if isinstance(node, ast.Name) else ()


def samplers_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of everything that looks like a draw of noise."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if _is_sampler((*(node.module or "").split("."), alias.name)):
                    yield node.lineno, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Attribute) and _is_sampler(_dotted(node)):
            yield node.lineno, ".".join(_dotted(node))


def _is_sampler(path: tuple[str, ...]) -> bool:
    last, before = path[-1], path[:-1]
    if last == "rvs":
        return True
    if before[:1] == ("secrets",) or path == ("os", "urandom"):
        return True
    if before in (("np", "random"), ("numpy", "random")):
        return last not in _SEEDED  # the global generator, whatever it draws
    if before == ("random",):
        return last[:1].islower()  # Python's own; its classes are caught where they draw
    named = any(part.lstrip("_").lower() in _GENERATORS or part in _SEEDED for part in before)
    return named and last in NOISE


def inside_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of every use of what privledger does not offer."""
    # The package itself is there already; importing it here would turn the layers around.
    public = {*sys.modules["privledger"].__all__, "__version__"}
    ours = {"privledger"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                ours |= {alias.asname} if alias.name == "privledger" and alias.asname else set()
                if alias.name.startswith("privledger.") and _face(alias.name) is None:
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = public if node.module == "privledger" else _face(node.module)
            if names is None and node.module.startswith("privledger."):
                yield node.lineno, node.module
            elif names is not None:
                yield from ((node.lineno, alias.name) for alias in node.names
                            if alias.name not in names)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        if node.attr in _INSIDES and _dotted(node.value)[:1] != ("self",):
            yield node.lineno, node.attr
        path = _dotted(node)
        if len(path) == 2 and path[0] in ours and path[1] not in public:
            yield node.lineno, ".".join(path)
        names = _face(f"privledger.{path[1]}") if len(path) == 3 and path[0] in ours else None
        if names is not None and path[2] not in names:
            yield node.lineno, ".".join(path)


def _face(module: str) -> frozenset[str] | None:
    """What one of the public modules offers; None for an inside of the package."""
    if module.removeprefix("privledger.") not in FACES:
        return None
    return frozenset(importlib.import_module(module).__all__)


def _scan(rule: str, learner: Any, look: Look, what: str) -> None:
    modules = modules_of(learner)
    if not modules:
        fail(rule, f"the source of {type(learner).__name__} cannot be read")
    own = _own_lines(learner)
    for module in modules:
        for line, name in _seen(look, _source_of(module)):
            if module.__name__ == "__main__" and line not in own:
                continue  # of the script, which makes its own table
            fail(rule, f"{module.__name__}, line {line}: {name} {what}")


def _own_lines(learner: Any) -> frozenset[int]:
    """Lines of a script that its learner's classes use: themselves, what they name, and whatever
    is set on these. All of them where names are looked up by text."""
    script = sys.modules.get("__main__")
    kinds = (learner if inspect.isclass(learner) else type(learner)).__mro__
    wanted = {kind.__name__ for kind in kinds if kind.__module__ == "__main__"}
    if not wanted or script is None or getattr(script, "__file__", None) is None:
        return frozenset()
    body, used = [one for one in ast.iter_child_nodes(ast.parse(_source_of(script)))
                  if isinstance(one, ast.stmt)], set[int]()
    while True:
        more = {place for place, node in enumerate(body)
                if place not in used and _binds(node) & wanted}
        if not more:
            break
        used |= more
        wanted |= {one.id for place in more for one in ast.walk(body[place])
                   if isinstance(one, ast.Name)}
    nodes = body if wanted & _BY_TEXT else [body[place] for place in sorted(used)]
    return frozenset(line for node in nodes
                     for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))


_BY_TEXT = frozenset({"globals", "vars", "eval", "exec", "getattr", "setattr", "__import__",
                      "importlib", "sys", "inspect"})


def _binds(node: ast.stmt) -> set[str]:
    """Names that a statement of a module makes, or sets something on."""
    found: set[str] = set()
    for one in [node] if isinstance(node, ast.FunctionDef | ast.ClassDef) else ast.walk(node):
        if isinstance(one, ast.FunctionDef | ast.ClassDef):
            found.add(one.name)
        elif isinstance(one, ast.alias):
            found.add((one.asname or one.name).partition(".")[0])
        elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            found.add(one.id)
        elif isinstance(one, ast.Attribute | ast.Subscript) and isinstance(one.ctx, ast.Store):
            found |= {part.id for part in ast.walk(one) if isinstance(part, ast.Name)}
    return found


def check_no_sampler_of_its_own(learner: Any, example: Example | None = None) -> None:
    """The learner's modules draw no noise: that is the ledger's, exact and unseeded."""
    _scan(SAMPLER, learner, samplers_in, "draws noise; noise comes from session.release only")


def check_public_names_only(learner: Any, example: Example | None = None) -> None:
    """The learner's modules use what `privledger` offers, and nothing behind the guard."""
    _scan(NAMES, learner, inside_names, "is not a public name of privledger")
