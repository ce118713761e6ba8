"""Search for the neighbouring tables on which a release says most about the one record.

Bounds are reached by a few extreme rows, repeated: what matters is where they lie and how often
they occur. So tables are climbed by rows and multiplicities, small ones first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import product
from typing import TypeVar

from attrs import define, evolve, field, frozen

from privledger.noise.seeded import Generator as Rng
from privledger.noise.seeded import generator
from privledger.tables.schema import Column, Schema
from privledger.testing.examples import Example, ends, listed_values
from privledger.testing.lockstep.neighbours import (
    Cell,
    Row,
    TablePair,
    any_value,
    grouped_rows,
    pair_columns,
    rows_of,
)

Item = TypeVar("Item")

_TIMES = (1, 8, 160)
_PATIENCE = 60  # moves without a gain
_FIRST = 12  # starts before the first climb
_BEST = 8  # pairs that a climb may begin at
_MOST_KINDS = 12  # of rows in one table, if it began with fewer
_STEPS = 80  # of a ladder of numbers


def _pick(rng: Rng, items: Sequence[Item]) -> Item:
    return items[int(rng.integers(0, len(items)))]


def climbing(start: Example | Schema, relation: str, *, seed: int = 0, least_rows: int = 0,
             most_rows: int = 4096, first: Sequence[TablePair] = ()
             ) -> Generator[TablePair, float, None]:
    """Pairs of neighbours to try, without an end; each is answered by its score (`send`).

    Args:
        start: the schema, or a table whose own rows join those that are tried.
        seed: of public coins; equal ones and equal scores give equal pairs.
        least_rows, most_rows: of each table.
        first: pairs to look at before all others.
    """
    schema = start.schema if isinstance(start, Example) else start
    own = rows_of(start) if isinstance(start, Example) else []
    rng = generator(seed)
    moves = _Moves(schema, relation, rng, own, least_rows, most_rows)
    starts = iter([pair for pair in (*first, *_from(own, schema, relation),
                                     *starting_pairs(schema, relation, seed)) if moves.fits(pair)])
    climb, turn = _Climb(rng), 0
    while True:
        # The first few starts, then climbs and other starts in turn.
        fresh = next(starts, None) if turn < _FIRST + len(first) or turn % 2 else None
        turn += 1
        pair = moves.of(climb.pair) if fresh is None and climb.pair is not None else fresh
        if pair is None:
            climb.told(None, 0.0, False)
        else:
            climb.told(pair, (yield pair), fresh is not None)


@define(eq=False)
class _Climb:
    """Where a climb stands: every move that does not lose is kept, until none gains for long."""

    rng: Rng
    value: float = -1.0
    pair: TablePair | None = None
    idle: int = 0
    best: list[tuple[float, int, TablePair]] = field(factory=list)

    def told(self, pair: TablePair | None, value: float, fresh: bool) -> None:
        """What a pair was worth; None for a move that was none."""
        gain = pair is not None and value > self.value * (1 + 1e-6) + 1e-9
        if pair is not None and (gain or (value >= self.value and not fresh)):
            self.value, self.pair = value, pair
        if pair is not None and (fresh or gain):
            self.best.append((value, -len(self.best), pair))
            self.best.sort(key=lambda one: one[:2], reverse=True)
            del self.best[_BEST:]
        self.idle = 0 if gain else self.idle + (not fresh)
        if self.idle >= _PATIENCE and self.best:
            # Half of the climbs begin again at the best so far.
            again = self.best[0] if self.rng.random() < 0.5 else _pick(self.rng, self.best)
            self.value, self.pair, self.idle = again[0], again[2], 0


def starting_pairs(schema: Schema, relation: str, seed: int = 0) -> list[TablePair]:
    """Pairs that are bad for something: none and one; equal ones and a stranger; two camps;
    a feature in the order of the target, and one record against it.

    Small and large tables take turns: the first few are of every kind.
    """
    rng = generator(seed)
    corners = _corners(schema, rng)
    crowds = list(_crowds(corners))
    kinds: list[list[TablePair]] = [_ladder_pairs(schema, relation)]
    for times in (0, *_TIMES):
        for some in ([()],) if times == 0 else (crowds[:len(corners)], crowds[len(corners):]):
            kinds.append([TablePair(schema, grouped_rows((row, times) for row in crowd), old, new)
                          for crowd in some
                          for old, new in _last(corners, schema, relation, rng, len(crowd))])
    found: dict[TablePair, None] = {}
    waiting = [[pairs[place] for place in rng.permutation(len(pairs))]
               for pairs in (list(dict.fromkeys(kind)) for kind in kinds)]
    while any(waiting):
        found.update((pairs.pop(), None) for pairs in waiting if pairs)
    return list(found)


def _ladder_pairs(schema: Schema, relation: str) -> list[TablePair]:
    """The record that differs is out of order; in a replacement the old one was in order."""
    found, low = [], ends(pair_columns(schema)[-1])[0]
    for crowd, odd, even in _ladders(schema):
        common = grouped_rows((row, max(1, 240 // len(crowd))) for row in crowd)
        old = {"add_remove": None, "replace_one": even}.get(relation, (*odd[:-1], low))
        found.append(TablePair(schema, common, old, odd))
    return found


def _ladders(schema: Schema) -> Iterator[tuple[list[Row], Row, Row]]:
    """Rows whose targets rise with a feature or more, the others constant; a record that is
    above all, but below all in one feature; and one the other way round."""
    target, features = pair_columns(schema)[-1], pair_columns(schema)[:-1]
    steps: Sequence[Cell] = (
        [target.lower + (target.upper - target.lower) * step / _STEPS for step in range(_STEPS)]
        if target.kind == "numeric" else target.categories[:-1])
    top, places = ends(target)[1], range(len(features))
    low, high = (tuple(ends(column)[end] for column in features) for end in (0, 1))
    numeric = [place for place in places if features[place].kind == "numeric"]
    for down in numeric[:3]:
        for flat in [place for place in places if place != down][:3]:
            for still in ((flat,), tuple(place for place in places if place != down)):
                crowd = [(*(low[place] if place in still
                            else _share(features[place], step, len(steps))
                            for place in places), value) for step, value in enumerate(steps)]
                yield (crowd, (*high[:down], low[down], *high[down + 1:], top),
                       (*low[:down], high[down], *low[down + 1:], top))


def _share(column: Column, step: int, steps: int) -> Cell:
    """A value strictly inside the bounds, rising with the step; a category as the target's."""
    if column.kind == "numeric":
        return column.lower + (column.upper - column.lower) * (step + 1) / (steps + 1)
    names = listed_values(column)
    cell: Cell = names[step * len(names) // steps]
    return cell


def _corners(schema: Schema, rng: Rng) -> list[Row]:
    """Rows at the ends, in the middle, without values, and every other one up; each with the
    two targets that lie farthest apart."""
    columns = pair_columns(schema)
    features, targets = columns[:-1], ends(columns[-1])
    places: list[Row] = [
        tuple(_middle(column) for column in features),
        tuple(ends(column)[1] for column in features),
        tuple(ends(column)[0] for column in features),
        tuple(ends(column)[place % 2] for place, column in enumerate(features)),
    ]
    if any(column.missing for column in features):
        places.append(tuple(None if column.missing else _middle(column) for column in features))
    rows = [(*place, end) for place, end in product(dict.fromkeys(places), targets)]
    if columns[-1].kind == "categorical" and len(columns[-1].categories) > 2:
        more = columns[-1].categories[1:-1]
        rows += [(*places[0], _pick(rng, more))]
    return rows


def _crowds(corners: Sequence[Row]) -> Iterator[tuple[Row, ...]]:
    """Common rows: one kind, and two."""
    yield from ((row,) for row in corners)
    middle_low, middle_high, high_low, high_high, low_low, low_high = corners[:6]
    yield from ((middle_low, middle_high), (low_low, high_high), (low_high, high_low),
                (low_low, low_high), (middle_low, high_high))


def _last(corners: Sequence[Row], schema: Schema, relation: str, rng: Rng,
          kinds: int) -> Iterator[tuple[Row | None, Row | None]]:
    """The record that differs: ordered pairs, or one of them missing."""
    if relation == "add_remove":
        yield from ((None, row) for row in corners)
    elif relation == "replace_label":
        target = pair_columns(schema)[-1]
        low, high = ends(target)
        yield from (((*row[:-1], low), (*row[:-1], high)) for row in corners[::2])
    else:
        ordered = [(old, new) for old in corners for new in corners if old != new]
        yield from (_pick(rng, ordered) for _ in range(4 if kinds > 1 else 8))


def _from(own: Sequence[Row], schema: Schema, relation: str) -> list[TablePair]:
    """Pairs made of the example's own rows."""
    if len(own) < 2:
        return []
    common = grouped_rows((row, 1) for row in own[:-1])
    target = pair_columns(schema)[-1]
    if relation == "add_remove":
        return [TablePair(schema, common, None, own[-1])]
    low, high = ends(target)
    last = own[-1] if relation == "replace_one" else (*own[0][:-1], low)
    other = (*own[0][:-1], high if last[-1] != high else low)
    return [TablePair(schema, common, last, other)]


def _middle(column: Column) -> Cell:
    if column.kind == "numeric":
        half = (column.lower + column.upper) / 2
        return float(round(half)) if column.integer else half
    cell: Cell = listed_values(column)[len(listed_values(column)) // 2]
    return cell


@frozen(eq=False)
class _Moves:
    """Random small changes of a pair that leave it a pair of neighbours."""

    schema: Schema
    relation: str
    rng: Rng
    own: Sequence[Row]
    least_rows: int
    most_rows: int

    def fits(self, pair: TablePair) -> bool:
        """Whether both tables have as many rows as they may."""
        return self.least_rows <= min(pair.n_records) and max(pair.n_records) <= self.most_rows

    def of(self, pair: TablePair) -> TablePair | None:
        """Another pair, or None where this change is none."""
        moves = (self._more, self._more, self._fewer, self._scaled, self._row_added,
                 self._row_moved, self._last_moved, self._last_moved, self._near, TablePair.turned)
        most = max(_MOST_KINDS, len(pair.common))
        for _ in range(_pick(self.rng, (1, 1, 2, 3))):
            pair = _pick(self.rng, moves)(pair)
        fits = self.fits(pair) and len(pair.common) <= most
        return pair if fits and pair.old != pair.new else None

    def _one_row(self, pair: TablePair,
                 change: Callable[[Row, int], tuple[Row, int]]) -> TablePair:
        """One of the common rows, and how often it occurs, is another."""
        rows = list(pair.common)
        if rows:
            place = _pick(self.rng, range(len(rows)))
            rows[place] = change(*rows[place])
        return evolve(pair, common=grouped_rows(rows))

    def _more(self, pair: TablePair) -> TablePair:
        if not pair.common:
            return self._row_added(pair)
        return self._one_row(pair, lambda row, often: (
            row, _pick(self.rng, (often + 1, 2 * often, 4 * often))))

    def _fewer(self, pair: TablePair) -> TablePair:
        return self._one_row(pair, lambda row, often: (
            row, _pick(self.rng, (often - 1, often // 2, 0))))

    def _row_moved(self, pair: TablePair) -> TablePair:
        return self._one_row(pair, lambda row, often: (self._changed(row), often))

    def _scaled(self, pair: TablePair) -> TablePair:
        return evolve(pair, common=tuple((row, 2 * often) for row, often in pair.common))

    def _row_added(self, pair: TablePair) -> TablePair:
        times = 1 << _pick(self.rng, range(8))
        return evolve(pair, common=grouped_rows([*pair.common, (self._row(), times)]))

    def _near(self, pair: TablePair) -> TablePair:
        """Common rows like the record that differs."""
        row = pair.old if pair.new is None or (
            pair.old is not None and self.rng.random() < 0.5) else pair.new
        assert row is not None
        if self.rng.random() < 0.7:
            row = self._changed(row)
        times = 1 << _pick(self.rng, range(8))
        return evolve(pair, common=grouped_rows([*pair.common, (row, times)]))

    def _last_moved(self, pair: TablePair) -> TablePair:
        fresh = self.rng.random() < 0.3
        if self.relation == "replace_label":
            assert pair.old is not None
            assert pair.new is not None
            place = (self._row() if fresh else self._changed(pair.old))[:-1]
            if self.rng.random() < 0.3:
                old, new = (any_value(self.schema.target, self.rng) for _ in range(2))
                return evolve(pair, old=(*place, old), new=(*place, new))
            return evolve(pair, old=(*place, pair.old[-1]), new=(*place, pair.new[-1]))
        first = pair.old is not None and (pair.new is None or self.rng.random() < 0.5)
        row = pair.old if first else pair.new
        assert row is not None
        row = self._row() if fresh else self._changed(row)
        return evolve(pair, old=row) if first else evolve(pair, new=row)

    def _row(self) -> Row:
        if self.own and self.rng.random() < 0.3:
            return _pick(self.rng, self.own)
        return tuple(any_value(column, self.rng) for column in pair_columns(self.schema))

    def _changed(self, row: Row) -> Row:
        place = _pick(self.rng, range(len(row)))
        value = any_value(pair_columns(self.schema)[place], self.rng)
        return (*row[:place], value, *row[place + 1:])
