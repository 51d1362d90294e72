"""The schema `ledger` and its migrations."""

from citewire_kit.migrate import OwnedSchema

SCHEMA = OwnedSchema("ledger", package="citewire_ledger", prefix="CITEWIRE_LEDGER_")
