"""The guard's own copy of what a learner describes: made once, by this package's constructors.

A description belongs to the learner, who may change it at any time: between the check and the
reading, from another thread, or from a custom function in the middle of a release. So nothing of
it is checked, priced or computed with. Everything is copied first, by exact type, which checks
every field anew; what follows sees the copy only, and the copy leaves the guard never.

Shared objects (cells, bins, scores) get one copy each for one vault, however often they are asked
about: caches, coins and parts hang on their identity. A change of the original afterwards
changes nothing; a score alone goes on, because its updates are added at the end.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import define, field

from privledger.errors import NotGranted, UnsupportedNode
from privledger.graph import Correlated, Node, from_json, to_json
from privledger.graph.nodes import LEAF_TYPES
from privledger.guard.vault import Seal, Vault, _vault_of
from privledger.questions import closed_set
from privledger.questions.closed_set import PLAIN, WireField, parts_of
from privledger.questions.question import CHANGED, Derivation, Step, own_context
from privledger.questions.score import Score
from privledger.tables.columns import own_schema
from privledger.tables.schema import Schema
from privledger.tables.values import is_plain, is_plain_value, refuse

_MOST_BLOCKS = 1000
_DEEPEST = 24  # more than any tree that may be grown, in cells of cells, in a question


def own_leaf(mechanism: Any) -> Any:
    """A mechanism of the guard's own, equal to `mechanism`; its record checks itself again.

    Raises:
        InvalidValue: a field that can never be right, as after a change behind its back.
    """
    if type(mechanism) is Correlated:
        return from_json(to_json(mechanism))
    if type(mechanism) not in LEAF_TYPES:
        return mechanism  # the sampler refuses it by its exact type
    copy: Node = type(mechanism)(**{one.alias: getattr(mechanism, one.name)  # each is read once
                                    for one in type(mechanism).__attrs_attrs__ if one.init})
    if not is_plain(copy):
        raise UnsupportedNode(f"a {type(mechanism).__name__} with numbers that are not the "
                              "guard's. Nothing was read")
    return copy


def own_question(question: Any, vault: Vault) -> Any:
    """The same question in objects of the guard's own.

    Raises:
        UnsupportedNode: a part of it is of an unknown kind. NotGranted: of other data.
    """
    copy = Copies(vault).owned(question, closed_set.QUESTIONS)
    return copy if type(copy.what) is str else refuse(copy.what)


def remember_schema(vault: Vault, schema: Schema) -> None:
    """Let `schema`, which the handles show, stand for the vault's own copy of it."""
    vault.copies[id(schema)] = weakref.ref(schema), vault.schema


def forget_dead(vault: Vault) -> None:
    """Drop the copies of what is no longer referred to."""
    for place, (original, _) in list(vault.copies.items()):
        if original() is None:
            vault.copies.pop(place, None)
    vault.blocks.clear()


@define(eq=False)
class Copies:
    """Copies of one question for one vault. Never leaves the guard.

    Every object is built by the constructor of its exact type, from fields that were checked
    first: no value of a strange type, and no array that a caller holds, reaches it.

    Attributes:
        vault: whose rows they will be asked of; it keeps the copies of shared objects.
    """

    vault: Vault
    _deep: int = field(default=0, init=False)

    def shared(self, what: Any, kinds: tuple[type, ...]) -> Any:
        """The copy of an object of one of these kinds; the same one every time."""
        if type(what) not in kinds or self._deep > _DEEPEST:
            refuse(what)
        known = self.vault.copies.get(id(what))
        copy = known[1] if known is not None and known[0]() is what else self._keep(
            what, self.owned(what, kinds))
        if type(copy) not in kinds:  # what was of another kind when it was copied
            refuse(what)
        if type(copy) is Score:  # scores alone may grow
            for cells, values in what.updates(len(copy.updates())):
                copy.add(self.shared(cells, closed_set.MOVES), values)
        else:
            self._deep += 1
            for inner in getattr(what, "below", ()):
                self.shared(inner, (*closed_set.CELLS, Score))
            self._deep -= 1
        return copy

    def owned(self, what: Any, kinds: tuple[type, ...]) -> Any:
        """A copy of an object that belongs to one question, or that was not copied yet."""
        kind: Any = type(what)
        if kind not in kinds or self._deep > _DEEPEST:
            refuse(what)
        if kind is Schema:
            return own_schema(what)
        self._deep += 1
        values = [self._value(part, part.nested, getattr(what, part.name))
                  for part in parts_of(kind)]
        self._deep -= 1
        return self._block(kind, values) if kind in closed_set.REPEATED else kind(*values)

    def _block(self, kind: Callable[..., object], values: list[object]) -> object:
        """A copy that was made, and checked, of the same values before: fits ask with the same
        blocks again and again. It stands for what was read now, never for whose it was."""
        if any(value == 0 and type(value) is not bool for value in values):  # zeros have signs
            return kind(*values)
        key = (kind, *map(type, values), *values)
        known = self.vault.blocks.get(key)
        if known is None:
            if len(self.vault.blocks) > _MOST_BLOCKS:
                self.vault.blocks.clear()
            known = self.vault.blocks[key] = kind(*values)
        return known

    def _value(self, part: WireField, nested: int, value: Any) -> Any:
        if nested:
            if type(value) is not tuple:
                refuse(value)
            return tuple(self._value(part, nested - 1, one) for one in value)
        word = part.word
        if word in PLAIN:
            return value if is_plain_value(value) else refuse(value)
        if word == "handle":
            return self._derivation(value)
        if value is None and part.optional:
            return None
        if word == "array":
            if type(value) is np.ndarray and value.dtype.kind in "biuf":
                return value.copy()  # before it is checked: it does not change between
            return value if part.sliced and type(value) is slice else refuse(value)
        if word == "function":
            return value  # an unverified claim, recorded as asserted
        return self.owned(value, part.kinds) if word == "owned" else self.shared(value, part.kinds)

    def _derivation(self, data: Any) -> Derivation:
        """Of the guarded table's own.

        Raises:
            NotGranted: of other data than the grant covers, or not as it was derived.
        """
        if type(data) is not Derivation:
            refuse(data)
        seal, steps = data.seal, data.steps  # each field is read once: it may change meanwhile
        if type(seal) is not Seal or _vault_of(seal) is not self.vault:
            raise NotGranted("the query is about other data than the grant covers. Nothing was "
                             "read")
        if type(steps) is not tuple or any(type(step) is not Step for step in steps):
            raise NotGranted(CHANGED)
        return Derivation(self.shared(data.schema, (Schema,)), seal,
                          tuple(self._step(step.context, step.cells) for step in steps))

    def _step(self, context: Any, cells: Any) -> Step:
        return Step(own_context(context),
                    None if cells is None else self.shared(cells, closed_set.CELLS))

    def _keep(self, what: Any, copy: Any) -> Any:
        """Let `copy` stand for `what`, unless another thread was first."""
        fresh = weakref.ref(what), copy
        known = self.vault.copies.setdefault(id(what), fresh)
        if known[0]() is not what:  # of one that is gone
            known = self.vault.copies[id(what)] = fresh
        return known[1]
