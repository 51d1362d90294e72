"""Waits for states that send no notification."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

BUSY_SECONDS = 10.0
"""How long something immediate may take on a busy machine: short compared with the minutes that a failure takes."""


async def wait_until(
    condition: Callable[[], bool | Awaitable[bool]], seconds: float = 20, *, every: float = 0.01
) -> None:
    """Waits until a condition holds; the limit allows for a very busy machine."""
    async with asyncio.timeout(seconds):
        while True:
            holds = condition()
            if holds is True or (isinstance(holds, Awaitable) and await holds):
                return
            await asyncio.sleep(every)
