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
from typing import Any

import attrs
from attrs import frozen

from privledger.errors import NotGranted, UnsupportedNode
from privledger.facts.schema import Column, Schema
from privledger.facts.values import is_plain, refuse
from privledger.graph import Node
from privledger.graph.nodes import LEAF_TYPES
from privledger.guard.vault import Seal, Vault, _vault_of
from privledger.questions import closed_set
from privledger.questions.derivation import Derivation
from privledger.questions.score import Score

# A function is an unverified claim, recorded as asserted; updates are copied one by one.
_NOT_PLAIN = ("data", "function", "_updates")


def own_leaf(mechanism: Any) -> Any:
    """A mechanism of the guard's own, equal to `mechanism`; its record checks itself again.

    Raises:
        InvalidValue: a field that can never be right, as after a change behind its back.
    """
    if type(mechanism) not in LEAF_TYPES:
        return mechanism  # whoever samples from it refuses it by its exact type
    copy: Node = attrs.evolve(mechanism)
    if not is_plain(copy):
        raise UnsupportedNode(f"a {type(mechanism).__name__} of somebody's own numbers; nothing "
                              "was read")
    return copy


def own_question(question: Any, vault: Vault) -> Any:
    """The same question in objects of the guard's own.

    Raises:
        UnsupportedNode: a part of it is of an unknown kind. NotGranted: of other data.
    """
    if type(question) not in closed_set.QUESTIONS:
        refuse(question)
    copy = _plain(Copies(vault), question)
    if type(copy.what) is not str:
        refuse(copy.what)
    return copy


def own_schema(schema: Schema) -> Schema:
    """A schema that nobody else holds."""
    if type(schema) is not Schema or any(type(column) is not Column for column in schema.columns):
        refuse(schema)
    columns = [Column(*(getattr(column, one.name) for one in attrs.fields(Column)))
               for column in schema.columns]
    if not all(is_plain(column) for column in columns) or type(schema.name) is not str:
        refuse(schema)
    return Schema(schema.name, columns, schema.public_rows, schema.array_layout,
                  schema.expected_rows, schema.expected_rows_provenance, schema.unit,
                  schema.person, schema.public_people, schema.most_records,
                  schema.most_records_provenance)


def remember(vault: Vault, schema: Schema) -> None:
    """Let `schema`, which the handles show, stand for the vault's own copy of it."""
    vault.copies[id(schema)] = weakref.ref(schema), vault.schema


def forget_dead(vault: Vault) -> None:
    """Drop the copies of what nobody holds any more."""
    for place, (original, _) in list(vault.copies.items()):
        if original() is None:
            vault.copies.pop(place, None)


@frozen
class Copies:
    """Copies for one vault; a `Copier`. Never leaves the guard.

    Attributes:
        vault: whose rows they will be asked of; it keeps the copies of shared objects.
    """

    vault: Vault

    def shared(self, what: Any, kind: type) -> Any:
        if type(what) is not kind:
            refuse(what)
        copy = self.known(what)
        if copy is None:
            copy = self.keep(what, _plain(self, what))
        self._follow(what, copy)
        return copy

    def cells(self, what: Any) -> Any:
        return self.shared(what, _one_of(what, closed_set.CELLS))

    def part(self, what: Any, kind: type) -> Any:
        if type(what) is not kind:
            refuse(what)
        return _plain(self, what)

    def block(self, what: Any) -> Any:
        return self.part(what, _one_of(what, closed_set.BLOCKS))

    def derivation(self, data: Any) -> Derivation:
        """As `Copier.derivation`.

        Raises:
            NotGranted: of other data than the grant covers.
        """
        if type(data) is not Derivation:
            refuse(data)
        if type(data.seal) is not Seal or _vault_of(data.seal) is not self.vault:
            raise NotGranted("the query asks other data than the grant covers; nothing was read")
        return data.own(self)

    def known(self, what: Any) -> Any:
        found = self.vault.copies.get(id(what))
        return None if found is None or found[0]() is not what else found[1]

    def keep(self, what: Any, copy: Any) -> Any:
        fresh = weakref.ref(what), copy
        known = self.vault.copies.setdefault(id(what), fresh)
        if known[0]() is not what:  # of one that is gone
            known = self.vault.copies[id(what)] = fresh
        return known[1]

    def _follow(self, what: Any, copy: Any) -> None:
        """Bring the scores below up to date: they alone may grow."""
        if type(what) is Score:
            for cells, values in what.updates(len(copy.updates())):
                copy.add(self.shared(cells, _one_of(cells, closed_set.MOVES)), values)
            return
        for inner in getattr(what, "below", ()):
            self.shared(inner, _one_of(inner, (*closed_set.CELLS, Score)))


def _plain(to: Copies, what: Any) -> Any:
    """A copy by the class's own word, of plain values and copies only."""
    copy = own_schema(what) if type(what) is Schema else type(what).own(what, to)
    if type(copy) is not type(what) or not is_plain(copy, *_NOT_PLAIN, own=closed_set.PARTS):
        refuse(what)
    return copy


def _one_of(what: Any, kinds: tuple[type, ...]) -> type:
    if type(what) not in kinds:
        refuse(what)
    return type(what)
