"""Accounting: one row for each attempt at a paid or remote provider, opened before it and settled after it."""

from citewire_ledger.ledger import Ledger, LedgerCall, Settlement
from citewire_ledger.memory import MemoryLedger, NoLedger, Row
from citewire_ledger.model import NewCall, Outcome, Price, Purpose, Spent
from citewire_ledger.postgres import PostgresLedger, open_ledger
from citewire_ledger.settings import LedgerSettings

__all__ = [
    "Ledger",
    "LedgerCall",
    "LedgerSettings",
    "MemoryLedger",
    "NewCall",
    "NoLedger",
    "Outcome",
    "PostgresLedger",
    "Price",
    "Purpose",
    "Row",
    "Settlement",
    "Spent",
    "open_ledger",
]
