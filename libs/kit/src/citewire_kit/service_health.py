"""Whether everything works that a request needs: the database, and the standard health check of each service."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from citewire_kit import client
from citewire_kit.errors import CitewireError, DeadlineExceeded, Unavailable
from citewire_kit.tasks import end

Check = Callable[[], Awaitable[bool]]

_CHECK_SECONDS = 2.0
_ATTEMPT_SECONDS = 0.9
"""Two attempts fit into a check."""


class Health:
    """Checks the database and the services concurrently."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        """`checks`: by the name of the part; each returns whether it works, or raises `CitewireError`."""
        self._checks = checks

    async def look(self) -> dict[str, str]:
        """Returns, for each part, `ok` or why it isn't."""
        answers = await asyncio.gather(*(self._ask(check) for check in self._checks.values()))
        return dict(zip(self._checks, answers, strict=True))

    async def _ask(self, check: Check) -> str:
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                return "ok" if await check() else "not ready"
        except TimeoutError:
            return "no answer"
        except CitewireError as exc:
            return "unavailable" if exc.reason != "DEADLINE_EXCEEDED" else "no answer"


class ServiceHealth:
    """Checks whether one service is serving."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._check = cast(
            "grpc.aio.UnaryUnaryMultiCallable[Any, Any]",
            health_pb2_grpc.HealthStub(channel).Check,  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue] - has no types
        )

    async def serving(self) -> bool:
        """Returns whether the service is serving.

        If it doesn't respond, two more checks run concurrently and therefore reach two replicas: a frozen one must not
        make every gateway unready while the others serve. Either response counts.

        Raises:
            CitewireError: It can't be reached.
        """
        try:
            return await self._ask()
        except (Unavailable, DeadlineExceeded):
            return await self._ask_two()

    async def _ask_two(self) -> bool:
        # Checking sequentially isn't enough: a new connection in between restarts the channel's rotation, perhaps
        # with the frozen replica.
        attempts = [asyncio.create_task(self._ask(), name=f"health-{number}") for number in range(2)]
        try:
            for answer in asyncio.as_completed(attempts):
                with suppress(Unavailable, DeadlineExceeded):
                    return await answer
            return attempts[0].result()
        finally:
            await end(*attempts)
            for task in attempts:
                if not task.cancelled():
                    task.exception()  # marks the exception as retrieved

    async def _ask(self) -> bool:
        response = await client.unary(self._check, health_pb2.HealthCheckRequest(), timeout=_ATTEMPT_SECONDS)
        return response.status == health_pb2.HealthCheckResponse.SERVING
