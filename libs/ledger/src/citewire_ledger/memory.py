"""Ledgers without a database: one that remembers, for tests, and one that doesn't."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from citewire_kit.errors import CitewireError
from citewire_ledger.ledger import Ledger, LedgerCall
from citewire_ledger.model import NewCall, Outcome, Spent


@dataclass(slots=True)
class Row:
    """One call."""

    new: NewCall
    outcome: Outcome = Outcome.OPEN
    reason: str = ""
    spent: Spent | None = None


class MemoryLedger(Ledger):
    """Keeps all rows.

    Attributes:
        rows: In the order in which the calls began.
        refuse: Raised instead of opening a row.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.refuse: CitewireError | None = None

    @asynccontextmanager
    async def call(self, new: NewCall) -> AsyncGenerator[LedgerCall]:
        """See `Ledger.call`."""
        if self.refuse is not None:
            raise self.refuse
        row, call = Row(new), LedgerCall()
        self.rows.append(row)
        try:
            yield call
        except (asyncio.CancelledError, GeneratorExit):
            row.outcome, row.reason = Outcome.CANCELLED, "cancelled"
            raise
        except BaseException as exc:
            row.outcome = Outcome.FAILED
            row.reason = exc.reason if isinstance(exc, CitewireError) else type(exc).__name__
            raise
        else:
            row.outcome, row.reason = (Outcome.FAILED, call.reason) if call.reason else (Outcome.DONE, "")
        finally:
            row.spent = call.usage or Spent(new.input_tokens, output_tokens=call.output_tokens, estimated=True)


class NoLedger(Ledger):
    """Keeps nothing."""

    @asynccontextmanager
    async def call(self, new: NewCall) -> AsyncGenerator[LedgerCall]:
        """See `Ledger.call`."""
        del new
        yield LedgerCall()
