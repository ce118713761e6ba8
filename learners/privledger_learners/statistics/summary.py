"""A summary: statistics by groups, under one plan. A learner whose model is a labelled table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

import privledger as pl
from privledger_learners.estimator import PrivateLearner, Relation, check_number
from privledger_learners.group_selection import group_node
from privledger_learners.scikit import check_is_fitted
from privledger_learners.statistics import expressions
from privledger_learners.statistics.answers import (
    OF_NOISE,
    AnswerForecast,
    AnswerRow,
    AnswerTable,
    Group,
)
from privledger_learners.statistics.expressions import (
    RECORDS,
    Cut,
    Predicate,
    Statistic,
    count,
    histogram,
    mean,
)
from privledger_learners.statistics.needs import (
    COARSE,
    FINE,
    MOST_CELLS,
    MOST_DRAWS,
    Axis,
    Key,
    Names,
    Need,
    cells_of,
    combinations_of,
    groups_of,
    needs_of,
    padded,
    places_for,
    rank_axis,
    size_of,
    texts_of,
)
from privledger_learners.statistics.recipes import Told, joined, numbers, rows_of

_BELOW = 1 + 2.0**-36  # prices of a few nodes, rounded, stay within epsilon
intervals = pl.plugins.intervals
_SPREAD = 1 / math.sqrt(12.0)
MOST_EPSILON = 100.0


@frozen(eq=False)
class Recipe:
    """What one summary reserves.

    Attributes:
        plan: all its nodes. leaves: of every question; of draws one for each. kind: `laplace` or
            `gaussian`, of what is added up.
        naming: of every column of texts, what releases the names of its groups.
    """

    plan: pl.Node
    keys: Mapping[Statistic, Key]
    needs: Mapping[Key, Need]
    leaves: Mapping[Key, pl.Node]
    kind: str
    statistics: tuple[Statistic, ...]
    relation: str
    schema: pl.Schema = field(repr=False)
    naming: Mapping[str, pl.nodes.PartitionSelection]

    def scale(self, key: Key) -> float:
        """Of the noise of one entry of an answer: parameter, or standard deviation."""
        leaf = self.leaves[key]
        if isinstance(leaf, pl.Laplace):
            return leaf.scale
        if isinstance(leaf, pl.Gaussian):
            return leaf.noise_multiplier * self.needs[key].moved(self.relation, 2)
        return 0.0


class Summary(PrivateLearner):
    """Statistics of a table, by groups, as one plan.

    Args:
        statistics: such as `pl.mean("pay")`, or texts, "mean(pay)"; none for a description of
            the table: rows, the mean of each number, a histogram of each category.
        by: categorical columns, `pl.cut(column, edges)` of numeric ones, and columns of texts:
            names of enough people are released first, as one question more, with a delta above 0.
        groups_per_person: names in a column of texts that one person speaks for, at most; public.
        where: a public predicate of the rows that count, such as `pl.between("age", 30, 60)`.
        epsilon, delta: what one run may cost. With delta 0 noise is Laplace's; above 0 Gaussian
            where that is less, which is from about nine questions on.
        noise: "least" for that; "laplace" or "gaussian" for one of them. Owners of a federation
            add up Gaussian noise only.
        schema: public facts of the table; None for that of the guarded data.
        relation: "add_remove" or "replace_one".
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of a simulation; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        answer_: an `AnswerTable`. receipt_: the ledger's head after the fit.
        names_: released names by column of texts, where `by` has such.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("summary", "Counts, sums, means, quantiles, tables by groups",
                          "docs/proofs/summaries.md", ("add_remove", "replace_one"),
                          ("regression", "classification"))
    model_records = (*RECORDS, AnswerRow, AnswerTable)
    model_attributes = ("_inferred",)

    def __init__(
        self,
        statistics: Sequence[Statistic | str] = (),
        by: Sequence[str | Cut] = (),
        where: Predicate | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        noise: str = "least",
        groups_per_person: int = 1,
        schema: pl.Schema | None = None,
        relation: Relation = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.statistics = statistics
        self.by = by
        self.where = where
        self.epsilon = epsilon
        self.delta = delta
        self.noise = noise
        self.groups_per_person = groups_per_person
        self.schema = schema
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def _known(self, schema: pl.Schema | None) -> pl.Schema:
        """Any schema will do: a summary learns no target."""
        found = schema if schema is not None else self.schema
        if not isinstance(found, pl.Schema):
            raise pl.SchemaError("a schema is needed: bounds and categories must be public facts, "
                                 "they are never read off the data")
        return found

    def _asked(self, schema: pl.Schema) -> tuple[Statistic, ...]:
        """The statistics; where none were named, a description of the table."""
        given = self.statistics
        if isinstance(given, Statistic | str) or not isinstance(given, Sequence):
            raise pl.InvalidValue("statistics", type(given).__name__, "a list of statistics")
        found = tuple(parsed(one) if isinstance(one, str) else one for one in given)
        if not found:
            grouped = {one.column if isinstance(one, Cut) else one for one in self.by}
            columns = [one for one in schema.columns if one.role in ("feature", "target")
                       and one.name not in grouped]
            found = (count(), *(mean(one.name) for one in columns if one.kind == "numeric"),
                     *(histogram(one.name) for one in columns if one.kind == "categorical"
                       and len(one.categories) > 1))
        if not all(isinstance(one, Statistic) for one in found):
            raise pl.InvalidValue("statistics", "something else", "pl.count(), pl.mean(column) "
                                  "and their like")
        names = [one.name + str(one.quantiles) for one in found]
        if len(set(names)) < len(names):
            raise pl.InvalidValue("statistics", ", ".join(one.name for one in found),
                                  "each once; label= tells two alike apart")
        return found

    def _recipe(self, schema: pl.Schema) -> Recipe:
        check_number("epsilon", self.epsilon, 0.0, 1e6)
        check_number("delta", self.delta, 0.0, 1.0, open_low=False)
        if self.relation not in self.info.relations:
            raise pl.InvalidValue("relation", self.relation, f"one of {self.info.relations}")
        if isinstance(self.by, str) or not isinstance(self.by, Sequence):
            raise pl.InvalidValue("by", self.by, "a list of columns")
        if self.where is not None and not isinstance(self.where, Predicate):
            raise pl.InvalidValue("where", type(self.where).__name__, "such as "
                                  "pl.between(\"age\", 30, 60)")
        statistics = self._asked(schema)
        places = places_for(schema, statistics, self.by)
        names = {name: padded((), places) for name in texts_of(schema, self.by)}
        keys, needs = needs_of(schema, statistics, tuple(self.by), self.where, names)
        for need in needs.values():
            cells_of(need.axes, need.where)  # refuses what is too large
            draws = len(need.key.quantiles) * size_of(need.axes)
            if draws > MOST_DRAWS:
                raise pl.InvalidValue("quantiles", draws, f"at most {MOST_DRAWS} draws")
        kinds = {"least": ("laplace", "gaussian"), "laplace": ("laplace",),
                 "gaussian": ("gaussian",)}.get(self.noise, ())
        if not kinds or (kinds == ("gaussian",) and not self.delta):
            raise pl.InvalidValue("noise", self.noise, "least, laplace, or with a delta above 0 "
                                                       "gaussian")
        best = None
        for kind in kinds if self.delta > 0 else ("laplace",):
            made = self._priced(kind, keys, needs, statistics, schema, {})
            loudness = _loudness(made)
            if best is None or loudness < best[0]:
                best = loudness, made
        assert best is not None
        if not texts_of(schema, self.by):
            return best[1]
        kind = best[1].kind
        return self._priced(kind, keys, needs, statistics, schema,
                            self._naming(schema, needs, kind))

    def _naming(self, schema: pl.Schema, needs: Mapping[Key, Need],
                kind: str) -> dict[str, pl.nodes.PartitionSelection]:
        """What names groups of texts: a question beside the others; of delta all that no Gaussian
        noise needs."""
        texts = texts_of(schema, self.by)
        part = self.epsilon / (math.fsum(need.share for need in needs.values()) + len(texts))
        delta = self.delta * (0.5 if kind == "gaussian" else 0.99) / max(len(texts), 1)
        return {name: group_node(part, delta, self.groups_per_person) for name in texts}

    def _priced(self, kind: str, keys: Mapping[Statistic, Key], needs: Mapping[Key, Need],
                statistics: tuple[Statistic, ...], schema: pl.Schema,
                naming: Mapping[str, pl.nodes.PartitionSelection]) -> Recipe:
        """With the least noise of this kind that epsilon and delta pay for."""
        whole = math.fsum(need.share for need in needs.values())

        def made(noise: float) -> Recipe:
            leaves: dict[Key, pl.Node] = {}
            nodes: list[pl.Node] = [*naming.values()]
            for key, need in needs.items():
                part = need.share / whole
                leaf, node = _leaf(need, kind, noise, part, self.relation, pure=not self.delta)
                leaves[key] = leaf
                nodes.append(node)
            plan = nodes[0] if len(nodes) == 1 else pl.Sequential(nodes)
            return Recipe(plan, keys, needs, leaves, kind, statistics, self.relation, schema,
                          naming)

        if kind == "gaussian":
            return made(pl.calibrate(lambda noise: made(noise).plan, self.epsilon, self.delta,
                                     self.relation))
        left, delta = self.epsilon * whole / (whole + len(naming)), self.delta if naming else 0.0
        noise = _BELOW / left
        price = pl.epsilon(made(noise).plan, delta, self.relation)
        while price > self.epsilon:  # parts of a partition cost twice where a record is replaced
            noise *= (price - self.epsilon + left) / left * _BELOW
            price = pl.epsilon(made(noise).plan, delta, self.relation)
        return made(noise)

    def _learn(self, data: pl.Dataset, schema: pl.Schema) -> None:
        recipe = self._recipe(schema)

        def ask(session: pl.Session) -> dict[Key, Told]:
            named = recipe if not recipe.naming else evolve(recipe, needs=needs_of(
                schema, recipe.statistics, tuple(self.by), self.where,
                self._names(session, data, recipe))[1])
            return {key: _told(session.release, data, named, key) for key in named.needs}

        self._keep(recipe, schema, self._granted(data, recipe.plan, ask), False)

    def _names(self, session: pl.Session, data: pl.Dataset, recipe: Recipe) -> Names:
        """Released names of every column of texts: the largest ones, where a table of cells has no
        place for more."""
        _, needs = needs_of(schema := recipe.schema, recipe.statistics, self.by, self.where)
        others = max(combinations_of(need.axes, need.where) for need in needs.values())
        places = places_for(schema, recipe.statistics, self.by)
        most = places or int((MOST_CELLS / others)**(1 / len(recipe.naming))) - 1
        self.names_ = {}
        for name, node in recipe.naming.items():
            found = session.release(node, data.groups(name))
            largest = np.sort(np.argsort(-found.counts, kind="stable")[:most])
            self.names_[name] = tuple(found.names[place] for place in largest)
        return {name: padded(known, places) for name, known in self.names_.items()}

    def _keep(self, recipe: Recipe, schema: pl.Schema, told: Mapping[Key, Told],
              recalled: bool) -> None:
        groups = next(iter(told.values())).need.axes[:len(self.by)]
        rows = rows_of(recipe.statistics, groups, recipe.keys, told)
        self.schema_ = schema
        self.answer_ = AnswerTable([axis.name for axis in groups], rows, float(self.epsilon),
                                   float(self.delta), OF_NOISE, recalled)

    def run(self, table: pl.Dataset, *, epsilon: float | None = None, delta: float | None = None,
            keep: bool = False, labels: Mapping[str, str] | None = None) -> AnswerTable:
        """Ask a guarded table; this summary is not changed.

        Args:
            epsilon, delta: what it may cost; None for the summary's own.
            keep: keep every answer in the ledger, and give out the one that is kept where the
                same was asked before: that costs nothing. One grant for each question then.
            labels: what the grant carries, such as {"team": "red"}: caps match it.

        Raises:
            BudgetExceeded: the ledger refused; nothing was read.
        """
        if not isinstance(table, pl.Dataset):
            raise pl.InvalidValue("table", type(table).__name__, "a guarded Dataset: "
                                  "ledger.protect(frame, schema=schema)")
        changed = {"relation": table.ledger.relation} | {
            name: value for name, value in (("epsilon", epsilon), ("delta", delta))
            if value is not None}
        asker = type(self)(**{**self.get_params(deep=False), **changed})
        if keep is not True and keep is not False:
            raise pl.InvalidValue("keep", type(keep).__name__, "True or False")
        return asker._recalled(table, labels) if keep else asker.fit(table, labels=labels).answer_

    def _recalled(self, table: pl.Dataset, labels: Mapping[str, str] | None) -> AnswerTable:
        schema = table.schema
        recipe = self._recipe(schema)
        if recipe.naming or any(key.kind in ("quantile", "ranks") for key in recipe.needs):
            raise pl.InvalidValue("keep", True, "False with quantiles and groups of texts: each is "
                                                "paid for each time")
        free: list[bool] = []

        def release(leaf: pl.Node, query: object) -> object:
            answered = table.ledger.answer(leaf, query, keep=True, learner=self.info.name,
                                           labels=labels, delta=self.delta / len(recipe.needs))
            free.append(answered.recalled)
            return answered.value

        told = {key: _told(release, table, recipe, key) for key in recipe.needs}
        self._keep(recipe, schema, told, all(free))
        return self.answer_

    def forecast(self, schema: pl.Schema | None = None, *, epsilon: float | None = None,
                 delta: float | None = None, rows: float | None = None) -> AnswerForecast:
        """What it would cost, and about how exact it would be; no data are opened.

        Args:
            rows: a public number of rows; None for the schema's. Shared evenly by the groups,
                where means are spread evenly over their bounds and lie near one of them. With a
                column of texts, rows of one group; None for unknown.
        """
        known = self._known(schema)
        changed = {name: value for name, value in (("epsilon", epsilon), ("delta", delta))
                   if value is not None}
        asker = type(self)(**{**self.get_params(deep=False), **changed})
        recipe = asker._recipe(known)
        if rows is None and not recipe.naming:
            rows = known.rows_for(asker.relation)
        if rows is not None:
            check_number("rows", rows, 0.0, 1e15)
        groups = sum(1 for _ in numbers(groups_of(known, asker.by))) or 1
        each = None if rows is None else max(float(rows) / groups, 1.0)
        lines = tuple(line for one in recipe.statistics for line in _expected(one, recipe, each))
        where = f"in each of {groups} groups" if not recipe.naming else "; ".join(
            f"{name}: named are most groups of at least {math.ceil(node.threshold)} people, or rows"
            for name, node in recipe.naming.items())
        assumed = (f"{where}; half widths of 95 % intervals, at the least "
                   "favourable mean, and for the sample at a spread of 1/sqrt(12) of the range")
        if each is None and any(one.kind == "mean" for one in recipe.statistics):
            assumed += "; of a mean only with a public number of rows (rows=, or --rows)"
        return AnswerForecast(recipe.plan, pl.epsilon(recipe.plan, asker.delta, asker.relation),
                              float(asker.delta), lines, assumed)

    def forecast_within(self, half_width: float, schema: pl.Schema | None = None, *,
                        rows: float | None = None, sample: bool = False) -> AnswerForecast:
        """The least epsilon with which every answer is this exact, and its forecast.

        Args:
            half_width: of the 95 % interval, in the unit of the statistic.
            rows: as in `forecast`. sample: of noise and sample, in place of the noise alone.

        Raises:
            InvalidValue: a statistic whose interval is not known before the data, or one that no
                epsilon up to `MOST_EPSILON` makes so exact.
        """
        check_number("half_width", half_width, 0.0, 1e300)

        def wider(epsilon: float) -> bool:
            self._unknown(found := self.forecast(schema, epsilon=epsilon, rows=rows), sample)
            return max(float(line[1 + sample] or 0.0) for line in found.lines) > half_width

        low, high = MOST_EPSILON * 2.0**-40, MOST_EPSILON
        if wider(high):
            raise pl.InvalidValue("half width", half_width, "wider: the sample alone has more"
                                  if sample else f"one that epsilon {MOST_EPSILON:g} reaches")
        while high > low * 1.0001:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if wider(middle) else (low, middle)
        return self.forecast(schema, epsilon=high, rows=rows)

    @staticmethod
    def _unknown(found: AnswerForecast, sample: bool) -> None:
        """Refuse a forecast that leaves an interval open."""
        for line in found.lines:
            if line[1 + sample] is None:
                raise pl.InvalidValue("statistics", line[0], "such as have an interval before the "
                                      "data: count, sum, histogram, crosstab, and mean with a "
                                      "public number of rows (rows=, --rows, or in the "
                                      "schema)")

    def transform(self, X: object) -> np.ndarray:
        """Values of each row's group, shape (rows, statistics): those with one number a group.

        A group that the schema allows no row of has NaN. Costs nothing.
        """
        check_is_fitted(self, "answer_")
        answer: AnswerTable = self.answer_
        cells = list(dict.fromkeys((row.statistic, row.cell) for row in answer.held))
        values = {(row.group, row.statistic, row.cell): row.value for row in answer.held}
        encoded = pl.encode_features(X, self.schema_, strict=False)
        names = getattr(self, "names_", {})
        texts = {column.name: column for column in self.schema_.keys}
        labels = [_texts(texts[axis.name], axis.labels, X) if axis.name in names
                  else _labels(axis, encoded, one)
                  for axis, one in zip(groups_of(self.schema_, self.by, names), self.by,
                                       strict=True)]
        found = [[values.get((tuple(each[row] for each in labels), *name)) for name in cells]
                 for row in range(encoded.n_rows)]
        return np.array([[math.nan if one is None else one for one in row] for row in found],
                        dtype=float).reshape(encoded.n_rows, len(cells))

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """No paper claims anything here: the sound cost of each question, and of all."""
        recipe = self._recipe(self._known(schema))
        return (pl.ClaimStep("everything", "docs/proofs/summaries.md", float(self.epsilon),
                             pl.epsilon(recipe.plan, self.delta, self.relation), self.delta,
                             "each question pays its part of the plan"),)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def summary(*statistics: Statistic | str, **named: Any) -> Summary:
    """A question about a table: `summary(mean("pay"), count(), by=["region"])`; see `Summary`."""
    return Summary(statistics, **named)


def parsed(text: str) -> Statistic:
    """A statistic from its name: `count`, `mean(pay)` or `avg(pay)`, `quantile(pay, 0.9)`.

    Raises:
        InvalidValue: it is none.
    """
    kind, _, rest = text.strip().partition("(")
    kind = {"avg": "mean", "variance": "var", "stddev": "std"}.get(kind, kind)  # as SQL says
    inner = [one.strip() for one in rest.removesuffix(")").split(",")] if rest else []
    inner = [] if inner == [""] else inner
    makers: dict[str, Callable[..., Statistic]] = {
        name: getattr(expressions, name) for name in (
            "count", "sum", "mean", "var", "std", "median", "min", "max", "histogram", "crosstab",
            "corr", "quantile")}
    if kind not in makers or bool(rest) != text.strip().endswith(")"):
        raise pl.InvalidValue("statistic", text, f"one of {', '.join(makers)}, with its column")
    try:
        if kind == "quantile" and len(inner) > 1:
            return makers[kind](inner[0], [float(one) for one in inner[1:]])
        return makers[kind](*inner)
    except (TypeError, ValueError):
        raise pl.InvalidValue("statistic", text, "such as mean(pay) or quantile(pay, 0.9)"
                              ) from None


def _leaf(need: Need, kind: str, noise: float, part: float, relation: str, *, pure: bool
          ) -> tuple[pl.Node, pl.Node]:
    """The mechanism of a question, and its node of the plan.

    Args:
        noise: one over epsilon (laplace) or the noise multiplier (gaussian) of the whole.
        part: of epsilon, or of mu squared.
        pure: whether delta is 0: then no draw of a bounded range costs less than its epsilon, and
            permute-and-flip errs less.
    """
    if need.key.kind == "quantile":
        draws = len(need.key.quantiles)
        # A draw of range e costs e, or at most what a Gaussian of multiplier 2 / e does.
        spent = part / draws / noise if kind == "laplace" else 2 * math.sqrt(part / draws) / noise
        leaf: pl.Node = pl.PermuteAndFlip(spent) if pure else pl.Exponential(spent)
        cells = cells_of(need.axes, need.where)
        each = leaf if cells is None else pl.Parallel([leaf] * int(cells.count))
        return leaf, pl.Repeat(each, draws) if draws > 1 and cells is None else (
            pl.Sequential([each] * draws) if draws > 1 else each)
    twice = need.key.kind == "ranks"  # counts of blocks, and of the bins in them
    part /= 1 + twice
    if kind == "laplace":
        moved = need.moved(relation, 1)
        leaf = pl.Laplace(moved * noise / part, moved)
    else:
        leaf = pl.Gaussian(noise / math.sqrt(part))
    return leaf, pl.Repeat(leaf, 2) if twice else leaf


def _loudness(recipe: Recipe) -> float:
    """Sum of logarithms of what each question's noise is; draws by one over their epsilon."""
    total = 0.0
    for key, leaf in recipe.leaves.items():
        if isinstance(leaf, pl.Exponential | pl.PermuteAndFlip):
            total += len(key.quantiles) * -math.log(leaf.epsilon)
        else:
            sd = recipe.scale(key) * (math.sqrt(2.0) if isinstance(leaf, pl.Laplace) else 1.0)
            total += math.log(sd)
    return total


def _told(release: Callable[..., Any], data: pl.Dataset, recipe: Recipe, key: Key) -> Told:
    """One question, asked; what `where` leaves out is dropped."""
    need, leaf = recipe.needs[key], recipe.leaves[key]
    # Owners that each add their noise add more of it.
    scale = recipe.scale(key) * getattr(data.ledger, "noise_factor", 1.0)
    cells = cells_of(need.axes, need.where)
    groups = size_of(need.axes)
    if key.kind == "quantile":
        shown = [place for place, _ in numbers(need.axes)]
        low, high, bins = key.draws
        drawn = np.full((groups, len(key.quantiles)), math.nan)
        for at, q in enumerate(key.quantiles):
            parts = None if cells is None else data.partition(cells)
            for place in shown:
                handle = data if parts is None else parts[place]
                drawn[place, at] = release(leaf, handle.quantile(
                    key.columns[0], q, lower=low, upper=high, bins=bins, between=True))
        return Told(need, drawn, recipe.kind, 0.0)
    block = need.block
    if key.kind == "products":
        norm = 1 if isinstance(leaf, pl.Laplace) else 2
        block = pl.questions.RowValues(block[0], need.clips[norm - 1], "products")
    answer = np.asarray(release(leaf, data.query((block,), cells, need.what)), dtype=float)
    table = answer.reshape(-1, block.width)[:groups]
    if key.kind == "ranks":
        blocks = (*need.axes[:-1], rank_axis(recipe.schema, key, FINE // COARSE))
        coarse = np.asarray(release(leaf, data.query(
            (block,), cells_of(blocks, need.where), need.what)), dtype=float)
        return Told(need, joined(table.reshape(need.outer, -1),
                                 coarse[:size_of(blocks)].reshape(need.outer, -1)),
                    recipe.kind, scale)
    return Told(need, table.reshape(need.outer, -1), recipe.kind, scale)


def _expected(one: Statistic, recipe: Recipe, rows: float | None
              ) -> list[tuple[str, float | None, float | None, float | None]]:
    """(statistic, half width of the noise, of noise and sample, rows) of one group."""
    key = recipe.keys[one]
    scale, kind = recipe.scale(key), recipe.kind
    wide = key.upper - key.lower
    if one.kind in ("var", "std", "quantile", "corr"):  # no interval is known
        names = [one.called(q) for q in one.quantiles] or [one.name]
        return [(name, None, None, rows) for name in names]
    if one.kind == "mean":
        if rows is None:
            return [(one.name, None, None, None)]
        noise = float(intervals.noise_half_width(np.zeros(1), scale, kind)[0])
        both = math.hypot(noise, intervals.NORMAL * math.sqrt(rows * _SPREAD**2 + intervals.PLUS))
        return [(one.name, min(wide * noise / rows, wide), min(wide * both / rows, wide), rows)]
    if one.kind == "sum":
        weights: tuple[float, ...] = (
            (max(abs(key.lower), abs(key.upper)),) if key.kind == "sum" else
            (key.upper, (key.lower + key.upper) / 2, key.lower))
    elif one.kind == "count":
        need = recipe.needs[key]
        entries = need.block.width if key.kind == "moments" else size_of(need.axes) // need.outer
        weights = (1.0,) * int(entries)
    else:
        weights = (1.0,)
    return [(one.name, intervals.sum_half_width(weights, scale, kind), None, rows)]


def _texts(column: pl.Column, labels: Group, X: Any) -> list[object]:
    """What each row's cell of a column of texts is called: a released name, or None."""
    try:
        cells = X[column.name]
    except (KeyError, IndexError, TypeError, ValueError):
        raise pl.errors.DataError(f"missing column {column.name}: texts are looked up by the name "
                                  "of their column") from None
    names = pl.Column(column.name, "categorical", categories=labels[:-1] or ("-",), missing=True,
                      missing_value_marker=column.missing_value_marker)
    found = pl.encode_features({column.name: cells}, pl.Schema("texts", (names,)), strict=False)
    return [labels[place] for place in found.arrays[0].tolist()]


def _labels(axis: Axis, encoded: Any, one: str | Cut) -> list[object]:
    """What each row's cell of a column of `by` is called."""
    names = [column.name for column in encoded.schema.features]
    if axis.name not in names:
        raise pl.InvalidValue("by", axis.name, "features, for what is looked up by features")
    held = encoded.arrays[names.index(axis.name)]
    if isinstance(one, Cut):
        places = np.searchsorted(axis.cells.edges, held, side="right")
        places[np.isnan(held)] = len(axis.labels) - 1
    else:
        places = held  # missing is -1: the last
    return [axis.labels[place] for place in places.tolist()]


__all__ = ["Summary", "parsed", "summary"]
