"""A schema from a data dictionary: what it says, and nothing of any table."""

import tomllib

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import privledger as pl
from privledger.cli.app import main
from privledger.errors import DataDerived
from privledger.tables.dictionary import schema_of_dictionary, schema_toml
from tests.all_cases import all_cases

OWN = """name,kind,lower,upper,categories,missing,ordered,provenance
age,integer,18,90,,no,,physical
job,categorical,,,nurse|clerk|smith,yes,,
grade,ordinal,,,low;mid;high,,yes,
pay,numeric,0,1e5,,,,
"""
REDCAP = """"Variable / Field Name","Field Type","Text Validation Min","Text Validation Max",\
"Choices, Calculations, OR Slider Labels","Identifier?"
record_id,text,,,,y
dose,slider,0,100,,
sex,radio,,,"1, female | 2, male",
smoker,yesno,,,,
visit,date,,,,
"""


def test_a_dictionary_says_it_all():
    schema = schema_of_dictionary(OWN, name="people", target="pay", expected_rows=900)
    assert [column.name for column in schema.features] == ["age", "job", "grade"]
    age, job, grade, pay = schema.columns
    assert age.integer and (age.lower, age.upper, age.provenance) == (18, 90, "physical")
    assert job.missing and job.categories == ("nurse", "clerk", "smith")
    assert grade.ordered and grade.provenance == "declared"
    assert pay.role == "target" and pay.upper == 1e5 and schema.expected_rows == 900


def test_a_form_of_redcap_is_read_by_its_codes():
    schema = schema_of_dictionary(REDCAP, name="trial", target="smoker")
    roles = {column.name: column.role for column in schema.columns}
    assert roles == {"record_id": "ignore", "dose": "feature", "sex": "feature",
                     "smoker": "target", "visit": "ignore"}
    assert schema.columns[2].categories == ("1", "2")


@pytest.mark.parametrize("text", [
    "age,job,pay\n33,nurse,20\n", "", "name,kind\n", "33,nurse\n34,clerk\n", "name\nage\n"])
def test_a_table_is_no_dictionary_and_none_of_it_is_told(text):
    with pytest.raises(pl.SchemaError) as error:
        schema_of_dictionary(text, name="t")
    assert "nurse" not in str(error.value) and "33" not in str(error.value)


def test_everything_that_is_missing_is_named_at_once():
    text = "name,kind,lower,upper\na,numeric,0,\nb,categorical,,\nc,integer,,5\n"
    with pytest.raises(pl.SchemaError, match="not from the data") as error:
        schema_of_dictionary(text, name="t")
    for what in ("'a' needs an upper bound", "'b' needs a list of", "'c' needs a lower bound"):
        assert what in str(error.value)


@all_cases("line", [
    "a,numeric,nan,1,,,", "a,numeric,0,inf,,,", "a,numeric,x,1,,,", "a,numeric,2,1,,,",
    "a,wavelet,0,1,,,", ",numeric,0,1,,,", "a,categorical,,,x|x,,", "a,numeric,0,1,,maybe,",
    "a,numeric,0,1,,,,,,,", "a,string,,,,,"])
def test_what_can_never_be_right_is_refused(line):
    with pytest.raises(pl.SchemaError):
        schema_of_dictionary(f"name,kind,lower,upper,categories,missing,ordered\n{line}\n",
                             name="t")


def test_bounds_that_were_read_off_the_data_are_refused():
    with pytest.raises(DataDerived):
        schema_of_dictionary("name,kind,lower,upper,provenance\na,numeric,0,1,observed\n", name="t")


TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)


@given(st.lists(TEXT, min_size=1, max_size=4, unique=True),
       st.floats(-1e9, 0), st.floats(1e-3, 1e9), st.booleans())
def test_what_is_written_reads_back(names, lower, upper, missing):
    columns = tuple(pl.Column(name, "numeric", "feature", lower, upper, missing=missing)
                    for name in names)
    text = pl.Column("\x00" + "".join(names), "categorical", "target", categories=("a\"", "\\", 3))
    schema = pl.Schema("t\n", (*columns, text))
    assert pl.Schema.from_dict(tomllib.loads(schema_toml(schema))) == schema


def test_the_command_writes_once_and_reads_no_table(tmp_path):
    (tmp_path / "d.csv").write_text(OWN)
    place = tmp_path / "s.toml"
    args = ["init", str(place), "--from", str(tmp_path / "d.csv"), "--target", "pay"]
    assert CliRunner().invoke(main, args).exit_code == 0
    schema = pl.Schema.load(place)
    assert schema.target.name == "pay" and schema.name == "s"
    assert CliRunner().invoke(main, args).exit_code == 2  # never overwritten
    other = tmp_path / "o.toml"
    again = CliRunner().invoke(main, ["init", str(other), "--from", str(place), "--target", "job",
                                      "--name", "o"])
    assert again.exit_code == 0 and pl.Schema.load(other).target.name == "job"
    (tmp_path / "table.csv").write_text("age,job\n33,nurse\n")
    bad = CliRunner().invoke(main, ["init", str(tmp_path / "x.toml"), "--from",
                                    str(tmp_path / "table.csv")])
    assert bad.exit_code == 2 and "nurse" not in bad.output
    assert not (tmp_path / "x.toml").exists()


def test_questions_make_a_schema(tmp_path):
    place = tmp_path / "q.toml"
    answers = "age\ninteger\n18\n90\njob, now\ncategorical\na|b\n\n"
    done = CliRunner().invoke(main, ["init", str(place), "--target", "job, now"], input=answers)
    assert done.exit_code == 0, done.output
    assert [column.name for column in pl.Schema.load(place).columns] == ["age", "job, now"]


@pytest.mark.parametrize(("cell", "categories"), [
    ("male, female", ("male", "female")), ("a,b,c", ("a", "b", "c")), ("a|b", ("a", "b")),
    ("New York, NY; Boston, MA", ("New York, NY", "Boston, MA")), ("1, yes | 2, no", ("1", "2")),
    ("a|b, c|d", ("a", "b, c", "d"))])
def test_categories_are_separated_by_what_separates_them(cell, categories):
    made = schema_of_dictionary(f'name,kind,categories\nc,categorical,"{cell}"\n', name="t")
    assert made.columns[0].categories == categories


def test_two_columns_that_say_the_same_are_refused():
    with pytest.raises(pl.SchemaError, match="give lower"):
        schema_of_dictionary("name,kind,lower,upper,min\nx,numeric,0,1,5\n", name="t")


def test_a_schema_without_a_target_is_asked_for(tmp_path):
    (tmp_path / "d.csv").write_text("name,kind,lower,upper\nx,numeric,0,1\n")
    args = ["init", str(tmp_path / "s.toml"), "--from", str(tmp_path / "d.csv")]
    bad = CliRunner().invoke(main, args)
    assert bad.exit_code == 2 and "--target" in bad.output and not (tmp_path / "s.toml").exists()
    assert CliRunner().invoke(main, [*args, "--target", ""]).exit_code == 0
    (tmp_path / "r.csv").write_text("name,kind,lower,upper,role\nx,numeric,0,1,\n"
                                    "y,numeric,0,1,target\n")
    args = ["init", str(tmp_path / "r.toml"), "--from", str(tmp_path / "r.csv")]
    assert CliRunner().invoke(main, args).exit_code == 0
    answers = "x\nnumeric\n0\n1\ny\nnumeric\n0\n1\n\ny\n"
    assert CliRunner().invoke(main, ["init", str(tmp_path / "q.toml")],
                              input=answers).exit_code == 0
    assert pl.Schema.load(tmp_path / "q.toml").target.name == "y"
