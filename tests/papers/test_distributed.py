"""Algorithm 9: whole noise at every owner, ratios averaged, one owner's price."""

import numpy as np
import pytest
from privledger_papers.command import wanted
from privledger_papers.curves import OWNERS
from privledger_papers.distributed import DistributedSGBDT, Rounds, priced
from privledger_papers.forms import Form
from privledger_papers.systems import OF_ADULT, printed, was_sound
from privledger_papers.tasks import Table

import privledger as pl
from tests.worlds import schema_of

NUMBER = schema_of("made up", {"size": (0, 1), "kind": ["a", "b", "c"]}, y=(0, 20))
CLASSES = schema_of("made up", {"size": (0, 1)}, y=["no", "yes"])
FEW = {"regular": 4, "extra": 2}


def table(schema, n=400):
    size = np.linspace(0, 1, n)
    if schema is CLASSES:
        return {"size": size}, np.where(size > 0.5, "yes", "no")
    return {"size": size, "kind": np.array(["a", "b", "c"])[np.arange(n) % 3]}, 20 * size


@pytest.mark.parametrize("schema", [NUMBER, CLASSES], ids=["number", "classes"])
@pytest.mark.parametrize("owners", [1, 5])
def test_a_fit_costs_what_one_owner_does_and_releases_once_for_each(schema, owners):
    X, y = table(schema)
    model = DistributedSGBDT(0.5, 1e-6, schema, Rounds(owners, **FEW)).fit(X, y)
    assert 0.4 < model.ledger_.spent <= 0.5
    assert model.ledger_.verify() == []
    (grant,) = model.ledger_.state.grants.values()
    assert grant.releases == owners * 6
    assert len(model.trees) == 6
    found = model.predict(X)
    assert found.shape == (400,)
    assert set(found.tolist()) <= {"no", "yes"} if schema is CLASSES else (
        (found >= 0).all() and (found <= 20).all())


def test_the_number_of_owners_is_in_no_price():
    alone, several = (priced(Rounds(owners, **FEW), 0.5, 1e-6) for owners in (1, 5))
    assert several[0] == pytest.approx(alone[0], rel=1e-6)


def test_each_owner_s_ratio_counts_the_same(monkeypatch):
    """Owner t says t in every leaf: the tree has the mean, 2 of 0 to 4."""
    said = iter(range(10**6))
    monkeypatch.setattr(DistributedSGBDT, "_ratios",
                        lambda self, *_: np.full(8, float(next(said) % 5)))
    model = DistributedSGBDT(0.5, 1e-6, NUMBER, Rounds(5, **FEW)).fit(*table(NUMBER))
    assert all((values == 2.0).all() for _, values in model.trees)


def test_a_ratio_is_noised_before_it_is_a_ratio(monkeypatch):
    """Noisy counts under lambda count as lambda, and no value is above rate times clip."""
    seen = []
    plain = DistributedSGBDT._ratios
    monkeypatch.setattr(DistributedSGBDT, "_ratios",
                        lambda self, *given: seen.append(plain(self, *given)) or seen[-1])
    how = Rounds(5, **FEW)
    DistributedSGBDT(0.5, 1e-6, NUMBER, how).fit(*table(NUMBER))
    assert len(seen) == 30
    assert max(float(np.abs(one).max()) for one in seen) <= how.learning_rate * how.clip
    assert len({float(one[0]) for one in seen}) > 20


def test_more_than_two_classes_are_refused_before_a_ledger_is_made():
    schema = schema_of("m", {"size": (0, 1)}, y=["a", "b", "c"])
    model = DistributedSGBDT(0.5, 1e-6, schema)
    with pytest.raises(pl.errors.SchemaError):
        model.fit({"size": np.zeros(3)}, np.array(["a", "b", "c"]))
    assert not hasattr(model, "ledger_")


def test_its_rows_are_among_those_of_the_paper():
    own = [cell for cell in wanted(("003",), (), (), curves=False)
           if cell.system == "S-GBDT distributed"]
    assert {(cell.data, cell.options["owners"]) for cell in own} == {
        (data, owners) for data in ("Abalone", "Adult") for owners in OWNERS}
    assert own == [cell for cell in wanted(("all",), (), (), curves=False) if cell in own]
    assert wanted(("003.F4",), (), (), curves=False) and not {cell.key for cell in own} & {
        cell.key for cell in wanted(("003.F4",), (), (), curves=False)}
    for cell in own:
        form = printed(cell, Table(NUMBER, *table(NUMBER)))
        own = OF_ADULT[1]["distributed"] if cell.data == "Adult" else {}
        assert isinstance(form, Form)
        assert form.learner.rounds == Rounds(int(cell.options["owners"]), **own)
        assert cell.value is None and was_sound(cell).startswith("no: F8")
