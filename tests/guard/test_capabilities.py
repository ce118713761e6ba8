"""What a learner holds leads nowhere, and what it changes afterwards changes nothing.

Attacks without a private name: each was, or would have been, a way to the rows, to an exact
answer, or to a charge that is too small. What stays possible in one process is in
docs/known-limits.md.
"""

import contextlib
import copy
import gc
import inspect
import pickle
import types
import weakref
from pathlib import Path

import attrs
import numpy as np
import pytest
from privledger_learners import DPBoostRegressor, SGBDTRegressor

import privledger as pl
from privledger.graph import Context
from privledger.guard.handle import LedgerHandle, Session
from privledger.guard.inside import Inside
from privledger.guard.protecting import Identities
from privledger.guard.service import LedgerService
from privledger.guard.session import GrantedPlan
from privledger.guard.vault import Vault, _vault_of
from privledger.ledger import History
from privledger.storage.memory import MemoryStore
from privledger.tables.chunk import Rows
from tests.worlds import protected, refused, schema_of

N = 61
SCHEMA = schema_of("guarded", {"x": (0.0, 1.0), "c": ["a", "b"]}, y=(0.0, 1.0))
TABLE = {"x": np.linspace(0, 1, N) ** 2, "c": np.array(["a", "b"] * N)[:N]}
Y = np.linspace(0, 1, N)
WIDE = pl.Gaussian(1000.0)  # an exact answer under this much noise would be a wonder
FAR = 50.0
INSIDE = (Rows, Vault, History, MemoryStore, Identities, GrantedPlan, Inside, LedgerService)
put = object.__setattr__


@pytest.fixture
def owner():
    return pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp")


@pytest.fixture
def data(owner):
    return owner.protect(TABLE, Y, SCHEMA)


def exact(answer, truth):
    return abs(float(answer) - truth) < 1.0


# --- nothing leads on ----------------------------------------------------------------------------

def steps_from(what):
    """Whatever can be reached from an object in one step without a private name."""
    if isinstance(what, list | tuple | set | frozenset):
        yield from what
    elif isinstance(what, dict):
        yield from what.keys()
        yield from what.values()
    elif isinstance(what, types.MethodType):
        yield what.__self__
        yield from (what.__func__.__defaults__ or ())
        yield from (cell.cell_contents for cell in what.__func__.__closure__ or ())
    if isinstance(what, types.ModuleType | type | types.FunctionType | str | bytes | np.ndarray):
        return
    for name in dir(what):
        if not name.startswith("_"):
            try:
                yield getattr(what, name)
            except Exception:
                continue
    if attrs.has(type(what)):
        yield from attrs.astuple(what, recurse=False)
        yield attrs.asdict(what, recurse=False)
        yield from (getattr(what, one.name) for one in attrs.fields(type(what)))
    for ref in weakref.getweakrefs(what) if hasattr(what, "__weakref__") else ():
        yield ref()
        yield ref.__callback__
        yield from ref.__callback__.__defaults__ or () if ref.__callback__ else ()
        yield from (cell.cell_contents for cell in
                    (ref.__callback__ and ref.__callback__.__closure__) or ())
        yield getattr(ref, "key", None)


def copies_of(what):
    """What copying, pickling and listing make of it."""
    if isinstance(what, str | bytes | np.ndarray | types.FunctionType | types.ModuleType | type):
        return
    for way in (vars, copy.copy, copy.deepcopy, lambda one: one.__getstate__(),
                lambda one: one.__reduce_ex__(4), lambda one: one.__reduce__(),
                lambda one: one.__dict__, lambda one: one.__slots__):
        try:
            yield way(what)
        except Exception:
            continue


def reached(*roots, most=20_000):
    """Everything within reach; and it must end."""
    seen, queue = {}, [(one, True) for one in roots]
    while queue and len(seen) < most:
        one, first = queue.pop()
        if id(one) in seen or isinstance(one, int | float | bool | type(None) | type):
            continue
        seen[id(one)] = one
        queue += [(other, first) for other in steps_from(one)]
        queue += [(other, False) for other in copies_of(one)] if first else []
    assert len(seen) < most
    return list(seen.values())


