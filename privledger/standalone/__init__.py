"""An independent reader of histories: Python's standard library alone, nothing of the package.

    python -m privledger.standalone LEDGER            a SQLite file or an export
    python -I verify_history.py LEDGER                the same in one file, copied anywhere
    python FOLDER LEDGER                              this folder, copied anywhere

`verify_history.py` is made of the other files by `python -m privledger.standalone.build`.
"""
