"""Who answers chunks: processes of this machine, or of a cluster.

An engine carries sealed messages and nothing else: it cannot read one, forge one, or say which
chunk was answered. Everything that has to be right about an answer is checked by the `driver`.
"""

from __future__ import annotations

from privledger.engines.cluster import Dask
from privledger.engines.engine import Engine
from privledger.engines.local import Local
from privledger.engines.pool import Pool

__all__ = ["Dask", "Engine", "Local", "Pool"]
