"""One self-contained HTML page about a ledger: facts as frozen records, then one template."""

from privledger.reports.page.facts import Page as Page
from privledger.reports.page.facts import distrusted as distrusted
from privledger.reports.page.facts import page_of as page_of
from privledger.reports.page.people import ShownPerson as ShownPerson
from privledger.reports.page.render import page_policy as page_policy
from privledger.reports.page.render import render_page as render_page
