"""What is said to somebody who mixes things up: what is wrong, then what to do. Never a value."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import privledger_learners as learners
import pytest
import scipy.sparse as sparse
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split

import privledger as pl
from tests.all_cases import all_cases
from tests.worlds import refused, schema_of

SCHEMA = schema_of("t", {"x": (0, 10), "job": ["a", "b"]}, bought=["no", "yes"])
FRAME = pd.DataFrame({"x": [1.0, 2.0, 3.0], "job": list("aba"), "bought": ["no", "yes", "no"]})
SECRET = "SECRET77"


def protect(*given, **named):
    return pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6)).protect(*given, **named)


MIXED_UP = {
    "y a name": ((FRAME, "bought", SCHEMA), "target=NAME"),
    "schema second, name third": ((FRAME, SCHEMA, "bought"), "protect.table, target, schema"),
    "schema first": ((SCHEMA, FRAME), "protect.table, target, schema"),
    "schema first of three": ((SCHEMA, FRAME, FRAME["bought"]), "protect.table, target, schema"),
    "a schema's file": ((FRAME, FRAME["bought"], "schema.json"), "Schema.load"),
    "a path": (("table.csv", None, SCHEMA), "read_table.*scan_csv"),
    "a Path": ((Path("table.parquet"), None, SCHEMA), "read_table.*scan_parquet"),
    "sparse": ((sparse.csr_matrix(np.eye(2)), None, SCHEMA), "sparse.*toarray"),
    "a sparse array": ((sparse.coo_array(np.eye(2)), None, SCHEMA), "sparse.*toarray"),
    "a sparse target": ((FRAME, sparse.csr_matrix(np.eye(3)[:, :1]), SCHEMA), "sparse.*toarray"),
    "capitals": ((FRAME.rename(columns={"x": "X"}), None, SCHEMA),
                 "missing column x.*did you mean .*capitals"),
    "spaces": ((FRAME.rename(columns={"x": " x "}), None, SCHEMA), "missing column x.*spaces"),
    "another name": ((FRAME.rename(columns={"x": SECRET}), None, SCHEMA), "^missing column x$")}


@all_cases("name", MIXED_UP)
def test_arguments_that_were_mixed_up_are_told_apart(name):
    given, said = MIXED_UP[name]
    with pytest.raises((pl.errors.DataError, pl.InvalidValue), match=said) as caught:
        protect(*given)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("given", [sparse.csr_matrix(np.eye(2)), "table.csv"],
                         ids=["sparse", "path"])
def test_a_learner_says_the_same(given):
    learner = learners.JointTreeClassifier(schema=SCHEMA)
    refused(pl.errors.DataError, lambda: learner.fit(given, ["no", "yes"]), match="is a")
    learner = learners.JointTreeClassifier(schema=SCHEMA, epsilon=100.0).fit(FRAME, FRAME["bought"])
    refused(pl.errors.DataError, lambda: learner.predict(given), match="is a")


def test_names_of_the_schema_in_other_letters():
    data = protect(FRAME, None, SCHEMA)
    for ask, meant in ((lambda: data.histogram("JOB"), "'job'"), (lambda: data.sum("X"), "'x'"),
                       (lambda: data.cells("jobb"), "'job'")):
        with pytest.raises(pl.SchemaError, match=f"did you mean {meant}"):
            ask()


@pytest.mark.parametrize("cut", [
    lambda model, data: cross_val_score(model, data), lambda model, data: train_test_split(data),
    lambda model, data: GridSearchCV(model, {"depth": [1, 2]}).fit(data),
    lambda model, data: np.asarray(data)])
def test_a_handle_in_a_search_says_what_to_do_instead(cut):
    data = protect(FRAME, FRAME["bought"], SCHEMA)
    with pytest.raises(TypeError, match="PrivateSearchCV"):
        cut(learners.JointTreeClassifier(schema=SCHEMA), data)


CLASSIFIERS = [name for name in dir(learners) if name.endswith("Classifier")]


@all_cases("name", CLASSIFIERS)
def test_one_declared_class_is_said_as_such(name):
    schema = schema_of("t", {"x": (0, 10)}, y=["only"])
    learner = getattr(learners, name)(schema=schema)
    refused(pl.SchemaError, lambda: learner.plan(schema), match="at least two categories")


def test_a_question_about_one_category_says_so():
    schema = schema_of("t", {"x": (0, 10)}, y=["only"])
    data = protect({"x": [1.0]}, ["only"], schema)
    book = data.ledger
    with pytest.raises(pl.SchemaError, match="'y' has one category"), book.request(
            pl.Laplace(5.0), data) as session:
        session.release(pl.Laplace(5.0), data.query(
            [pl.questions.Ones()], cells=pl.questions.CategoryCells("", 1)))


@pytest.mark.parametrize("value", [4097, 10**17, 10**40])
def test_a_count_that_is_too_large_is_shown_where_it_can_be(value):
    from privledger.rounding import count

    with pytest.raises(pl.InvalidValue, match="at most 4096") as caught:
        count("steps", value, most=4096)
    assert (str(value) if value < 10**18 else "a huge integer") in str(caught.value)


ROWS = b"1,a\n" * 300_000
FILES = {
    "one cell": ("a.csv", b"z", "missing column x, job$"),
    "a wide row": ("a.csv", b"x,job\n" + ROWS + b"1," + b"a" * (3 << 20) + b"\n" + ROWS,
                   "a row is longer than 1 MB"),
    "a wide header": ("a.csv", b"x,job," + b"x" * (17 << 20) + b"\n1,a,1\n",
                      "header row is longer than 16 MB"),
    "a cut archive": ("a.csv.gz", gzip.compress(b"x,job\n" + b"1,a\n" * 9000)[:-30],
                      "gzip file .* cut off, or damaged"),
    "no archive": ("a.csv.gz", b"x,job\n1,a\n", "gzip file"),
    "an archive": ("a.csv", gzip.compress(b"x,job\n1,a\n"), "name has to end with .csv.gz"),
    "Latin 1": ("a.csv", "x,job\n1,\xe9\n".encode("latin-1"), "a.csv: not a CSV file in UTF-8$"),
    "UTF-16": ("a.csv", "x,job\n1,a\n".encode("utf-16"), "not UTF-8 .UTF-16"),
    "a short row": ("a.csv", b"x,job\n1,a\n1\n", "rows of different lengths"),
    "nothing": ("a.csv", b"", "no header row"),
    "capitals": ("a.csv", b"X,JOB\n1,a\n", "missing column x, job.*did you mean")}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_refused_for_its_true_reason(tmp_path, name):
    end, content, said = FILES[name]
    place = tmp_path / end
    place.write_bytes(content)
    refused(pl.errors.DataError, lambda: protect(pl.scan_csv(place), None, SCHEMA), match=said)
