"""Faults of a model provider, as behaviours of a raw HTTP server, in the format of the request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping

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
            await exchange.send(_delta(exchange, f"{word} "))
        await exchange.send(_end(exchange))

    return behave


def after(text: str, then: Behaviour) -> Behaviour:
    """Begins an answer, then does something else."""

    async def behave(exchange: Exchange) -> None:
        await exchange.head()
        if text:
            await exchange.send(_delta(exchange, text))
        await then(exchange)

    return behave


async def stall(exchange: Exchange) -> None:
    """Sends nothing until the client disconnects."""
    await exchange.gone()


async def cut(exchange: Exchange) -> None:
    """Closes the connection cleanly."""


async def malformed(exchange: Exchange) -> None:
    """Sends an event that isn't JSON."""
    await exchange.send(b"data: {" + SECRET.encode() + b"\n\n")


async def reset(exchange: Exchange) -> None:
    """Resets the connection after the data sent has arrived."""
    await asyncio.sleep(0.05)  # a reset overtakes data in transit
    exchange.reset()


async def overloaded(exchange: Exchange) -> None:
    """Reports an error inside a stream that began with 200."""
    await exchange.send(_event({"type": "error", "error": {"type": "overloaded_error", "message": SECRET}}))


def _is_anthropics(exchange: Exchange) -> bool:
    return exchange.request.path.endswith("/messages")


def _delta(exchange: Exchange, text: str) -> bytes:
    if not _is_anthropics(exchange):
        return delta_event(text)
    return _event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})


def _end(exchange: Exchange) -> bytes:
    """The answer's end, with the counts 7 and 3."""
    if not _is_anthropics(exchange):
        return delta_event(None, "stop") + usage_event(7, 3) + DONE
    usage = {"input_tokens": 7, "output_tokens": 3}
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    return _event(ended) + _event({"type": "message_stop"})


def _event(event: Mapping[str, object]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"
