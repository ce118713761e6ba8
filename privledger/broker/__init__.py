"""A learner in a process of its own: it describes queries, its owner answers them.

What it protects against, and how: docs/isolation.md.
"""

from privledger.broker.allowance import DEFAULTS as DEFAULTS
from privledger.broker.allowance import Limits as Limits
from privledger.broker.remote import PATIENCE as PATIENCE
from privledger.broker.remote import RemoteLearner as RemoteLearner
from privledger.broker.server import ISOLATION as ISOLATION