def leaks(found):
    return [type(one).__name__ for one in found if isinstance(one, INSIDE)]


def test_nothing_that_a_learner_holds_leads_to_rows_or_to_the_owners_ledger(owner, data):
    score = data.score("squared", [0.0])
    parts = data.partition(data.cells("c"))
    scope = data.ledger.open_scope(pl.IndividualFilter("gdp", 1e-6))
    with data.ledger.request(pl.Repeat(WIDE, 3), data) as session:
        session.release(WIDE, data.count())
        session.release(WIDE, data.query((score.gradient(1.0),)))
        held = (data, data.ledger, session, score, parts, parts[0], data.poisson(0.5), scope,
                parts.counts(), data.custom(lambda table: table["x"], 1.0, "why"), data.bins(),
                data.select(["x"]), session.plan, data.ledger.budget, data.ledger.receipt)
        assert leaks(reached(*held)) == []
    assert leaks(reached(session, session.receipt)) == []
    node = pl.Parallel([pl.Repeat(WIDE, 2), WIDE], certificate="iid_per_record")
    with data.ledger.request(node, data) as session:
        inner = session.within(node, data.partition(2)[0])
        with inner.ledger.request(WIDE, inner) as own:
            own.release(WIDE, inner.count())
            assert leaks(reached(inner, inner.ledger, own, own.data, own.plan)) == []


def test_the_handle_offers_what_is_listed_and_nothing_else(data):
    public = {name for name in dir(data.ledger) if not name.startswith("_")}
    assert public == {"request", "relation", "budget", "left", "receipt", "spent", "mode",
                      "open_scope", "would_grant", "verify", "answer"}
    for name in ("protect", "append", "record", "state", "correct", "graph", "path", "close",
                 "on_release", "open_window", "handle"):
        with pytest.raises(AttributeError):
            getattr(data.ledger, name)
    with pytest.raises(AttributeError):
        data.ledger.on_release = print
    assert {name for name in dir(pl.Session) if not name.startswith("_")} == {
        "plan", "grant", "covers", "active", "data", "releases", "receipt", "filtered",
        "release", "best_of", "within", "note_score", "close", "fixes", "cheaper"}


def test_a_handle_does_not_tell_where_the_ledger_lies(tmp_path):
    with pl.Ledger.create(tmp_path / "secret place.ledger", budget=pl.Budget(1.0)) as ledger:
        held = ledger.protect(TABLE, Y, SCHEMA).ledger
        assert "secret place" in repr(ledger)
        assert "secret place" not in repr(held) + str(held) + held._repr_html_()


def test_a_field_of_the_handle_does_not_open(owner, data):
    session = owner.request(WIDE, data)
    for one in (*attrs.astuple(data, recurse=False), *attrs.asdict(data).values(), session):
        assert not hasattr(one, "open")
    with pytest.raises((AttributeError, TypeError)), session:
        attrs.astuple(data, recurse=False)[1].open(session)
    assert owner.spent == 0  # nothing was read


def test_handles_cannot_be_made_or_copied_into_others(owner, data):
    session = owner.request(WIDE, data)
    refused(TypeError, pl.Session, pl.LedgerHandle)
    for thing in (data, data.ledger, session):
        assert copy.copy(thing) is thing and copy.deepcopy(thing) is thing
        with pytest.raises(TypeError):
            pickle.dumps(thing)

    class Twin(pl.Session):
        """Says that it is the other one."""

        def __hash__(self):
            return hash(session)

        def __eq__(self, other):
            return True

    for made in (object.__new__(pl.Session), object.__new__(Twin)):
        with pytest.raises(pl.NotGranted):
            made.release(WIDE, data.count())
    twin = object.__new__(Twin)
    with contextlib.suppress(TypeError):
        twin.__class__ = pl.Session
    refused(pl.NotGranted, lambda: twin.release(WIDE, data.count()))
    blank = object.__new__(pl.LedgerHandle)
    refused(pl.NotGranted, lambda: blank.request(WIDE, data))
    loose = pl.Dataset(SCHEMA, object.__new__(type(data._vault)), ledger=data.ledger)
    refused(pl.NotGranted, lambda: data.ledger.request(WIDE, loose),
            lambda: session.release(WIDE, loose.count()))
    assert data._vault.opened == 0


