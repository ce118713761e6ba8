"""`python -m privledger.standalone LEDGER`, or `python FOLDER LEDGER` where it was copied to."""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    if not __package__:  # run as a folder: let the files find each other by its name
        sys.path[0] = str(here.parent)
    package = __package__ or here.name
    sys.exit(importlib.import_module(f"{package}.verifier").main())
