"""Where a history is kept."""

from privledger.storage.memory import MemoryStore
from privledger.storage.sqlite import SQLiteStore

__all__ = ["MemoryStore", "SQLiteStore"]
