"""How much somebody who follows a fit has to open, and what every name says there."""

import ast
import gc
import sys
from pathlib import Path

import numpy as np
import privledger_learners
import privledger_learners as learners
import pytest

import privledger
import privledger as pl

LEARNERS, CORE = (str(Path(package.__file__).parent) for package in (privledger_learners,
                                                                     privledger))
MOST_FILES = 95  # of everything; the learners' own part is counted for each of them
FITS = [
    (learners.SGBDTRegressor(n_trees=3), 11), (learners.DPBoostRegressor(n_trees=3, depth=2), 9),
    (learners.JointTreeClassifier(), 8), (learners.DiPriMeForestClassifier(n_trees=3), 9),
    (learners.MultinomialForestClassifier(n_trees=3), 9),
    (learners.LabelPrivateClassifier(n_trees=3), 6),
    (learners.PrivateEnsembleClassifier(n_trees=3), 11),
    (learners.PrivateEnsembleClassifier(n_trees=3, setting="pte"), 10),
    (learners.DPSIS(k=2), 4), (learners.DPSISTwoStage(k=2), 4)]


def table_of(regression):
    x = np.linspace(0.0, 1.0, 300)
    kind = (pl.Column("t", "numeric", "target", 0.0, 1.0) if regression else
            pl.Column("t", "categorical", "target", categories=("no", "yes")))
    columns = tuple(pl.Column(name, "numeric", "feature", 0.0, 1.0) for name in "abc")
    X = {"a": x, "b": x[::-1].copy(), "c": x**2}
    y = x if regression else np.where(x > 0.5, "yes", "no")
    return X, y, pl.Schema("t", (*columns, kind))


def files_entered(run):
    """Files of the two packages in which a function was called while `run` ran."""
    seen = set()

    def look(frame, event, _):
        if event == "call":
            seen.add(frame.f_code.co_filename)

    gc.collect()
    gc.disable()  # what other tests left behind is not part of the fit
    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return ({name for name in seen if name.startswith(LEARNERS)},
            {name for name in seen if name.startswith(CORE)})


@pytest.mark.filterwarnings("ignore:these rows")  # other tests fit the same ones
@pytest.mark.parametrize(("learner", "most"), FITS,
                         ids=[f"{type(one).__name__}-{place}" for place, (one, _) in
                              enumerate(FITS)])
def test_a_fit_enters_few_files(learner, most):
    X, y, schema = table_of(learner.info.tasks == ("regression",))
    model = learner.set_params(schema=schema)
    model.fit(X, y)  # what is imported at the first fit is not entered
    own, core = files_entered(lambda: model.fit(X, y))
    assert len(own) <= most, sorted(own)
    assert len(own | core) <= MOST_FILES


def public_definitions(path):
    """(name, docstring) of every public class, function and method of a file."""
    def inside(node):
        for one in ast.iter_child_nodes(node):
            if isinstance(one, ast.ClassDef | ast.FunctionDef) and not one.name.startswith("_"):
                yield one.name, ast.get_docstring(one) or ""
            if isinstance(one, ast.ClassDef):
                yield from inside(one)
    yield from inside(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("folder", [Path(LEARNERS), Path(CORE) / "models",
                                    Path(CORE) / "plugins"], ids=lambda path: path.name)
def test_every_public_name_says_more_than_its_name(folder):
    bare = [f"{path.name}: {name}" for path in sorted(folder.rglob("*.py"))
            for name, said in public_definitions(path)
            if not set(said.lower().replace(".", "").split()) - set(name.lower().split("_"))
            or len(said.split()) < 4]
    assert not bare


def test_no_file_of_the_learners_has_a_name_of_the_core():
    """`rule`, `price`, `leaves`, ...: one word, one sense, so that a reader finds one file."""
    here, there = ({path.name for path in Path(root).rglob("*.py")} - {"__init__.py"}
                   for root in (LEARNERS, CORE))
    assert not here & there
