"""The API's routes, as FastAPI builds them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import fastapi.routing
import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.types import Message, Scope

from citewire_gateway.app import ROUTES, build_api


async def test_the_first_request_builds_no_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took 150 to 500 ms, in which no other request was answered and no stream continued."""
    api = build_api()

    def get_dependant(**_: object) -> None:
        raise AssertionError("a request builds a handler")

    monkeypatch.setattr(fastapi.routing, "get_dependant", get_dependant)
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {"type": "http", "method": "GET", "path": "/nothing", "headers": [], "query_string": b""}
    await api(scope, receive, send)
    assert sent[0]["status"] == 404


def test_no_request_waits_for_a_thread() -> None:
    """FastAPI calls plain functions and classes in a thread of its own, which every request would pay for."""
    routes = [route for module in ROUTES for route in module.router.routes if isinstance(route, APIRoute)]
    assert len(routes) > 100
    threaded = {str(part.call) for route in routes for part in _parts(route.dependant) if not _is_coroutine(part.call)}
    assert threaded == set()


def _parts(dependant: Dependant) -> Iterator[Dependant]:
    """A route, and everything that it depends on."""
    yield dependant
    for part in dependant.dependencies:
        yield from _parts(part)


def _is_coroutine(call: object) -> bool:
    functions = (call, getattr(call, "__call__", None))  # noqa: B004 - an instance's is what FastAPI calls
    return any(inspect.iscoroutinefunction(part) or inspect.isasyncgenfunction(part) for part in functions)