@pytest.mark.parametrize("learner", [SGBDTRegressor, DPBoostRegressor])
@pytest.mark.parametrize("plain", [True, False])
def test_a_fitted_model_leads_nowhere(learner, plain):
    model = learner(epsilon=1.0, delta=1e-6, schema=SCHEMA, n_trees=2)
    owner = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    model = model.fit(TABLE, Y) if plain else model.fit(owner.protect(TABLE, Y, SCHEMA))
    assert leaks(reached(model, vars(model))) == []
    assert 0 < model.ledger_.spent <= 1.0 and model.ledger_.left < 1.0
    assert model.ledger_.verify() == [] and model.receipt_.head == model.ledger_.receipt.head
    assert repr(model.ledger_).startswith("Ledger(epsilon ")
    assert "Ledger(epsilon " in model.ledger_._repr_html_()


def test_a_stream_keeps_no_way_to_its_ledger():
    model = SGBDTRegressor(epsilon=1.0, delta=1e-6, schema=SCHEMA, n_trees=2)
    model.partial_fit(TABLE, Y)
    assert leaks(reached(model, vars(model))) == []


def frames_of(error):
    seen, queue = set(), [error]
    while queue:
        one = queue.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        queue += [one.__context__, one.__cause__]
        trace = one.__traceback__
        while trace is not None:
            yield trace.tb_frame
            trace = trace.tb_next


def test_no_error_carries_a_frame_from_behind_the_handle(owner, data):
    """A refusal's traceback held the owner's ledger; one from inside, the rows."""
    session = owner.request(pl.Repeat(WIDE, 9), data)
    held = data.ledger

    def fails(table):
        raise KeyboardInterrupt

    mine = data.custom(fails, 1.0, "to see the traceback")
    for attempt in (lambda: held.request(pl.Gaussian(1e-3), data),
                    lambda: held.request(pl.Asserted(1.0, "x"), None),
                    lambda: held.open_scope(pl.Gaussian(1.0)),
                    lambda: held.open_scope(pl.IndividualFilter("gdp", 1e9)),
                    lambda: session.release(pl.Gaussian(1.0), data.count()),
                    lambda: session.release(WIDE, data.sum("x", lower=float("nan"))),
                    lambda: session.release(WIDE, 7), lambda: session.release(WIDE, mine),
                    lambda: session.filtered("no"), lambda: session.filtered(None),
                    lambda: data.partition(pl.questions.IndexCells(np.zeros(N, int), 1)),
                    lambda: data.public_features):
        try:
            attempt()
        except BaseException as error:
            assert type(error) in (KeyboardInterrupt, pl.NotGranted) or isinstance(
                error, pl.PrivledgerError)
            here = [frame for frame in frames_of(error) if frame.f_code.co_filename.startswith(
                str(Path(pl.__file__).parent))]
            assert here
            local = [value for frame in here for value in frame.f_locals.values()]
            assert leaks(local) == [], (attempt, here)
        else:
            raise AssertionError(attempt)


# --- every opening is a touch --------------------------------------------------------------------

def test_whatever_opens_the_vault_keeps_the_charge(owner, data):
    """Also a break-in that goes around the session: the vault itself notes it."""
    from privledger.guard.handle import _granted

    session = owner.request(WIDE, data)
    with _vault_of(data._vault).open(_granted(session)._inside.leave):
        pass
    session.close(failed=KeyError)
    assert owner.spent > 0
    assert next(iter(owner.state.grants.values())).end.touched is True
    spent = owner.spent
    with pytest.raises(KeyError), owner.request(WIDE, data):
        raise KeyError
    assert owner.spent == spent


# --- what was checked is what is used ------------------------------------------------------------

