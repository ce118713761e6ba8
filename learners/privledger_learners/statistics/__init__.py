"""Statistics of a private table: what may be asked, how it is planned, and labelled answers."""

from privledger_learners.statistics.answers import AnswerForecast, AnswerRow, AnswerTable
from privledger_learners.statistics.expressions import (
    AllOf,
    AnyOf,
    Compare,
    Cut,
    IsIn,
    IsMissing,
    Not,
    Predicate,
    Statistic,
    between,
    col,
    compare,
    corr,
    count,
    crosstab,
    cut,
    histogram,
    isin,
    max,
    mean,
    median,
    min,
    missing,
    quantile,
    std,
    sum,
    var,
)
from privledger_learners.statistics.summary import Summary, summary

__all__ = ["AllOf", "AnswerForecast", "AnswerRow", "AnswerTable", "AnyOf", "Compare", "Cut", "IsIn",
           "IsMissing", "Not", "Predicate", "Statistic", "Summary", "between", "col", "compare",
           "corr", "count", "crosstab", "cut", "histogram", "isin", "max", "mean", "median", "min",
           "missing", "quantile", "std", "sum", "summary", "var"]
