"""An audit by replay: every premise of a learner's privacy proof, on real paths of real fits.

docs/proofs/lockstep.md has the theorem. Simulation: NOT PRIVATE, on tables of the kit only.
"""

from privledger.testing.lockstep.kept import Broken
from privledger.testing.lockstep.lock import Lock
from privledger.testing.lockstep.locking import Verdict, lockstep
from privledger.testing.lockstep.witnesses import replay_witness

__all__ = ["Broken", "Lock", "Verdict", "lockstep", "replay_witness"]