@pytest.mark.parametrize("way", ["request", "session", "mechanism", "budget"])
def test_the_plan_is_the_one_that_was_stored(owner, data, way):
    """Quieter noise after the grant: under the old plan, by a new one, by the one that is shown."""
    node = pl.Gaussian(1000.0)
    with data.ledger.request(node, data) as session:
        if way == "request":
            put(node, "noise_multiplier", 1e-3)
        elif way == "session":
            node = session.plan
            put(node, "noise_multiplier", 1e-3)
        elif way == "budget":
            put(data.ledger.budget, "epsilon", 1e9)
            refused(pl.BudgetExceeded, lambda: data.ledger.request(pl.Gaussian(0.01), data))
            node = pl.Gaussian(1e-3)
        else:
            hash(node)
            put(node, "noise_multiplier", 1e-3)
        refused(pl.NotGranted, lambda: session.release(node, data.count()),
                lambda: session.release(pl.Gaussian(1e-3), data.count()))
    assert data._vault.opened == 0
    assert owner.verify() == []


def test_a_price_is_not_taken_from_a_node_that_changed():
    """2.0**61 and 1.0 have one hash: a cache that keeps a stranger's node would mistake them."""
    assert hash(pl.Gaussian(2.0**61)) == hash(pl.Gaussian(1.0))
    ledger, data = protected(pl.Budget(1.0, 1e-6), TABLE, Y, SCHEMA, filter="gdp")
    for make in (lambda m: pl.Gaussian(m), lambda m: pl.Repeat(pl.Gaussian(m), 2),
                 lambda m: pl.nodes.OneOf([pl.Gaussian(m), pl.Gaussian(2 * m)])):
        bait = make(2.0**61)
        assert pl.epsilon(bait, delta=1e-6) < 1e-6
        for node in (getattr(bait, "node", bait), *getattr(bait, "nodes", ())):
            if isinstance(node, pl.Gaussian):
                put(node, "noise_multiplier", 1.0)
        with pytest.raises(pl.BudgetExceeded):
            data.ledger.request(make(1.0), data)
        assert pl.epsilon(make(1.0), delta=1e-6) > 1  # nor is anybody told a wrong one
        assert pl.epsilon(bait, delta=1e-6) > 1
    assert ledger.spent == 0


def test_orders_of_a_strangers_own_make_poison_no_cache():
    class Any8(float):
        def __hash__(self):
            return hash(8.0)

        def __eq__(self, other):
            return True

    before = pl.rdp(pl.Gaussian(1.0), [8.0])[0]
    pl.rdp(pl.Gaussian(1.0), [Any8(1.0001)])
    assert pl.rdp(pl.Gaussian(1.0), [8.0])[0] == before
    from privledger.accounting.curve import check_orders
    assert check_orders((8.0,)) == (8.0,)


def test_what_follows_from_the_class_cannot_be_set(owner, data):
    """A count with a sensitivity of 1e-9 had noise of 1e-9."""
    ones, score = pl.questions.Ones(), data.score("squared", [0.0])
    for block, name in ((ones, "clip"), (pl.questions.TargetShares(), "clip"), (ones, "asserted"),
                        (score.gradient(1.0), "signed"), (score.hessian(), "clip"),
                        (pl.questions.CustomValue(len, 1.0, "why"), "asserted"),
                        (data.cells("c"), "reads_label"), (data.count(), "by_person"),
                        (data.labels(), "by_position"), (data.count(), "clips")):
        with pytest.raises(AttributeError):
            put(block, name, False)
        with pytest.raises(AttributeError):
            setattr(block, name, False)
    with owner.request(WIDE, data) as session:
        answer = np.ravel(session.release(WIDE, data.query((ones,))))[0]
    assert abs(answer - N) > 1e-3  # wrong with chance about 1e-6: the noise is 1,000 wide


