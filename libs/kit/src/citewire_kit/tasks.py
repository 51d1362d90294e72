"""Ending tasks for certain."""

import asyncio
from typing import Any, Final

from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

AGAIN_SECONDS: Final = 1.0
_TOLD_AFTER: Final = 5


async def end(*tasks: asyncio.Task[Any], again_seconds: float = AGAIN_SECONDS) -> None:
    """Cancels tasks and waits until they have ended, however they do.

    They are cancelled again and again. One cancellation can be lost: Python 3.11's `asyncio.wait_for` gives its result
    instead if that has come in the same moment, and a connection pool waits for its connections by it. A loop whose
    cancellation is lost would run on, and whoever waits for its end with it.
    """
    left = {task for task in tasks if not task.done()}
    rounds = 0
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=again_seconds)
        rounds += 1
        if left and rounds == _TOLD_AFTER:
            log.warning("tasks_not_ending", tasks=sorted(task.get_name() for task in left))


async def end_others() -> None:
    """Ends all tasks of the event loop but the current one."""
    await end(*asyncio.all_tasks() - {asyncio.current_task()})
