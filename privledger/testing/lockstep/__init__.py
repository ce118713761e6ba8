"""An audit by replay: every premise of a learner's privacy proof, on real paths of real fits.

docs/proofs/lockstep.md has the theorem.
"""
