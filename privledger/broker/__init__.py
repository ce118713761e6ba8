"""A learner in a process of its own: it describes queries, its owner answers them.

What it protects against, and how: docs/isolation.md.
"""

from privledger.broker.allowance import DEFAULTS, Limits
from privledger.broker.remote import PATIENCE, RemoteLearner
from privledger.broker.server import ISOLATION

__all__ = ["DEFAULTS", "ISOLATION", "PATIENCE", "Limits", "RemoteLearner"]
