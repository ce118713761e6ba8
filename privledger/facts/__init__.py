"""Public facts about a table: its columns and bounds, and the bins that follow from them."""

from privledger.facts.bins import Bins
from privledger.facts.columns import MISSING, Columns, has_label
from privledger.facts.schema import Column, Schema

__all__ = ["MISSING", "Bins", "Column", "Columns", "Schema", "has_label"]
