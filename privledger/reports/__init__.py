"""What the ledger and a plan look like to a reader: frozen records, no printing."""

from privledger.ledger.view import ReleaseLine
from privledger.ledger.view_figures import clean, plain
from privledger.reports.outline import Outline, leaves, outline, release_count
from privledger.reports.pricing import PriceFigures, price_plan
from privledger.reports.receipt import Past, load_receipt, receipt_is_in_history
from privledger.reports.spend import GrantReport, LedgerReport, audited, ledger_report
from privledger.reports.survey import Survey, survey

__all__ = ["GrantReport", "LedgerReport", "Outline", "Past", "PriceFigures", "ReleaseLine",
           "Survey", "audited", "clean", "leaves", "ledger_report", "load_receipt",
           "outline", "plain", "price_plan", "receipt_is_in_history", "release_count",
           "survey"]
