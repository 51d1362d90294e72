"""Writing that must happen after a request has ended, however it ended."""

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any

from citewire_kit.deadline import budget
from citewire_kit.tenant import use_request_id

_SECONDS = 10.0


class BackgroundTasks:
    """Runs such work in tasks of its own: a caller that is cancelled, or whose time is over, doesn't stop it.

    Made outside of any request: the work gets a time budget of its own.
    """

    def __init__(self) -> None:
        self._context = contextvars.copy_context()
        self._tasks: set[asyncio.Task[None]] = set()

    async def finish(self, work: Coroutine[Any, Any, None], *, request_id: str) -> None:
        """Waits for the work, and raises what it raises. If the caller is cancelled meanwhile, the work goes on."""
        task = asyncio.create_task(self._run(work, request_id), context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)

    async def settled(self) -> None:
        """Waits until nothing is left; call it before the database goes."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, work: Coroutine[Any, Any, None], request_id: str) -> None:
        with use_request_id(request_id), budget(_SECONDS):
            await work