def test_a_custom_function_changes_nothing_of_the_release_it_runs_in(owner, data):
    """It ran between the scaling of the noise and the sum: the second block became huge."""
    plain = pl.questions.ColumnValue("x", 0.0, 1.0, 1.0)
    truth = float(TABLE["x"].sum())
    scale = 1e9

    def meddles(table):
        put(plain, "clip", scale)
        put(plain, "scale", 1 / scale)
        for column in table.values():
            with pytest.raises(ValueError):
                column[:] = 0
            column.flags.writeable = True
            column[:] = 0
        return np.zeros(len(table["x"]))

    joint = pl.Gaussian(1000.0, (0.5, 0.5))
    query = data.query((pl.questions.CustomValue(meddles, 1.0, "to meddle"), plain))
    with owner.request(joint, data) as session:
        answer = session.release(joint, query)[1]
    assert abs(float(answer)) < scale * truth / 100
    with owner.request(WIDE, data) as session:
        session.release(WIDE, data.count())
    target = np.asarray(_vault_of(data._vault)._Vault__rows.target)
    np.testing.assert_array_equal(target, Y)  # what it wrote went into its own copy


def test_a_function_that_closes_its_own_session_keeps_the_charge(owner, data):
    held = []

    def closes(table):
        held[0].close(failed=KeyError)
        return np.zeros(len(table["x"]))

    with owner.request(WIDE, data) as session:
        held.append(session)
        session.release(WIDE, data.custom(closes, 1.0, "to close"))
    assert owner.spent > 0
    assert next(iter(owner.state.grants.values())).releases == 1


def test_the_schema_inside_is_nobody_elses(owner):
    """Wider bounds, or fewer categories, after the table was put behind the guard."""
    columns = tuple(attrs.evolve(column) for column in SCHEMA.columns)
    schema = pl.Schema("mine", columns)
    data = owner.protect(TABLE, Y, schema)
    put(data.schema.columns[0], "upper", 7.0)  # a learner's: the owner may use its own again
    assert schema.columns == SCHEMA.columns
    for own in (columns, data.schema.columns):
        put(own[0], "upper", 1e9)
        put(own[1], "categories", ("a",))
        put(own[2], "upper", 1e-9)
    inside = _vault_of(data._vault).schema
    assert inside.columns == SCHEMA.columns
    with owner.request(WIDE, data) as session:
        refused(pl.InvalidValue, lambda: session.release(WIDE, data.histogram("c")))
        answer = session.release(WIDE, data.query((pl.questions.TargetShares(),)))
    assert np.abs(answer).max() < 1e6


def test_a_step_of_an_unknown_kind_is_no_way_around_a_filter(owner, data):
    """It matched a reserved filter in the plan, and no filter in the session."""
    node = pl.IndividualFilter("gdp", 1e-6)
    with owner.request(node, data) as session:
        real = session.filtered(node)
        caps = real.steps[0].context.caps
        for kind in ("Filter", "other"):
            forged = pl.Dataset(SCHEMA, data._vault, (
                type(real.steps[0])(Context(kind, "mine", caps=caps)),), data.ledger)
            with pytest.raises(pl.NotGranted, match="derivation"):
                session.release(pl.Gaussian(1e-3), forged.count())
        put(real.steps[0].context, "kind", "poisson")
        refused(pl.PrivledgerError, lambda: session.release(pl.Gaussian(1e-3), real.count()))
        wide = session.filtered(node)
        put(wide.steps[0].context, "caps", "gdp:" + 1e9.hex() + ":" + 0.0.hex())
        refused(pl.NotGranted, lambda: session.release(pl.Gaussian(1e-3), wide.count()))
    assert data._vault.opened == 0


def test_a_filter_keeps_the_caps_it_was_reserved_with(owner, data):
    node = pl.IndividualFilter("gdp", 1e-6)
    with owner.request(node, data) as session:
        handle = session.filtered(node)
        put(node, "cap", 1e9)
        loud = pl.Gaussian(1.0)  # far beyond the cap: everybody is left out
        assert abs(float(session.release(loud, handle.count()))) < 20
    scope = owner.open_scope(pl.IndividualFilter("gdp", 1e-6), name="s")
    with owner.request(scope.node, data, scope=scope) as session:
        put(scope.node, "cap", 1e9)
        assert abs(float(session.release(loud, session.filtered().count()))) < 20
    refused((pl.NotGranted, pl.InvalidValue), lambda: owner.request(scope.node, data, scope=scope))
    assert owner.verify() == []


