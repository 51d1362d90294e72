"""Calls of services in fair shares: one organisation's requests, however many, leave every other its part."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from citewire_kit import client
from citewire_kit.arrivals import begin_turn, has_begun, overloaded
from citewire_kit.fair import FairShares, Holding
from citewire_kit.tenant import find_tenant

Req = TypeVar("Req", bound=Message)
Res = TypeVar("Res", bound=Message)

_PRESENT_SECONDS = 1.0
"""How long calls are kept free for an organisation that has stopped calling, so that its next request gets one."""

_AT_WORK_SECONDS = 0.1
"""How long a call that may wait for a provider keeps its slot."""


class FairCalls:
    """Limits concurrent calls. A call that gets no turn within its own timeout is rejected.

    A request that has begun goes before its organisation's others, so that it is finished before others begin.
    """

    def __init__(
        self, most: int, note_wait: Callable[[float], None], *, shared: int | None = None, most_waiting: int = 0
    ) -> None:
        """Sets the limits.

        Args:
            most: Concurrent calls while one organisation is alone.
            note_wait: Receives the waiting time in seconds of each call that had to wait.
            shared: Concurrent calls of several organisations together, at least one for each; None is as many.
            most_waiting: Calls of one organisation that may wait; 0: any number.
        """
        self._note_wait = note_wait
        self._shares = FairShares(
            most,
            lambda _: overloaded(),
            most_waiting=most_waiting,
            shared=shared,
            linger_seconds=_PRESENT_SECONDS,
            while_waiting=self._waiting,
        )

    async def unary(self, method: grpc.aio.UnaryUnaryMultiCallable[Req, Res], request: Req, *, timeout: float) -> Res:
        """Makes a call in its organisation's turn.

        Raises:
            ResourceExhausted: It got no turn (reason `OVERLOADED`).
            CitewireError: As the service raises.
        """
        async with self._turn(timeout):
            return await client.unary(method, request, timeout=timeout)

    async def patient_unary(
        self, method: grpc.aio.UnaryUnaryMultiCallable[Req, Res], request: Req, *, timeout: float
    ) -> Res:
        """Like `unary`, for a service that may wait for a provider: see `begun`."""
        async with self.begun(timeout):
            return await client.unary(method, request, timeout=timeout)

    @asynccontextmanager
    async def begun(self, timeout: float) -> AsyncGenerator[None]:
        """Waits for the turn of a call that may take long, such as a stream; `timeout` limits only the wait.

        It gives up its slot after a tenth of a second: a longer call is waiting for a provider, a client or a disk and
        needs no core meanwhile. A shorter one was computed here.

        Raises:
            ResourceExhausted: It got no turn (reason `OVERLOADED`).
        """
        async with self._turn(timeout) as holding:
            timer = asyncio.get_running_loop().call_later(_AT_WORK_SECONDS, self._shares.give_back, holding)
            try:
                yield
            finally:
                timer.cancel()

    @asynccontextmanager
    async def _turn(self, timeout: float) -> AsyncGenerator[Holding]:
        tenant = find_tenant()
        org_id = tenant.org_id if tenant else ""
        async with self._shares.hold(org_id, seconds=timeout, first=has_begun()) as holding:
            begin_turn()
            yield holding

    @contextmanager
    def _waiting(self) -> Generator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._note_wait(time.perf_counter() - began)
