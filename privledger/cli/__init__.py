"""The command line: parsing and printing only."""

from privledger.cli.app import main

__all__ = ["main"]
