"""Imports an inside of the package, for nothing."""

from cheats.honest import NoisyMean
from privledger.guard.creating import MODES


class UsesInsides(NoisyMean):
    modes = MODES
