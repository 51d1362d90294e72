"""Computing in threads, in organisations' turns: in place of `asyncio.to_thread`, where one may ask for much.

Each organisation has one thread at a time. A second one would compute no more, as Python's lock lets one thread
compute at a time, but would take the others' part: theirs and the event loop's, which waits for the lock behind every
thread that computes.
"""

import asyncio
import contextvars
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeAlias, TypeVar

from citewire_kit.tenant import find_tenant

_P = ParamSpec("_P")
_T = TypeVar("_T")

_THREADS: Final = 8
"""Organisations that compute at the same time; more wait for a thread, each at most once for each of its lines."""
_WAITERS: Final = 32
"""Threads for what waits and hardly computes."""

_LinesOfLoops: TypeAlias = "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Lines]"

_computing: _LinesOfLoops = weakref.WeakKeyDictionary()
_waiting: _LinesOfLoops = weakref.WeakKeyDictionary()


async def in_turn(work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Computes in a thread, after what the current organisation has asked for before.

    A caller that leaves gives its place up; what is being computed goes on, and the next turn begins when it ends.
    """
    return await _in_line("", partial(work, *args, **kwargs))


async def in_long_turn(work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """As `in_turn`, in a line of its own: for what may take a second, so that the organisation's short work goes on."""
    return await _in_line("long", partial(work, *args, **kwargs))


async def in_waiting_turn(line: str, work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """As `in_turn`, for what waits for others and hardly computes: in threads of its own, which nobody else waits for.

    An organisation has as many of them at a time as it has lines.
    """
    return await _in_line(line, partial(work, *args, **kwargs), waits=True)


async def _in_line(line: str, work: Callable[[], _T], *, waits: bool = False) -> _T:
    loop, of_loops = asyncio.get_running_loop(), _waiting if waits else _computing
    lines = of_loops.get(loop)
    if lines is None:
        lines = of_loops[loop] = _Lines(_WAITERS if waits else _THREADS)
    tenant = find_tenant()
    return await lines.run(("" if tenant is None else tenant.org_id, line), work)


class _Lines:
    """Who computes and who waits, by organisation and line."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="turn")
        self._waiting: dict[tuple[str, str], deque[asyncio.Future[None]]] = {}  # of those that compute

    async def run(self, key: tuple[str, str], work: Callable[[], _T]) -> _T:
        await self._wait(key)
        try:
            context = contextvars.copy_context()
            future = asyncio.get_running_loop().run_in_executor(self._threads, context.run, work)
        except BaseException:
            self._pass_on(key)
            raise
        future.add_done_callback(partial(self._end, key))
        return await asyncio.shield(future)

    async def _wait(self, key: tuple[str, str]) -> None:
        line = self._waiting.get(key)
        if line is None:
            self._waiting[key] = deque()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # The turn may have come in the same round of the event loop in which the caller left.
            if turn.done() and not turn.cancelled():
                self._pass_on(key)
            raise

    def _end(self, key: tuple[str, str], future: "asyncio.Future[_T]") -> None:
        if not future.cancelled():
            future.exception()  # its caller may have left: then nobody else looks at it
        self._pass_on(key)

    def _pass_on(self, key: tuple[str, str]) -> None:
        line = self._waiting[key]
        while line:
            turn = line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._waiting[key]