def test_cells_scores_and_trees_are_as_they_were_first_seen(owner, data):
    parts = data.partition(data.cells("c"))
    bins = data.bins(4)
    tree = data.root(bins).grow([0], [2])
    score = data.score("squared", [0.0])
    score.add(data.cells("c"), [0.1, 0.2, 0.3])
    plan = pl.Sequential([pl.Repeat(WIDE, 6), pl.Parallel([WIDE] * 3)])
    with owner.request(plan, data) as session:
        cells = data.cells("x", [0.5])
        session.release(WIDE, data.query((pl.questions.Ones(),), cells))
        put(cells, "edges", (0.1, 0.2, 0.3))
        assert len(session.release(WIDE, data.query((pl.questions.Ones(),), cells))) == 3
        session.release(WIDE, data.query((score.gradient(1.0),), tree))
        put(tree, "parent", tree)
        put(tree, "count", 1)
        put(score, "loss", "softmax")
        put(score, "start", np.array([np.nan]))
        assert np.isfinite(session.release(WIDE, data.query((score.gradient(1.0),), tree))).all()
        session.release(WIDE, parts[0].count())
        put(parts[1].steps[0], "cells", data.cells("x", [0.5]))
        loop = data.root(bins).grow([0], [1])
        put(loop, "parent", loop)
        with pytest.raises(pl.errors.UnsupportedNode):
            session.release(WIDE, data.query((pl.questions.Ones(),), loop))
    assert owner.verify() == []


def test_numbers_of_a_strangers_own_make_are_gone_before_anything_is_asked(owner, data):
    class Two(float):
        """Another number each time."""

        turns = 0

        def __mul__(self, other):
            raise AssertionError("it was calculated with")

        __rmul__ = __truediv__ = __rtruediv__ = __mul__

    mechanism = pl.Gaussian(Two(1000.0))
    assert type(mechanism.noise_multiplier) is float
    block = pl.questions.ColumnValue("x", 0.0, Two(1.0))
    with owner.request(WIDE, data) as session:
        refused(pl.errors.UnsupportedNode, lambda: session.release(WIDE, data.query((block,))))
        put(mechanism, "noise_multiplier", Two(1000.0))
        session.release(mechanism, data.count())
    with owner.request(WIDE, data) as session:
        blocks = (one for one in (pl.questions.Ones(),))  # a generator is read once
        session.release(WIDE, data.query(blocks))


def test_public_features_in_another_shape_change_nothing():
    schema = schema_of("labels", {"x": (0.0, 1.0)}, t=["n", "p"])
    _, data = protected(pl.Budget(9.0), {"x": [0.0, 0.5, 1.0, 0.25]}, ["n", "p", "n", "p"],
                        schema, relation="replace_label", public_features=True)
    shown = data.public_features.arrays[0]
    shown.shape = (2, 2)
    np.testing.assert_array_equal(data.public_features.arrays[0], [0.0, 0.5, 1.0, 0.25])
    with pytest.raises(ValueError):
        shown[0] = 1.0


# --- the ledger as an oracle ---------------------------------------------------------------------

def test_whoever_holds_a_handle_compares_and_appends_nothing(owner, data):
    """protect(guess, name=data.identity) told whether a guess of the whole table is right."""
    named = owner.protect(TABLE, Y, SCHEMA, name="people")
    for held in (data.ledger, named.ledger):
        assert not hasattr(held, "protect") and not hasattr(held, "append")
    with pytest.raises(pl.errors.DataError):  # for the owner the comparison stays
        owner.protect({**TABLE, "x": np.zeros(N)}, Y, SCHEMA, name="people")


