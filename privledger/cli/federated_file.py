"""A run file of several owners: an ordinary one, and a table [federation]. No data is opened."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve, frozen

from privledger.accounting import check_relation
from privledger.cli.prepared import Prepared, priced
from privledger.errors import InvalidPlan, UnsupportedNode
from privledger.facts.schema import Schema
from privledger.facts.values import Json
from privledger.federation import Run
from privledger.federation.cards import Card, Identity, read_card
from privledger.graph import alone, certify
from privledger.reading import load_toml, path_in
from privledger.rounding import positive
from privledger.runs import RunFile

KEYS = ("name", "address", "coordinator", "owners", "patience", "attempts", "noise", "colluding",
        "least_honest", "owners_per_person")
LABEL = "federated"
"""Label of an owner's grant; its value is the run's digest."""


@frozen
class FederatedFile:
    """What all owners agreed to, read and priced.

    Attributes:
        prepared: the run as one owner alone would have it; the ledger is an owner's own.
        run: what goes into every mask and signature.
        address: where whoever trains listens, host:port.
        coordinator: of whoever trains; it may be an owner.
        cards: of the owners, in the roster's order.
        patience: seconds that one reply may take. attempts: how often a round may be tried.
    """

    prepared: Prepared
    run: Run
    address: str
    coordinator: Card
    cards: tuple[Card, ...]
    patience: float
    attempts: int

    @property
    def alone(self) -> float:
        """Epsilon of the plan, at its price's delta, if all other owners give their noise away."""
        price = self.prepared.price
        if self.run.noise == "local":
            return price.epsilon
        return certify(alone(self.run.reserved), price.delta,
                       check_relation(price.relation)).epsilon

    @property
    def of_person(self) -> float | None:
        """Epsilon, at the price's delta, of somebody with rows at as many owners as are declared;
        None where nobody declares it.

        Raises:
            UnsupportedNode: the plan has no price for that.
        """
        if self.run.owners_per_person is None:
            return None
        price = self.prepared.price
        return certify(self.run.of_person, price.delta, check_relation(price.relation)).epsilon

    def card_of(self, own: Identity) -> Card:
        """The card of the roster that a secret is of.

        Raises:
            InvalidPlan: it is of nobody on the roster.
        """
        for card in self.cards:
            if card == own.card:
                return card
        raise InvalidPlan("secret", own.card.owner.name, "of an owner of this run")


def load(path: str, data_dir: str | None = None, ledger: str | None = None) -> FederatedFile:
    """Read the run file, its schema and its cards, and price the plan.

    Args:
        ledger: an owner's own, to price against.

    Raises:
        InvalidPlan: a key that is unknown or missing, or a card that is none.
        UnsupportedNode: a run that owners cannot do together.
    """
    place = Path(path)
    value = load_toml(place, "run file")
    told = _checked(value.pop("federation", None))
    _refused(value)
    data = value.setdefault("data", {})
    if isinstance(data, dict):  # what else it is, `RunFile` refuses by name
        data["table"] = "(each owner has its own)"
    base = RunFile.from_dict(value, place)
    schema = Schema.load(base.data_path(base.schema, data_dir))
    prepared = priced(base, schema, base.ledger_path(ledger) if ledger else None)
    if not ledger:
        prepared = evolve(prepared, ledger="each owner's own")
    cards = tuple(_card(place, name, "owners") for name in told["owners"])
    run = Run.of(_text(told["name"], "name"), tuple(card.owner for card in cards), schema,
                 prepared.node, delta=base.params["delta"], learner=base.learner,
                 relation=base.relation, noise=_text(told.get("noise", "local"), "noise"),
                 colluding=_whole(told, "colluding", 0),
                 least_honest=_whole(told, "least_honest", 1),
                 owners_per_person=_whole(told, "owners_per_person", 1)
                 if "owners_per_person" in told else None)
    _ = run.reserved  # what cannot be shared is refused here, not by the owners
    return FederatedFile(prepared, run, _text(told["address"], "address"),
                         _card(place, told["coordinator"], "coordinator"),
                         cards, positive("[federation] patience", told.get("patience", 600.0)),
                         _whole(told, "attempts", 3))


def _checked(value: object) -> Json:
    if not isinstance(value, dict):
        raise InvalidPlan("[federation]", "a run file without it", "there, with name, address, "
                          "coordinator and owners")
    for key in value:
        if key not in KEYS:
            raise InvalidPlan("[federation] key", str(key), f"one of {', '.join(KEYS)}")
    for key in KEYS[:4]:
        if key not in value:
            raise InvalidPlan("[federation]", "a table without it", f"given {key}")
    if not isinstance(value["owners"], list) or not value["owners"]:
        raise InvalidPlan("[federation] owners", value["owners"], "a list of card files")
    return value


def _refused(value: Json) -> None:
    for name, why in (("engine", "each owner's table is read in memory"),
                      ("evaluate", "public rows are scored with privledger predict"),
                      ("isolation", "whoever trains has no rows to be kept from")):
        if name in value:
            raise UnsupportedNode(f"[{name}] is not for a run of several owners: {why}. Nothing "
                                  "was read")
    if isinstance(value.get("data"), dict) and "table" in value["data"]:
        raise InvalidPlan("[data] table", "in a file that all owners share",
                          "left out: each owner names its own with --data")


def _text(value: object, key: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidPlan(f"[federation] {key}", value, "given as a text")
    return value


def _card(place: Path, value: object, key: str) -> Card:
    return read_card(place.parent / path_in(f"[federation] {key}", _text(value, key)))


def _whole(told: Json, key: str, usual: int) -> int:
    value = told.get(key, usual)
    if type(value) is not int:
        raise InvalidPlan(f"[federation] {key}", value, "a whole number")
    return value
