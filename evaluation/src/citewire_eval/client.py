"""The HTTP API with retries: a call that hits an overload is repeated at the time that the gateway asks for."""

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
"""Called with the name of the step, the amount done and the total."""
Sleep = Callable[[float], Awaitable[None]]

TRIES = 6
LONGEST_PAUSE = 30.0
_RETRY_STATUSES = frozenset({429, 502, 503, 504})
_PAYMENT_REQUIRED = 402
_FAILURES_AT_START = 20
"""The run stops if this many questions fail before any succeeds."""


class EvaluationError(Exception):
    """The run can't produce meaningful figures."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A question whose call failed."""

    question_id: str
    error: str


class RetryingClient:
    """Makes calls, with retries after overload (429, 503), broken connections and gateway errors (502, 504)."""

    def __init__(self, api: Api, *, concurrency: int, sleep: Sleep = asyncio.sleep) -> None:
        """Uses an open `api`, with at most `concurrency` requests in flight, fewer after an overload."""
        self._api = api
        self._concurrency = concurrency
        self._limit = concurrency
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
        """Sends a request and returns its JSON answer; raises CliError if it was rejected or the last try failed."""
        return (await self._retry(lambda: self._api.call(method, path, params=params, body=body, headers=headers)))[0]

    async def post_timed(self, path: str, body: JsonObject) -> tuple[JsonObject, float]:
        """POSTs like `call`; also returns the seconds that the last try took, without earlier tries and pauses."""
        return await self._retry(lambda: self._api.call("POST", path, body=body))

    async def text(self, path: str, *, params: Mapping[str, str | int] | None = None) -> str:
        """GETs a text, with the same retries as `call`."""
        return (await self._retry(lambda: self._api.text(path, params=params)))[0]

    async def for_each(self, items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
        """Processes all items, `concurrency` at a time; the first failure cancels the rest and is raised unchanged.

        Each overload halves the number processed at a time from then on, down to one.
        """
        waiting = iter(items)
        self._limit = self._concurrency

        async def worker(number: int) -> None:
            for item in waiting:
                await work(item)
                if number >= self._limit:
                    return

        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._concurrency):
                    group.create_task(worker(number))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _retry(self, request: Callable[[], Awaitable[T]]) -> tuple[T, float]:
        """Returns the first answer that isn't a transient failure, and the seconds that its try took."""
        for attempt in range(1, TRIES + 1):
            started = time.perf_counter()
            try:
                answer = await request()
            except CliError as error:
                if attempt == TRIES or not _may_pass(error):
                    raise
                self._limit = max(1, self._limit // 2)
                await self._sleep(_pause(error, attempt))
            else:
                return answer, time.perf_counter() - started
        raise AssertionError("the last try returns or raises")


class Failures:
    """The questions whose calls failed. A failure that would affect every question ends the run instead."""

    def __init__(self, what: str) -> None:
        """Starts empty; `what` describes the questions in messages."""
        self._what = what
        self._failures: list[Failure] = []
        self._any_success = False

    def add_success(self) -> None:
        """Records a question whose call succeeded."""
        self._any_success = True

    def add(self, question_id: str, error: CliError) -> None:
        """Records a question whose call failed.

        Raises:
            CliError: The gateway is unreachable or rejects requests, the budget is spent, or the first 20 all failed.
        """
        gone = error.code is ExitCode.UNREACHABLE and error.status == 0
        if gone or error.code is ExitCode.UNAUTHORISED or error.status == _PAYMENT_REQUIRED:
            raise error
        self._failures.append(Failure(question_id, str(error)))
        if not self._any_success and len(self._failures) >= _FAILURES_AT_START:
            note = f"(each of the first {_FAILURES_AT_START} questions of {self._what} failed)"
            error.detail = f"{error.detail} {note}".strip()
            raise error

    def by_question(self) -> tuple[Failure, ...]:
        """All of them, ordered by question."""
        return tuple(sorted(self._failures, key=lambda failure: failure.question_id))


def _may_pass(error: CliError) -> bool:
    return error.status in _RETRY_STATUSES or (error.status == 0 and error.code is ExitCode.UNREACHABLE)


def _pause(error: CliError, attempt: int) -> float:
    """The pause that the gateway asks for, or a doubling one, with jitter so that clients don't return all at once."""
    wait = error.retry_after if error.retry_after is not None else 0.25 * 2**attempt
    return min(wait, LONGEST_PAUSE) + random.uniform(0, 0.25)  # noqa: S311 # spreads retries, guards nothing
