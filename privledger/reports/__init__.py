"""What the ledger and a plan look like to a reader: frozen records, no printing."""

from privledger.ledger.view import ReleaseLine as ReleaseLine
from privledger.ledger.view_figures import clean as clean
from privledger.ledger.view_figures import plain as plain
from privledger.reports.outline import Outline as Outline
from privledger.reports.outline import leaves as leaves
from privledger.reports.outline import outline as outline
from privledger.reports.outline import release_count as release_count
from privledger.reports.receipt import Past as Past
from privledger.reports.receipt import load_receipt as load_receipt
from privledger.reports.receipt import receipt_is_in_history as receipt_is_in_history
from privledger.reports.spend import GrantReport as GrantReport
from privledger.reports.spend import LedgerReport as LedgerReport
from privledger.reports.spend import audited as audited
from privledger.reports.spend import ledger_report as ledger_report
from privledger.reports.survey import Survey as Survey
from privledger.reports.survey import survey as survey
