"""A thread shared by calls: one piece of work at a time, with callers in turn."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from citewire_kit.fair import FairQueue

_T = TypeVar("_T")


class Turns:
    """Runs work in one thread: urgent work first, organisations in turn, then first come first served.

    A cancelled caller gives up its place. A running computation can't be stopped: the next turn begins when it ends.
    """

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._urgent: FairQueue[asyncio.Future[None]] = FairQueue()
        self._others: FairQueue[asyncio.Future[None]] = FairQueue()
        self._busy = False

    async def run(self, work: Callable[[], _T], *, org_id: str = "", urgent: bool = False) -> _T:
        """Waits for a turn among the organisations' pieces of work, and for the work.

        Raises:
            RuntimeError: The thread was closed.
        """
        await self._wait(self._urgent if urgent else self._others, org_id)
        try:
            future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        except BaseException:
            self._pass_on()
            raise
        future.add_done_callback(self._end)
        return await asyncio.shield(future)

    def close(self) -> None:
        """Ends the thread without waiting for running work."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _wait(self, waiting: FairQueue[asyncio.Future[None]], org_id: str) -> None:
        if not self._busy:
            self._busy = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.push(org_id, turn)
        try:
            await turn
        except asyncio.CancelledError:
            # The turn may have come in the same iteration of the event loop in which the caller was cancelled.
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    def _end(self, future: "asyncio.Future[_T]") -> None:
        if not future.cancelled():
            future.exception()  # marks it as retrieved, because its caller may be gone
        self._pass_on()

    def _pass_on(self) -> None:
        while waiting := self._urgent or self._others:
            turn = waiting.first()
            waiting.charge(0.0 if turn.done() else 1.0)
            if not turn.done():
                turn.set_result(None)
                return
        self._busy = False
