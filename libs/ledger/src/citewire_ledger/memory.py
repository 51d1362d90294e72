"""Ledgers without a database: one that remembers, for tests, and one that doesn't."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from citewire_kit.errors import CitewireError
from citewire_ledger import metrics
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
        error: BaseException | None = None
        try:
            yield call
        except BaseException as exc:
            error = exc
            raise
        finally:
            settlement = call.settlement(new, error)
            row.outcome, row.reason, row.spent = settlement.outcome, settlement.reason, settlement.spent
            metrics.count(new, settlement)


class NoLedger(Ledger):
    """Keeps nothing; the metrics count all the same.

    Args:
        counted: False for models in this process, whose tokens nobody pays.
    """

    def __init__(self, *, counted: bool = True) -> None:
        self._counted = counted

    @asynccontextmanager
    async def call(self, new: NewCall) -> AsyncGenerator[LedgerCall]:
        """See `Ledger.call`."""
        call = LedgerCall()
        error: BaseException | None = None
        try:
            yield call
        except BaseException as exc:
            error = exc
            raise
        finally:
            if self._counted:
                metrics.count(new, call.settlement(new, error))
