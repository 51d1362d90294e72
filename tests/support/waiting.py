"""Waits for states that nothing announces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

BUSY_SECONDS = 10.0
"""What a busy machine may take for what is done at once: little beside the minutes that it would take otherwise."""


async def wait_until(condition: Callable[[], bool | Awaitable[bool]], seconds: float = 20) -> None:
    """Waits until a condition holds; the limit is for a machine that is far behind."""
    async with asyncio.timeout(seconds):
        while True:
            holds = condition()
            if holds is True or (isinstance(holds, Awaitable) and await holds):
                return
            await asyncio.sleep(0.01)
