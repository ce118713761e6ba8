"""One self-contained HTML page about a ledger: facts as frozen records, then one template."""

from privledger.reports.page.facts import Page, page_of
from privledger.reports.page.people import ShownPerson
from privledger.reports.page.render import (
    Distrusted,
    distrusted,
    page_policy,
    render_distrusted,
    render_page,
)

__all__ = ["Distrusted", "Page", "ShownPerson", "distrusted", "page_of", "page_policy",
           "render_distrusted", "render_page"]
