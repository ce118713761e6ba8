"""Many owners, one learner: each charges its own ledger, and only masked sums leave an owner.

What is promised, and what is not: docs/proofs/federated.md. Needs the extra `federated`.
"""

try:
    import cryptography  # noqa: F401
except ImportError:
    raise ImportError("several owners need the packages cryptography and, to call each other, "
                      "grpcio: pip install 'privledger[federated]'") from None

from privledger.federation.coordinator import Direct as Direct
from privledger.federation.coordinator import Federation as Federation
from privledger.federation.coordinator import InProcess as InProcess
from privledger.federation.coordinator import OwnerLine as OwnerLine
from privledger.federation.enlisted import Owner as Owner
from privledger.federation.enlisted import Run as Run
from privledger.federation.enlisted import new_key as new_key
from privledger.federation.enlisted import public_key as public_key
from privledger.federation.enlisted import verify_statements as verify_statements
from privledger.federation.party import SEED_BITS as SEED_BITS
from privledger.federation.party import MaskedSum as MaskedSum
from privledger.federation.party import Party as Party
from privledger.federation.party import PlainSum as PlainSum
