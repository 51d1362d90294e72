"""What can go wrong with a model provider, as behaviours of a raw HTTP server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from raw_upstream import DONE, Exchange, delta_event, usage_event

Behaviour = Callable[[Exchange], Awaitable[None]]

SECRET = "secret words of the provider"


def status(code: int, *, error: dict[str, str] | None = None, **headers: str) -> Behaviour:
    """Refuses with a status."""

    async def behave(exchange: Exchange) -> None:
        await exchange.head(code, "application/json", **headers)
        await exchange.send(json.dumps({"error": {"message": SECRET, **(error or {"type": "x"})}}).encode())

    return behave


def answer(text: str) -> Behaviour:
    """Answers, word by word."""

    async def behave(exchange: Exchange) -> None:
        await exchange.head()
        for word in text.split(" "):
            await exchange.send(delta_event(f"{word} "))
        await exchange.send(delta_event(None, "stop") + usage_event(7, 3) + DONE)

    return behave


def after(text: str, then: Behaviour) -> Behaviour:
    """Begins an answer, then does something else."""

    async def behave(exchange: Exchange) -> None:
        await exchange.head()
        if text:
            await exchange.send(delta_event(text))
        await then(exchange)

    return behave


async def stall(exchange: Exchange) -> None:
    """Says nothing until the client leaves."""
    await exchange.gone()


async def cut(exchange: Exchange) -> None:
    """Closes the connection cleanly."""


async def malformed(exchange: Exchange) -> None:
    """Sends an event that is no JSON."""
    await exchange.send(b"data: {" + SECRET.encode() + b"\n\n")


async def reset(exchange: Exchange) -> None:
    """Resets the connection, after what was sent has arrived."""
    await asyncio.sleep(0.05)  # a reset overtakes what is still on its way
    exchange.reset()


async def overloaded(exchange: Exchange) -> None:
    """Reports an error inside a stream that began with 200."""
    event = {"error": {"type": "overloaded_error", "message": SECRET}}
    await exchange.send(b"data: " + json.dumps(event).encode() + b"\n\n")
