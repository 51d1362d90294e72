"""Tokens that the running call spends: the code that counts them needn't know the code that limits them."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Spending:
    """Tokens spent by a chat or call."""

    tokens: int
    """Prompt and completion, or input; the reserved amount until the actual one is known."""


_spending: ContextVar[Spending | None] = ContextVar("citewire_spending", default=None)


@contextmanager
def note_spending(spending: Spending) -> Generator[None]:
    """Adds tokens spent inside the block, also by tasks that it starts, to `spending`."""
    token = _spending.set(spending)
    try:
        yield
    finally:
        _spending.reset(token)


def spend_tokens(count: int) -> None:
    """Records tokens spent by the running call; outside of one it does nothing."""
    spending = _spending.get()
    if spending is not None:
        spending.tokens += count
