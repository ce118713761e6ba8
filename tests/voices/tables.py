"""Small tables of people with several rows, and their neighbours: everything of one person."""

import numpy as np

import privledger as pl
from privledger.tables.chunk import Rows, numbered
from privledger.tables.encode import encode_target
from tests.properties.test_sensitivity import CLASSES, SCHEMA, random_table

PERSON = {"unit": "person", "people_key": b"a key that is only for tests 012"}
RELATIONS = ("add_remove", "replace_one", "replace_label")


class People:
    """A list of people, each with its own rows: (X, y) of `random_table`."""

    def __init__(self, classes, held):
        self.classes, self.held = classes, held

    @classmethod
    def drawn(cls, rng, classes, most=5, rows=5):
        return cls(classes, [person(rng, classes, rows) for _ in range(rng.integers(0, most))])

    @property
    def schema(self):
        return CLASSES if self.classes else SCHEMA

    def columns(self):
        empty = random_table(np.random.default_rng(0), 0, self.classes)
        held = [empty, *self.held]
        X = {name: np.concatenate([np.asarray(one[0][name], dtype=empty[0][name].dtype)
                                   for one in held]) for name in empty[0]}
        y = np.concatenate([one[1] for one in held]).astype(empty[1].dtype)
        people = np.concatenate([np.full(len(one[1]), place, dtype=np.int64)
                                 for place, one in enumerate(held)])
        return X, y, people

    def rows(self, source=None):
        X, y, people = self.columns()
        return Rows(pl.encode_features(X, self.schema), encode_target(y, self.schema), source,
                    people=numbered(people))

    def neighbour(self, rng, relation):
        """Somebody more, somebody else in somebody's place, or other labels of somebody."""
        other = person(rng, self.classes, 5)
        place = int(rng.integers(len(self.held) + 1))
        if relation == "add_remove" or not self.held:
            return People(self.classes, [*self.held[:place], other, *self.held[place:]])
        place = min(place, len(self.held) - 1)
        if relation == "replace_label":
            X, y = self.held[place]
            other = X, random_table(rng, len(y), self.classes)[1]
        return People(self.classes, [*self.held[:place], other, *self.held[place + 1:]])


def person(rng, classes, rows):
    """Somebody with 1 to `rows` rows; many rows now and then."""
    n = int(rng.integers(1, rows)) if rng.random() < 0.9 else int(rng.integers(1, 6 * rows))
    return random_table(rng, n, classes)
