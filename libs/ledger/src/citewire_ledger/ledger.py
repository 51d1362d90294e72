"""The ledger as the callers of providers see it, and two ledgers without a database."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from citewire_kit.errors import CitewireError
from citewire_ledger import metrics
from citewire_ledger.model import CallUsage, NewCall, Outcome, Settlement


class LedgerCall:
    """A running call."""

    def __init__(self, new: NewCall) -> None:
        self.new = new
        self.output_tokens = 0
        """Tokens received so far, by our estimate."""
        self._usage: CallUsage | None = None

    def record_progress(self, output_tokens: int) -> None:
        """Records how many tokens have been received; a call that is cut off is settled by this number."""
        self.output_tokens = output_tokens

    def record_usage(self, usage: CallUsage) -> None:
        """Records what the call used."""
        self._usage = usage

    def settle(self, error: BaseException | None) -> Settlement:
        """Returns how the call ended, with its recorded usage or else our estimate."""
        usage = self._usage or CallUsage(self.new.input_tokens, output_tokens=self.output_tokens, estimated=True)
        if isinstance(error, (asyncio.CancelledError, GeneratorExit)):
            return Settlement(Outcome.CANCELLED, "cancelled", usage)
        if error is not None:
            reason = error.reason if isinstance(error, CitewireError) else type(error).__name__
            return Settlement(Outcome.FAILED, reason, usage)
        return Settlement(Outcome.DONE, "", usage)


class Ledger(ABC):
    """Records a row for each call."""

    @asynccontextmanager
    async def call(self, new: NewCall) -> AsyncGenerator[LedgerCall]:
        """Opens a row and reserves what the call may cost before the block, and settles it after, however it ends.

        The tokens and their cost are counted in the metrics too, here and nowhere else.

        Raises:
            ResourceExhausted: A budget is used up (`BUDGET_EXCEEDED`).
            Unavailable: The row can't be written (`DATABASE_UNAVAILABLE`), so the call must not be made.
        """
        call = LedgerCall(new)
        await self._open(call)
        error: BaseException | None = None
        try:
            yield call
        except BaseException as exc:
            error = exc
            raise
        finally:
            await self._close(call, call.settle(error))

    @abstractmethod
    async def _open(self, call: LedgerCall) -> None:
        """Opens the row of a call."""

    async def _close(self, call: LedgerCall, settlement: Settlement) -> None:
        """Counts a call that has ended; a subclass settles its row."""
        metrics.count(call.new, settlement)


class NoLedger(Ledger):
    """Records nothing except in the metrics.

    Args:
        metered: False for models in this process, which cost nothing.
    """

    def __init__(self, *, metered: bool = True) -> None:
        self._metered = metered

    async def _open(self, call: LedgerCall) -> None:
        del call

    async def _close(self, call: LedgerCall, settlement: Settlement) -> None:
        if self._metered:
            await super()._close(call, settlement)


@dataclass(slots=True)
class Row:
    """One call of a `MemoryLedger`."""

    new: NewCall
    outcome: Outcome = Outcome.OPEN
    reason: str = ""
    usage: CallUsage | None = None


class MemoryLedger(Ledger):
    """Keeps all rows in memory, for tests."""

    def __init__(self) -> None:
        self._rows: dict[LedgerCall, Row] = {}
        self.refuse: CitewireError | None = None
        """Raised instead of opening a row."""

    @property
    def rows(self) -> list[Row]:
        """The rows, in the order in which the calls began."""
        return list(self._rows.values())

    async def _open(self, call: LedgerCall) -> None:
        if self.refuse is not None:
            raise self.refuse
        self._rows[call] = Row(call.new)

    async def _close(self, call: LedgerCall, settlement: Settlement) -> None:
        row = self._rows[call]
        row.outcome, row.reason, row.usage = settlement.outcome, settlement.reason, settlement.usage
        await super()._close(call, settlement)
