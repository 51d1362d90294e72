"""The parts of the middleware together."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY
from starlette.types import Message, Receive, Scope, Send

from citewire_http.api.problems import problem_response
from citewire_http.middleware import Limit, wrap
from citewire_kit.arrivals import Arrivals
from citewire_kit.deadline import remaining
from citewire_kit.errors import Unauthenticated
from citewire_kit.tenant import current_request_id

SCOPE = {"type": "http", "method": "POST", "path": "/nowhere", "headers": [(b"x-request-id", b"abc")]}


class Inner:
    """An application that fails or answers, and records what it receives."""

    def __init__(self, error: Exception | None = None, *, after_start: bool = False) -> None:
        self.error = error
        self.after_start = after_start
        self.seen: dict[str, object] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen = {"request_id": current_request_id(), "remaining": remaining()}
        if self.error is not None and not self.after_start:
            raise self.error
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-frame-options", b"SAMEORIGIN")]})
        if self.error is not None:
            raise self.error
        await send({"type": "http.response.body", "body": b"ok"})


async def call(inner: Inner, *bodies: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> list[Message]:
    parts = [
        {"type": "http.request", "body": body, "more_body": number < len(bodies) - 1}
        for number, body in enumerate(bodies or (b"",))
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return parts.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    app = wrap(
        inner,
        problem_response=problem_response,
        seconds=lambda _method, _path: 7.0,
        body_limit=lambda _path, _type: Limit("the body", 10, 10),
        arrivals=Arrivals(0.5),
    )
    await app({**SCOPE, "headers": [*SCOPE["headers"], *(headers or [])]}, receive, send)  # type: ignore[misc] # messages as plain dicts
    return sent


def count(status: str) -> float:
    labels = {"method": "POST", "route": "unmatched", "status": status}
    return REGISTRY.get_sample_value("citewire_http_requests_total", labels) or 0.0


async def test_an_answer_gets_ids_and_headers_and_keeps_its_own() -> None:
    inner = Inner()
    before = count("200")
    start, body = await call(inner)
    headers = dict(start["headers"])
    assert headers[b"x-request-id"] == b"abc"
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"x-frame-options"] == b"SAMEORIGIN"
    assert body["body"] == b"ok"
    assert inner.seen["request_id"] == "abc"
    assert inner.seen["remaining"] == pytest.approx(7.0, abs=0.5)
    assert count("200") == before + 1


async def test_metrics_and_headers_see_failures() -> None:
    before = count("401")
    start, body = await call(Inner(Unauthenticated("no key", reason="API_KEY_MISSING")))
    assert start["status"] == 401
    assert dict(start["headers"])[b"x-request-id"] == b"abc"
    assert b'"request_id":"abc"' in body["body"]
    assert count("401") == before + 1


async def test_a_body_beyond_the_limit_is_stopped_wherever_that_is_noticed() -> None:
    inner = Inner()
    declared = await call(inner, b"x", headers=[(b"content-length", b"11")])
    assert declared[0]["status"] == 413
    assert inner.seen == {}
    assert (await call(Inner(), b"12345", b"123456"))[0]["status"] == 413
    assert (await call(Inner(), b"12345", b"12345"))[0]["status"] == 200


async def test_a_failure_after_the_start_leaves_the_body_unfinished() -> None:
    sent = await call(Inner(RuntimeError("x"), after_start=True))
    assert [message["type"] for message in sent] == ["http.response.start"]
