"""Work beside the requests: writing when one has ended, however it ended, and rounds by the clock."""

import asyncio
import contextvars
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from citewire_http.metrics import SWEEPER_FAILURES
from citewire_kit.deadline import budget
from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import use_request_id

_SECONDS = 10.0
_RETRY_SECONDS = 1.0

log = get_logger(__name__)


class BackgroundTasks:
    """Runs work in separate tasks, which continue if the caller is cancelled or its time is up.

    Created outside of any request, so that the work gets its own time budget.
    """

    def __init__(self) -> None:
        self._context = contextvars.copy_context()
        self._tasks: set[asyncio.Task[None]] = set()

    async def finish(
        self, work: Coroutine[Any, Any, None], *, request_id: str, wait_seconds: float | None = None
    ) -> None:
        """Waits for the work and raises its exceptions. If the caller is cancelled meanwhile, the work continues.

        Args:
            work: The work.
            request_id: The request that it belongs to.
            wait_seconds: Maximum wait, after which the work continues, too; None for no limit.
        """
        task = asyncio.create_task(self._run(work, request_id), context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        wait = asyncio.timeout(wait_seconds)
        try:
            async with wait:
                await asyncio.shield(task)
        except TimeoutError:
            if not wait.expired():
                raise  # it is the work's

    async def settled(self) -> None:
        """Waits until all work is done; call it before closing the database."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, work: Coroutine[Any, Any, None], request_id: str) -> None:
        with use_request_id(request_id), budget(_SECONDS):
            await work


async def run_sweeper(
    rounds: Mapping[str, Callable[[], Awaitable[object]]],
    *,
    seconds: float,
    prepare: Callable[[], Awaitable[object]] | None = None,
) -> None:
    """Sweeps until cancelled. A failed round is counted, repeated at the next turn, and doesn't stop others.

    Args:
        rounds: By name: each closes what dead gateways left open, removes expired data, or the like.
        seconds: Average pause between two rounds, randomised so that gateways don't all sweep at the same time.
        prepare: Must succeed before the first round.
    """
    for name in rounds:
        SWEEPER_FAILURES.labels(name)
    while prepare is not None:
        if await _succeeds("prepare", prepare):
            break
        await asyncio.sleep(_RETRY_SECONDS)
    while True:
        for name, sweep in rounds.items():
            if not await _succeeds(name, sweep):
                SWEEPER_FAILURES.labels(name).inc()
        await asyncio.sleep(seconds * random.uniform(0.5, 1.5))  # noqa: S311 - no secret


async def _succeeds(name: str, work: Callable[[], Awaitable[object]]) -> bool:
    try:
        await work()
    except CitewireError as exc:
        log.warning("not_swept", round=name, reason=exc.reason)
    except Exception:
        log.exception("not_swept", round=name)
    else:
        return True
    return False
