"""Accounting: one row for each attempt at a paid or remote provider, opened before it and settled after it."""

from citewire_ledger.ledger import Ledger, LedgerCall, MemoryLedger, NoLedger
from citewire_ledger.model import CallUsage, NewCall, Outcome, Price, Purpose
from citewire_ledger.postgres import PostgresLedger, open_ledger
from citewire_ledger.settings import LedgerSettings

__all__ = [
    "CallUsage",
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
    "open_ledger",
]
