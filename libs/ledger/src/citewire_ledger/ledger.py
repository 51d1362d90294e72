"""What the ledger is to those who call providers."""

import asyncio
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from citewire_kit.errors import CitewireError
from citewire_ledger.model import NewCall, Outcome, Spent


@dataclass(frozen=True, slots=True)
class Settlement:
    """What is written when a call has ended."""

    outcome: Outcome
    reason: str
    spent: Spent


class LedgerCall:
    """One call while it runs."""

    def __init__(self) -> None:
        self.output_tokens = 0
        """Tokens that have come so far, by our estimate."""
        self.usage: Spent | None = None
        """What was spent in the end, if that is known."""
        self.reason = ""
        """Why it failed, where no error says so."""

    def progress(self, output_tokens: int) -> None:
        """Notes how many tokens have come so far: what a call that is cut off is settled by."""
        self.output_tokens = output_tokens

    def spent(self, spent: Spent) -> None:
        """Notes what was spent."""
        self.usage = spent

    def outcome(self, reason: str) -> None:
        """Notes that the call failed although no error leaves the block."""
        self.reason = reason

    def settlement(self, new: NewCall, error: BaseException | None) -> Settlement:
        """Returns how the call ended: what it spent is what it said, or else our estimate."""
        spent = self.usage or Spent(new.input_tokens, output_tokens=self.output_tokens, estimated=True)
        if isinstance(error, (asyncio.CancelledError, GeneratorExit)):
            return Settlement(Outcome.CANCELLED, "cancelled", spent)
        if error is not None:
            reason = error.reason if isinstance(error, CitewireError) else type(error).__name__
            return Settlement(Outcome.FAILED, reason, spent)
        return Settlement(Outcome.FAILED if self.reason else Outcome.DONE, self.reason, spent)


class Ledger(ABC):
    """Keeps a row of each call."""

    @abstractmethod
    def call(self, new: NewCall) -> AbstractAsyncContextManager[LedgerCall]:
        """Opens a row, and reserves what the call may cost, before the block; settles it after, whatever happened.

        The tokens and their cost are counted in the metrics too, here and nowhere else.

        Raises:
            ResourceExhausted: A budget is spent (`BUDGET_EXCEEDED`).
            Unavailable: The row can't be written (`DATABASE_UNAVAILABLE`): then the call must not be made.
        """
