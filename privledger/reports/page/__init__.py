"""One self-contained HTML page about a ledger: facts as frozen records, then one template."""

from privledger.reports.page.facts import Page, distrusted, page_of
from privledger.reports.page.people import ShownPerson
from privledger.reports.page.render import page_policy, render_page

__all__ = ["Page", "ShownPerson", "distrusted", "page_of", "page_policy", "render_page"]
