"""Private baselines that the papers compare with: sound plugins in their printed form."""

from __future__ import annotations

from privledger_papers.forms import Maker

BASELINES: dict[tuple[str, str], Maker] = {}
"""By paper and system."""
