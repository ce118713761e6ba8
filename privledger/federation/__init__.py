"""Many owners, one learner: each charges its own ledger, and only masked sums leave an owner.

What is promised, and what is not: docs/proofs/federated.md. Needs the extra `federated`.
"""

try:
    import cryptography  # noqa: F401
except ImportError:
    raise ImportError("several owners need the packages cryptography and, to call each other, "
                      "grpcio: pip install 'privledger[federated]'") from None

from privledger.federation.coordinator import Direct, Federation, InProcess, OwnerLine
from privledger.federation.enlisted import Owner, Run, new_key, public_key, verify_statements
from privledger.federation.party import SEED_BITS, MaskedSum, Party, PlainSum

__all__ = [
    "SEED_BITS",
    "Direct",
    "Federation",
    "InProcess",
    "MaskedSum",
    "Owner",
    "OwnerLine",
    "Party",
    "PlainSum",
    "Run",
    "new_key",
    "public_key",
    "verify_statements",
]
