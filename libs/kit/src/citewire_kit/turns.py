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
"""Organisations that compute at the same time; others wait for a thread, each at most once per line."""
_WAITERS: Final = 32
"""Threads for work that mostly waits."""

_LinesOfLoops: TypeAlias = "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Lines]"

_computing: _LinesOfLoops = weakref.WeakKeyDictionary()
_waiting: _LinesOfLoops = weakref.WeakKeyDictionary()


async def in_turn(work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Computes in a thread, after the current organisation's earlier work.

    A cancelled caller gives up its place; running work continues, and the next turn begins when it ends.
    """
    return await _in_line("", partial(work, *args, **kwargs))


async def in_long_turn(work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Like `in_turn`, in a separate line: for work that may take a second, so that short work isn't delayed."""
    return await _in_line("long", partial(work, *args, **kwargs))


async def in_waiting_turn(line: str, work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Like `in_turn`, for work that mostly waits: in separate threads, so that nothing else is delayed.

    An organisation has at most one of them per line.
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
    """Running and waiting work, by organisation and line."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="turn")
        self._waiting: dict[tuple[str, str], deque[asyncio.Future[None]]] = {}  # of lines that compute

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
            # The turn may have come in the same iteration of the event loop in which the caller was cancelled.
            if turn.done() and not turn.cancelled():
                self._pass_on(key)
            raise

    def _end(self, key: tuple[str, str], future: "asyncio.Future[_T]") -> None:
        if not future.cancelled():
            future.exception()  # marks it as retrieved, because its caller may be gone
        self._pass_on(key)

    def _pass_on(self, key: tuple[str, str]) -> None:
        line = self._waiting[key]
        while line:
            turn = line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._waiting[key]
