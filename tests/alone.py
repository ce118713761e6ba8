"""The stand-alone verifier as users have it: built into one file, once a process."""

import atexit
import importlib.util
import shutil
import tempfile
from pathlib import Path

from privledger.standalone.build import one_file

_folder = Path(tempfile.mkdtemp(prefix="privledger-verifier-"))
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
VERIFIER = _folder / "verify_history.py"
VERIFIER.write_text(one_file(), encoding="utf-8")
_spec = importlib.util.spec_from_file_location("verify_history", VERIFIER)
assert _spec is not None and _spec.loader is not None
verify_history = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(verify_history)
