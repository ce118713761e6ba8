"""The cheats are modules of a package of their own, so that each can be scanned and pickled."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
