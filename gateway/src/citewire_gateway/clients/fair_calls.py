"""Calls of services in fair shares: one organisation's requests, however many, leave every other its part."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from citewire_gateway.clients.arrivals import begin_turn, has_begun, overloaded
from citewire_kit import client
from citewire_kit.fair import FairShares
from citewire_kit.tenant import find_tenant

Req = TypeVar("Req", bound=Message)
Res = TypeVar("Res", bound=Message)

_PRESENT_SECONDS = 1.0
"""How long an organisation that asks for nothing has calls kept free, so that its next request finds them."""


class FairCalls:
    """Unary calls, so many at once. One that gets no turn within its own time is refused.

    A request that has begun goes before its organisation's others: it is finished rather than more are begun.
    """

    def __init__(
        self, most: int, note_wait: Callable[[float], None], *, shared: int | None = None, most_waiting: int = 0
    ) -> None:
        """Takes how many may run at once.

        Args:
            most: Of one organisation alone.
            note_wait: Is told how many seconds each waited that had to.
            shared: Of several together, at least one of each; None is as many.
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
        tenant = find_tenant()
        org_id = tenant.org_id if tenant else ""
        async with self._shares.hold(org_id, seconds=timeout, first=has_begun()):
            begin_turn()
            return await client.unary(method, request, timeout=timeout)

    @contextmanager
    def _waiting(self) -> Generator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._note_wait(time.perf_counter() - began)
