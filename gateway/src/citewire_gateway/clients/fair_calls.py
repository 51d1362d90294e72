"""Calls of services in fair shares: one organisation's requests, however many, leave every other its part."""

import asyncio
from contextlib import AsyncExitStack
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from citewire_kit import client
from citewire_kit.errors import ResourceExhausted
from citewire_kit.fair import FairShares
from citewire_kit.tenant import find_tenant

Req = TypeVar("Req", bound=Message)
Res = TypeVar("Res", bound=Message)

_PRESENT_SECONDS = 1.0
"""How long an organisation that asks for nothing has calls kept free, so that its next request finds them."""


class FairCalls:
    """Unary calls, so many at once. One that gets no turn within its own time is refused."""

    def __init__(self, most: int, most_waiting: int) -> None:
        """Takes how many may run at once, and how many of one organisation may wait."""
        self._shares = FairShares(
            most, lambda _: _overloaded(), most_waiting=most_waiting, linger_seconds=_PRESENT_SECONDS
        )

    async def unary(self, method: grpc.aio.UnaryUnaryMultiCallable[Req, Res], request: Req, *, timeout: float) -> Res:
        """Makes a call in its organisation's turn.

        Raises:
            ResourceExhausted: It got no turn (reason `OVERLOADED`).
            CitewireError: As the service raises.
        """
        tenant = find_tenant()
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(timeout):
                    await stack.enter_async_context(self._shares.hold(tenant.org_id if tenant else ""))
            except TimeoutError:
                raise _overloaded() from None
            return await client.unary(method, request, timeout=timeout)


def _overloaded() -> ResourceExhausted:
    return ResourceExhausted(
        "too many requests of this organisation at once; try again later", reason="OVERLOADED", retry_after=1.0
    )
