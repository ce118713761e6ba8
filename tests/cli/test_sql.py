"""SQL -> summaries: what is said comes out; what is not supported is refused with its place."""

import pytest

import privledger as pl
from privledger.cli.sql import UnsupportedSQL, statements
from tests.all_cases import all_cases
from tests.worlds import refused

SCHEMA = pl.Schema("people", (
    *(pl.Column(name, "numeric", "feature", 0.0, 100.0) for name in ("age", "pay", "Odd name")),
    *(pl.Column(name, "categorical", "feature", categories=("a", "b"))
      for name in ("region", "job"))))


class Said:
    """What was called, and with what."""

    def __init__(self, *said):
        self.said = said

    def __and__(self, other):
        return Said("and", self, other)

    def __or__(self, other):
        return Said("or", self, other)

    def __invert__(self):
        return Said("not", self)

    def __eq__(self, other):
        return (self.said if isinstance(other, Said) else self.plain()) == (
            other.said if isinstance(other, Said) else other)

    __hash__ = None

    def plain(self):
        return tuple(one.plain() if isinstance(one, Said) else one for one in self.said)


class Names:
    """Constructors that say how they were called."""

    def __getattr__(self, name):
        return lambda *given, **named: Said(name, *given, *([named] if named else []))


def read(text):
    return statements(text, SCHEMA, Names())


def test_every_statistic_is_read():
    (found,) = read(
        "select Region, avg(pay) as wage, sum(pay), count(*), count(job), "
        "min(pay), max(pay), median(pay), variance(pay), stddev(pay), corr(pay, age), "
        "quantile(pay, .25), percentile_cont(0.5) within group (order by pay), histogram(age), "
        "histogram(age, 10, -20.5), avg(\"Odd name\") from people group by region, "
        "cut(age, 18, 30)")
    assert list(found.statistics) == [
        ("mean", "pay", {"label": "wage"}), ("sum", "pay"), ("count",), ("count", "job"),
        ("min", "pay"), ("max", "pay"), ("median", "pay"), ("var", "pay"),
        ("std", "pay"), ("corr", "pay", "age"), ("quantile", "pay", 0.25),
        ("quantile", "pay", 0.5), ("histogram", "age"), ("histogram", "age", [10, -20.5]),
        ("mean", "Odd name")]
    assert list(found.by) == ["region", ("cut", "age", [18, 30])] and found.where is None


def test_every_condition_is_read():
    (found,) = read("select count(*) from t where age between 30 and 60 and not (job in ('a', 'b')"
                    " or pay is not null) and age <> 5 and 7 <= pay and job = 'it''s'")
    assert found.where == (
        "and", ("and", ("and", ("and", ("between", "age", 30, 60),
                                ("not", ("or", ("isin", "job", ["a", "b"]),
                                         ("not", ("missing", "pay"))))),
                        ("compare", "age", "!=", 5)), ("compare", "pay", ">=", 7)),
        ("compare", "job", "==", "it's"))


def test_several_statements_and_long_chains():
    first, second = read("select count(*) from t; select avg(pay) from t;")
    assert first.text != second.text and len(second.statistics) == 1
    (found,) = read("select count(*) from t where " + " or ".join(["age = 1"] * 3000))
    assert found.where.said[0] == "or"


@all_cases(("text", "place"), [
    ("select avg(pay + 1) from t", (1, 12)), ("select region, count(*) from t", (1, 8)),
    ("select count(*) from t having count(*) > 1", (1, 31)),
    ("select count(*) from t order by 1", (1, 33)), ("select count(*) from t limit 3", (1, 30)),
    ("select count(*)\nfrom a join b on a.x = b.x", (2, 13)),
    ("select count(*) from a, b", (1, 25)), ("select distinct region from t", (1, 17)),
    ("select count(*) from (select 1)", (1, 30)), ("select nope(pay) from t", (1, 8)),
    ("select avg(wage) from t", (1, 12)), ("delete from t", (1, 13)), ("select 1", (1, 8)),
    ("select count(*) from t where age like 'x'", (1, 30)),
    ("select count(*) from t\n  where age > pay", (2, 15)),
    ("with a as (select 1) select count(*) from a", (1, 6)),
    ("select count(*) over () from t", (1, 8)), ("select * from t", (1, 8)),
    ("select count(*) filter (where age > 3) from t", (1, 8)),
    ("select count(*) from t; drop table t", (1, 36)), ("select (", (1, 8)),
    ("select count(*) from t union select count(*) from t", (1, 8)),
    ("select sum(distinct pay) from t", (1, 21)), ("select count(*)", (1, 8)),
    ("select count(*) from t where age in (select 1)", (1, 30)),
    ("select count(*) from t group by rollup(region)", (1, 40)),
    ("select count(*) from t group by 1", (1, 33)), ("select count(1) from t", (1, 14)),
    ("select count(*) from t tablesample (10 percent)", (1, 22)),
    ("select count(*) from db.t", (1, 22)), ("select count(distinct age, pay) from t", (1, 23)),
    ("select count(distinct job) from t", (1, 23)),
    ("select percentile_cont(.5) within group (order by pay desc) from t", (1, 51)),
    ("select count(*) from t where age between symmetric 3 and 4", (1, 30)),
    ("select count(*) from t where age = null", (1, 30)), ("select region from t group by region",
                                             (1, 8)),
    ("select histogram(age, 'x') from t", (1, 8))])
def test_what_is_not_supported_is_refused_with_its_place(text, place):
    with pytest.raises(UnsupportedSQL) as caught:
        read(text)
    line, column = place
    assert caught.value.message.startswith(f"line {line}, column {column}: ")
    assert "Supported: select of group columns" in caught.value.message
    assert "Nothing was read" in caught.value.message


@pytest.mark.parametrize("text", ["", ";", "   ", "-- nothing"])
def test_nothing_is_no_statement(text):
    refused(UnsupportedSQL, lambda: read(text), match="no statement")


def test_deep_nesting_is_refused_in_words():
    with pytest.raises(UnsupportedSQL, match="parentheses"):
        read("select count(*) from t where " + "(" * 5000 + "age = 1" + ")" * 5000)
