"""What the ledger and a plan look like to a reader: frozen records, no printing."""

from privledger.reports.outline import Outline, leaves, outline, release_count
from privledger.reports.plain import clean, plain
from privledger.reports.pricing import Price, price_plan
from privledger.reports.receipt import head_is_in_history, load_receipt, receipt_is_in_history
from privledger.reports.spend import GrantReport, LedgerReport, ReleaseLine, ledger_report

__all__ = [
    "GrantReport",
    "LedgerReport",
    "Outline",
    "Price",
    "ReleaseLine",
    "clean",
    "head_is_in_history",
    "leaves",
    "ledger_report",
    "load_receipt",
    "outline",
    "plain",
    "price_plan",
    "receipt_is_in_history",
    "release_count",
]
