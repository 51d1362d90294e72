"""What the ledger is to those who call providers."""

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager

from citewire_ledger.model import NewCall, Spent


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


class Ledger(ABC):
    """Keeps a row of each call."""

    @abstractmethod
    def call(self, new: NewCall) -> AbstractAsyncContextManager[LedgerCall]:
        """Opens a row, and reserves what the call may cost, before the block; settles it after, whatever happened.

        Raises:
            ResourceExhausted: A budget is spent (`BUDGET_EXCEEDED`).
            Unavailable: The row can't be written (`DATABASE_UNAVAILABLE`): then the call must not be made.
        """
