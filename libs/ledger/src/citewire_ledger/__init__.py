"""Accounting: one row for each attempt at a paid or remote provider, opened before it and settled after it."""

from citewire_ledger.ledger import Ledger, LedgerCall
from citewire_ledger.memory import MemoryLedger, NoLedger, Row
from citewire_ledger.model import NewCall, Outcome, Price, Purpose, Spent

__all__ = [
    "Ledger",
    "LedgerCall",
    "MemoryLedger",
    "NewCall",
    "NoLedger",
    "Outcome",
    "Price",
    "Purpose",
    "Row",
    "Spent",
]
