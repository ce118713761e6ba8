"""A table: its public schema, where its rows come from, how the guard reads and keeps them.

The schema and the bins that follow from it are public facts. A source gives rows in batches, and
a chunk is what the guard reads. A spool is a folder that only its owner can open: it holds
immutable chunks of encoded rows, and beside them what questions keep between passes; all of it
goes when the table goes. An id of a person never goes further than the function that reads it:
what a ledger keeps is a keyed digest (`ids`), made with a key that no ledger keeps (`keys`).
"""
