"""The HTTP API with patience: what is overloaded is asked again, at the time that it says."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from citewire_cli.api import Api
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject

T = TypeVar("T")
Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""
Sleep = Callable[[float], Awaitable[None]]

TRIES = 6
LONGEST_PAUSE = 30.0
FAILURES_TOLD = 3
_AGAIN = frozenset({429, 502, 503, 504})
_PAYMENT_REQUIRED = 402
_HOPELESS = 20
"""Questions that fail, and none that doesn't, after which the rest isn't tried."""


class EvaluationError(Exception):
    """The run can't give figures that mean something."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A question that couldn't be asked to its end."""

    question_id: str
    error: str


@dataclass(frozen=True, slots=True)
class Timed:
    """An answer and the seconds that its last try took; earlier tries and pauses aren't counted."""

    body: JsonObject
    seconds: float


class Gateway:
    """Calls with retries: overload (429, 503), a broken connection, a gateway in between that gave up (502, 504)."""

    def __init__(self, api: Api, *, concurrency: int, sleep: Sleep = asyncio.sleep) -> None:
        """Takes an open `api`; at most `concurrency` requests are in flight, fewer after an overload."""
        self.api = api
        self.concurrency = concurrency
        self._allowed = concurrency
        self._sleep = sleep

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: JsonObject | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> JsonObject:
        """See `timed`."""
        return (await self.timed(method, path, params=params, body=body, headers=headers)).body

    async def timed(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: JsonObject | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Timed:
        """One request, tried again where that may help.

        Raises:
            CliError: It was refused, or still failed at the last try.
        """
        answer, seconds = await self._retrying(
            lambda: self.api.call(method, path, params=params, body=body, headers=headers)
        )
        return Timed(answer, seconds)

    async def text(self, path: str, *, params: Mapping[str, str | int] | None = None) -> str:
        """GETs a text, tried again as `timed`."""
        return (await self._retrying(lambda: self.api.text(path, params=params)))[0]

    async def for_each(self, items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
        """Works on all items, `concurrency` at a time; the first failure ends the rest and is raised as it is.

        An overload halves how many are worked on from then on: what can't be done at once is done one after the other.
        """
        waiting = iter(items)
        self._allowed = self.concurrency

        async def worker(number: int) -> None:
            for item in waiting:
                await work(item)
                if number >= self._allowed:
                    return

        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self.concurrency):
                    group.create_task(worker(number))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _retrying(self, request: Callable[[], Awaitable[T]]) -> tuple[T, float]:
        """Returns the first answer that isn't a passing failure, and the seconds that its try took."""
        for attempt in range(1, TRIES + 1):
            started = time.perf_counter()
            try:
                answer = await request()
            except CliError as error:
                if attempt == TRIES or not _may_pass(error):
                    raise
                self._allowed = max(1, self._allowed // 2)
                await self._sleep(_pause(error, attempt))
            else:
                return answer, time.perf_counter() - started
        raise AssertionError("the last try returns or raises")


class Failures:
    """Questions whose calls failed: each is named. What fails for every question ends the run instead."""

    def __init__(self, what: str) -> None:
        """Begins without any; `what` is being asked, for the message."""
        self._what = what
        self._failed: list[Failure] = []
        self._any_good = False

    def good(self) -> None:
        """A question could be asked."""
        self._any_good = True

    def add(self, question_id: str, error: CliError) -> None:
        """Notes a failed one.

        Raises:
            CliError: The gateway is gone or doesn't let us in, the budget is spent, or the first 20 all failed.
        """
        gone = error.code is ExitCode.UNREACHABLE and error.status == 0
        if gone or error.code is ExitCode.UNAUTHORISED or error.status == _PAYMENT_REQUIRED:
            raise error
        self._failed.append(Failure(question_id, str(error)))
        if not self._any_good and len(self._failed) >= _HOPELESS:
            error.detail = f"{error.detail} (each of the first {_HOPELESS} questions of {self._what} failed)".strip()
            raise error

    def listed(self) -> tuple[Failure, ...]:
        """All of them, by question."""
        return tuple(sorted(self._failed, key=lambda one: one.question_id))


def _may_pass(error: CliError) -> bool:
    return error.status in _AGAIN or (error.status == 0 and error.code is ExitCode.UNREACHABLE)


def _pause(error: CliError, attempt: int) -> float:
    """What the gateway says, or twice as long each time; spread, so that many don't come back at once."""
    told = error.retry_after
    wait = told if told is not None else 0.25 * 2**attempt
    return min(wait, LONGEST_PAUSE) + random.uniform(0, 0.25)  # noqa: S311 # spreads retries, guards nothing