def test_handles_of_one_ledger_are_one_object_and_free_it(owner, data):
    assert owner.protect(TABLE, Y, SCHEMA).ledger is data.ledger is owner.handle
    other, held = protected(pl.Budget(1.0), TABLE, Y, SCHEMA)
    with held.ledger.request(pl.Laplace(100.0), held) as session:
        session.release(pl.Laplace(100.0), held.count())
    gone = [weakref.ref(one) for one in (other, _vault_of(held._vault), held.ledger, session)]
    del other, session
    gc.collect()
    assert gone[0]() is not None  # the data keep their ledger
    del held
    gc.collect()
    assert [one() for one in gone] == [None] * 4


# --- a handle in another's clothes ---------------------------------------------------------------

def carried(error):
    """What an error leads to: locals of its frames, and whose attribute was missing."""
    seen, waiting = [], [error]
    while waiting:
        one = waiting.pop()
        if one is None or any(one is old for old in seen):
            continue
        seen.append(one)
        yield getattr(one, "obj", None)
        trace = BaseException.__traceback__.__get__(one)
        while trace is not None:
            if trace.tb_frame.f_code.co_filename != __file__:  # the owner is at home here
                yield from trace.tb_frame.f_locals.values()
            trace = trace.tb_next
        waiting += [BaseException.__context__.__get__(one), BaseException.__cause__.__get__(one)]


def test_a_handle_of_another_class_stands_for_nothing(owner, data):
    """The missing attribute's owner stood in the error: `data.ledger.__class__ = pl.Session`,
    `except AttributeError as error: error.obj` was the owner's ledger."""
    seal = attrs.astuple(data, recurse=False)[1]
    handles = [data.ledger, owner.request(WIDE, data), seal]
    kinds = [type(handle) for handle in handles]
    for handle, own in zip(handles, kinds, strict=True):
        for kind in kinds:
            if kind is own:
                continue
            handle.__class__ = kind
            try:
                for name in (name for name in dir(kind) if not name.startswith("__")):
                    for given in ((), (None,), (WIDE, data)):
                        try:
                            found = getattr(handle, name)
                            assert not isinstance(found, INSIDE)
                            if callable(found):
                                found(*given)
                        except (pl.PrivledgerError, TypeError, AttributeError) as error:
                            assert not [one for one in carried(error) if isinstance(one, INSIDE)]
                with pytest.raises(pl.NotGranted):
                    repr(handle) if kind is not kinds[2] else handle.identity
            finally:
                handle.__class__ = own
    assert seal.opened == 0 and data.ledger.relation == "add_remove"


def test_an_exception_of_a_strangers_make_carries_no_frame(owner, data):
    class Sneaky(Exception):
        """Shows properties in the place of what the interpreter writes."""

        __traceback__ = property(lambda self: None, lambda self, value: None)
        __context__ = property(lambda self: None, lambda self, value: None)

    class Number(float):
        def __str__(self):
            raise Sneaky

    session = owner.request(WIDE, data)
    with pytest.raises(Sneaky) as caught:
        data.ledger.request(WIDE, data, learner=Number(1.0))
    assert not [one for one in carried(caught.value) if isinstance(one, INSIDE)]
    session.close()


def test_cells_of_a_strangers_make_raise_where_no_frame_holds_a_vault():
    owner = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), relation="replace_label")
    data = owner.protect(TABLE, Y, SCHEMA, public_features=True)
    ring = pl.questions.CrossCells(data.cells("c"), data.cells("c"))
    put(ring, "first", ring)
    for cells in (ring, object.__new__(pl.questions.IntervalCells),
                  object.__new__(pl.questions.IndexCells)):
        for make in (data.partition, lambda cells: pl.Partition(data, cells)):
            try:
                make(cells)
            except Exception as error:
                assert not [one for one in carried(error) if isinstance(one, INSIDE)]


def test_no_method_of_a_handle_has_a_way_past_its_own_errors():
    for kind in (Session, LedgerHandle):
        for name, held in vars(kind).items():
            method = held.fget if isinstance(held, property) else held
            assert not hasattr(method, "__wrapped__"), name
    assert list(inspect.signature(Session.release).parameters) == [
        "self", "mechanism", "query", "rollover"]
