"""The API's routes, as FastAPI builds them."""

from __future__ import annotations

import fastapi.routing
import pytest
from starlette.types import Message, Scope

from citewire_gateway.app import build_api


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
