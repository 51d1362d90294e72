"""What calls to models cost, and what they may: read from the ledger, which the services keep."""
