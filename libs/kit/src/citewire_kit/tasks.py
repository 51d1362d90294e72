"""Ends tasks reliably."""

import asyncio
from typing import Any, Final

from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

AGAIN_SECONDS: Final = 1.0
_WARN_ROUNDS: Final = 5
_CALL: Final = "rpc_task"
"""grpc.aio's name for the task of a call that a server handles."""


async def end(*tasks: asyncio.Task[Any], again_seconds: float = AGAIN_SECONDS) -> None:
    """Cancels tasks and waits until they have ended, whatever their result.

    They are cancelled repeatedly, because a cancellation can be lost: Python 3.11's `asyncio.wait_for`, which the
    connection pool uses, returns its result instead if that arrives at the same moment, and the task would never end.
    """
    left = {task for task in tasks if not task.done()}
    rounds = 0
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=again_seconds)
        rounds += 1
        if left and rounds == _WARN_ROUNDS:
            log.warning("tasks_not_ending", tasks=sorted(task.get_name() for task in left))


async def end_others() -> None:
    """Ends all tasks of the event loop but the current one."""
    await end(*asyncio.all_tasks() - {asyncio.current_task()})


async def wait_for_calls(seconds: float) -> None:
    """Waits until no gRPC server of the event loop handles a call, for at most `seconds`.

    A stopped server has sent the last status of each call, but doesn't wait for its handler, which may still be
    releasing what it uses. Cancelled then, grpc.aio prints a traceback.
    """
    calls = [task for task in asyncio.all_tasks() if task.get_name() == _CALL]
    if calls:
        await asyncio.wait(calls, timeout=seconds)
