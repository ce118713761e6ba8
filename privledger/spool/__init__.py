"""A table on disk, in pieces: ingested once, read many times, never inferred from.

A spool is a folder that only its owner can open. It holds immutable chunks of encoded rows, and
beside them what questions keep between passes. All of it goes when the table goes.
"""
