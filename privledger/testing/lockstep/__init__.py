"""An audit by replay: every premise of a learner's privacy proof, on real paths of real fits.

docs/proofs/lockstep.md has the theorem. Simulation: NOT PRIVATE, on tables of the kit only.
"""

from privledger.testing.lockstep.kept import Broken as Broken
from privledger.testing.lockstep.lock import Lock as Lock
from privledger.testing.lockstep.locking import Verdict as Verdict
from privledger.testing.lockstep.locking import lockstep as lockstep
from privledger.testing.lockstep.witnesses import replay_witness as replay_witness
