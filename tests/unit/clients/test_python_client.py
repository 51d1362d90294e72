"""The Python clients, with and without asyncio, against a server with scripted answers."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from citewire_client import (
    ApiError,
    AsyncCitewire,
    AuthenticationError,
    ChatFailedError,
    Citewire,
    CitewireError,
    ConnectionFailedError,
    InvalidRequestError,
    InvalidResponseError,
    NotFoundError,
    RateLimitError,
    StreamCutError,
    TimedOutError,
    UnavailableError,
    UploadStuckError,
    models,
)
from citewire_client.events import UnknownEvent
from fake_gateway import FakeGateway, Reply, Request, fake_gateway, reply_json, reply_problem

RUN = "01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11"
DOCUMENT: dict[str, object] = {
    "id": 7, "title": "Report", "file_name": "report.md", "type": "file", "status": "ready", "version": 1,
    "live_version": 1, "chunks": 2, "media_type": "text/markdown", "size_bytes": 12, "tokens": 4, "collection": None,
    "tags": [], "metadata": {}, "owner": "local", "sha256": "00", "readers": [], "access": "write",
    "created_at": "2026-01-15T09:30:00Z", "updated_at": "2026-01-15T09:30:00Z",
}  # fmt: skip
CITATION: dict[str, object] = {
    "index": 1, "sentence": {"start": 0, "end": 5}, "chunk_id": 3, "document_id": 7, "version": 1, "quote": "Water",
    "quote_start": 0, "quote_end": 5, "document_start": 0, "document_end": 5, "support": 1.0, "verdict": "supported",
    "sentence_verdict": "supported", "mismatches": [],
}  # fmt: skip


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with fake_gateway() as gateway:
        yield gateway


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Records the pauses between tries instead of waiting."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr("citewire_client._async.transport.async_sleep", pause)
    monkeypatch.setattr("citewire_client._sync.transport.sleep", pauses.append)
    return pauses


def frame(number: int, event: str, data: object) -> bytes:
    return f"event: {event}\nid: {number}\ndata: {json.dumps(data)}\n\n".encode()


def token(number: int, text: str) -> bytes:
    return frame(number, "token", {"text": text})


def stream(*frames: bytes, run: str = "", cut: bool = False) -> Reply:
    return Reply(content_type="text/event-stream", chunks=frames, headers={"citewire-run": run} if run else {}, cut=cut)


def in_turn(*replies: Reply) -> Callable[[Request], Reply]:
    """Answers with each reply in turn, and then always with the last."""
    waiting = list(replies)
    return lambda _request: waiting.pop(0) if len(waiting) > 1 else waiting[0]


async def both(gateway: FakeGateway, method: str, *arguments: Any, **options: Any) -> list[Any]:  # noqa: ANN401 # as the methods take them
    """What a method returns or raises in the client with asyncio and then in the one without."""
    outcomes: list[Any] = []
    async with AsyncCitewire(gateway.url, api_key="k") as client:
        try:
            outcomes.append(await getattr(client, method)(*arguments, **options))
        except CitewireError as error:
            outcomes.append(error)

    def call() -> Any:  # noqa: ANN401 # as the methods take them
        with Citewire(gateway.url, api_key="k") as client:
            return getattr(client, method)(*arguments, **options)

    try:
        outcomes.append(await asyncio.to_thread(call))
    except CitewireError as error:
        outcomes.append(error)
    return outcomes


async def test_an_answer_is_a_model(gateway: FakeGateway) -> None:
    gateway.on("GET", "/v1/documents/7", reply_json(DOCUMENT | {"status": "resting", "mood": "fine"}))
    for document in await both(gateway, "get_document", 7):
        assert isinstance(document, models.Document)
        assert document.created_at is not None
        assert document.created_at.year == 2026
        # Values and fields of a newer gateway break nothing.
        assert document.status == "resting"
        assert document.model_extra == {"mood": "fine"}
    assert {request.headers["authorization"] for request in gateway.requests} == {"Bearer k"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, AuthenticationError), (404, NotFoundError), (422, InvalidRequestError), (500, UnavailableError)],
)
async def test_errors_have_kinds(gateway: FakeGateway, status: int, kind: type[ApiError]) -> None:
    problem = {"detail": "top_k: must be lower", "reason": "INVALID_FIELD", "request_id": "r1"}
    gateway.on(
        "POST", "/v1/search", reply_problem(status, "No", errors=[{"field": "top_k", "message": "lower"}], **problem)
    )
    for error in await both(gateway, "search", "water", top_k=1000):
        assert isinstance(error, ApiError)
        assert type(error) is kind
        assert str(error) == "top_k: must be lower"
        assert (error.status, error.reason, error.request_id) == (status, "INVALID_FIELD", "r1")
        assert [(refused.field, refused.message) for refused in error.errors] == [("top_k", "lower")]
    assert len(gateway.requests) == 2  # once each: none of these gets better by itself


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"detail": 7}', b"[" * 100_000, b"\xff"])
async def test_any_body_of_an_error_is_read(gateway: FakeGateway, body: bytes) -> None:
    gateway.on("GET", "/v1/documents/7", Reply(418, "text/html", (body,)))
    for error in await both(gateway, "get_document", 7):
        assert isinstance(error, InvalidRequestError)
        assert str(error) == "the gateway answered HTTP 418"


async def test_safe_requests_are_retried(gateway: FakeGateway, no_pauses: list[float]) -> None:
    busy = Reply(503, "application/problem+json", (b"{}",), {"Retry-After": "3"})
    for _ in range(2):
        gateway.on("GET", "/v1/documents/7", in_turn(busy, Reply(cut=True, chunks=(b"{",)), reply_json(DOCUMENT)))
        async with AsyncCitewire(gateway.url) as client:
            assert (await client.get_document(7)).id == 7
    assert no_pauses[0] == 3.0
    assert 0 <= no_pauses[1] <= 2
    assert len(gateway.requests) == 6


async def test_a_change_without_a_key_is_sent_once(gateway: FakeGateway) -> None:
    gateway.on("POST", "/v1/admin/users", reply_problem(503, "Full"))
    assert [type(error) for error in await both(gateway, "create_user", "anna")] == [UnavailableError] * 2
    assert len(gateway.requests) == 2


async def test_a_rate_limited_change_is_sent_again(gateway: FakeGateway) -> None:
    limited = Reply(429, "application/problem+json", (b"{}",), {"Retry-After": "1"})
    gateway.on("POST", "/v1/admin/users", in_turn(limited, limited, limited, limited, limited, limited))
    assert [type(error) for error in await both(gateway, "create_user", "anna")] == [RateLimitError] * 2
    assert len(gateway.requests) == 6


@pytest.mark.client("citewire-client", "Uploads retried under one `Idempotency-Key`")
async def test_an_upload_that_is_sent_again_has_one_key(gateway: FakeGateway) -> None:
    gateway.on("POST", "/v1/documents", in_turn(reply_problem(503, "Full"), reply_json(DOCUMENT, 202)))
    sent: list[tuple[int, int]] = []
    source = io.BytesIO(b"x" * 200_000)
    source.seek(77)
    async with AsyncCitewire(gateway.url) as client:
        document = await client.upload_document(
            source,
            file_name="a b.md",
            tags=["one, two"],
            metadata={"n": 1},
            progress=lambda at, of: sent.append((at, of)),
        )
    assert document.id == 7
    first, second = gateway.requests
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    for request in (first, second):
        assert request.body.count(b"x" * 200_000) == 1
        assert b'filename="a b.md"' in request.body
        assert b'["one, two"]' in request.body
        assert b'{"n": 1}' in request.body
    assert sent[-1] == (200_000, 200_000)
    assert not source.closed


def test_an_upload_needs_a_name(gateway: FakeGateway) -> None:
    with Citewire(gateway.url) as client, pytest.raises(ValueError, match="file_name is required"):
        client.upload_document(b"text")
    assert not gateway.requests


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_no_value_reaches_another_path(gateway: FakeGateway, name: str) -> None:
    gateway.on("GET", ".*", reply_problem(404, "none"))
    with Citewire(gateway.url) as client:
        with pytest.raises(ValueError, match="part of a path"):
            client.get_grants(name)
        with pytest.raises(NotFoundError):
            client.get_grants("a/../../x?y#z é")
    assert [request.path for request in gateway.requests] == ["/v1/collections/a%2F..%2F..%2Fx%3Fy%23z%20%C3%A9/grants"]


async def test_absent_and_null_are_different(gateway: FakeGateway) -> None:
    gateway.on("PATCH", "/v1/documents/7", reply_json(DOCUMENT))
    await both(gateway, "update_document", 7, collection=None, title="New")
    assert [request.json() for request in gateway.requests] == [{"collection": None, "title": "New"}] * 2


@pytest.mark.client("citewire-client", "Lists, page by page")
def test_pages_are_asked_for_when_they_are_needed(gateway: FakeGateway) -> None:
    def page(request: Request) -> Reply:
        number = int(request.query.get("page_token", "0"))
        documents = [DOCUMENT | {"id": number * 2 + place + 1} for place in range(2)]
        return reply_json({"documents": documents, "next_page_token": str(number + 1) if number < 2 else ""})

    gateway.on("GET", "/v1/documents", page)
    with Citewire(gateway.url) as client:
        documents = client.iter_documents(collection="c", page_size=2)
        assert [next(documents).id, next(documents).id] == [1, 2]
        assert len(gateway.requests) == 1
        assert [document.id for document in documents] == [3, 4, 5, 6]
    assert {request.query["collection"] for request in gateway.requests} == {"c"}


ANSWER = (
    frame(1, "conversation", {"conversation_id": RUN}),
    token(2, "Water "),
    frame(3, "weather", {"wind": 3}),
    token(4, "boils."),
    frame(5, "citation", CITATION),
    frame(6, "done", {}),
)


@pytest.mark.client("citewire-client", "Streams of typed events")
async def test_a_stream_has_typed_events(gateway: FakeGateway) -> None:
    # The frames arrive in pieces.
    gateway.on("POST", "/v1/chat", stream(*(bytes([byte]) for byte in b"".join(ANSWER))))
    async with AsyncCitewire(gateway.url) as client, client.stream_chat("Does it boil?") as chat:
        events = [event async for event in chat]
    assert [type(event) for event in events] == [
        models.ConversationEvent, models.TokenEvent, UnknownEvent, models.TokenEvent, models.CitationEvent,
        models.DoneEvent,
    ]  # fmt: skip
    assert (chat.text, chat.is_done, chat.conversation_id) == ("Water boils.", True, UUID(RUN))
    assert [citation.verdict for citation in chat.verified] == ["supported"]
    gateway.on("POST", "/v1/chat", stream(*ANSWER))
    with Citewire(gateway.url) as blocking, blocking.stream_chat("Does it boil?") as blocked:
        assert list(blocked.text_pieces()) == ["Water ", "boils."]
    assert blocked.is_done
    assert gateway.requests[0].json() == {"question": "Does it boil?", "stream": True}


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.client("citewire-client", "A cut-off stream is never mistaken for a complete one")
async def test_a_cut_stream_is_never_taken_for_complete(gateway: FakeGateway, cut: bool) -> None:
    gateway.on("POST", "/v1/chat", stream(*ANSWER[:-1], cut=cut))
    async with AsyncCitewire(gateway.url) as client, client.stream_chat("Does it boil?") as chat:
        with pytest.raises((StreamCutError, ConnectionFailedError)):
            await chat.until_done()
        assert not chat.is_done


async def test_a_fault_in_the_stream_is_an_error(gateway: FakeGateway) -> None:
    gateway.on("POST", "/v1/chat", stream(token(1, "Wa"), frame(2, "error", {"text": "gone", "retryable": True})))
    with Citewire(gateway.url) as client, client.stream_chat("?") as chat:
        with pytest.raises(ChatFailedError, match="gone") as caught:
            chat.until_done()
    assert caught.value.retryable


@pytest.mark.parametrize("at", range(len(ANSWER)))
@pytest.mark.client("citewire-client", "A broken stream continues where it stopped")
async def test_a_stream_with_grace_resumes_where_it_broke(gateway: FakeGateway, at: int) -> None:
    gateway.on("POST", "/v1/chat", stream(*ANSWER[:at], run=RUN, cut=True))

    def rest(request: Request) -> Reply:
        last = int(request.headers["last-event-id"])
        # It also breaks in the middle of an event, and sends an event twice.
        return stream(*ANSWER[max(last - 1, 0) : last + 1], ANSWER[-1][:9], cut=last < 5)

    gateway.on("GET", f"/v1/chat/{RUN}/events", rest)
    async with AsyncCitewire(gateway.url) as client, client.stream_chat("Does it boil?", grace_seconds=15) as chat:
        ids = [event.id async for event in chat]
    assert ids == [1, 2, 3, 4, 5, 6]
    assert chat.text == "Water boils."
    assert not gateway.received("POST", ".*/cancel")


async def test_a_gateway_that_is_down_for_a_while_is_retried(gateway: FakeGateway) -> None:
    gateway.on("POST", "/v1/chat", stream(ANSWER[0], run=RUN, cut=True))
    asked: list[Request] = []

    def rest(request: Request) -> Reply:
        asked.append(request)
        if len(asked) % 4:
            raise ConnectionResetError("it is away")
        return stream(*ANSWER[1:])

    gateway.on("GET", f"/v1/chat/{RUN}/events", rest)
    async with (
        AsyncCitewire(gateway.url, retries=0) as client,
        client.stream_chat("Does it boil?", grace_seconds=15) as chat,
    ):
        await chat.until_done()
    assert chat.text == "Water boils."
    with Citewire(gateway.url, retries=0) as blocking, blocking.stream_chat("?", grace_seconds=15) as blocked:
        assert blocked.until_done().text == "Water boils."
    assert len(asked) == 8


async def test_the_client_gives_up_if_no_more_events_come(gateway: FakeGateway) -> None:
    gateway.on("POST", "/v1/chat", stream(ANSWER[0], run=RUN, cut=True))
    gateway.on("GET", f"/v1/chat/{RUN}/events", stream(cut=True))
    with Citewire(gateway.url) as client, client.stream_chat("Does it boil?", grace_seconds=15) as chat:
        with pytest.raises((StreamCutError, ConnectionFailedError)):
            chat.until_done()
    assert len(gateway.received("GET", ".*/events")) == 5


@pytest.mark.parametrize(("detach", "cancelled"), [(False, 1), (True, 0)])
@pytest.mark.client("citewire-client", "Leaving the stream stops the chat, unless it is detached")
async def test_leaving_stops_the_chat_unless_it_is_detached(gateway: FakeGateway, detach: bool, cancelled: int) -> None:
    def endless(_: Request) -> Reply:
        def frames() -> Iterator[bytes]:
            for number in range(1, 10_000):
                yield token(number, "x")
                time.sleep(0.001)

        return Reply(content_type="text/event-stream", chunks=frames(), headers={"citewire-run": RUN})

    gateway.on("POST", "/v1/chat", endless)
    gateway.on("POST", f"/v1/chat/{RUN}/cancel", reply_json({"cancelled": True}))
    async with (
        AsyncCitewire(gateway.url) as client,
        client.stream_chat("Does it boil?", grace_seconds=15, detach=detach) as chat,
    ):
        async for event in chat:
            if event.id == 3:
                break
        # The iteration can be continued.
        assert (await anext(chat)).id == 4
    assert len(gateway.received("POST", ".*/cancel")) == cancelled
    assert await asyncio.to_thread(gateway.gone.wait, 5)


async def test_another_server_is_named(gateway: FakeGateway) -> None:
    gateway.on("GET", "/v1/documents/7", Reply(200, "text/html", (b"<html>",)))
    gateway.on("POST", "/v1/chat", Reply(200, "text/html", (b"<html>",)))
    for error in await both(gateway, "get_document", 7):
        assert isinstance(error, InvalidResponseError)
    with Citewire(gateway.url) as client, client.stream_chat("?") as chat, pytest.raises(InvalidResponseError):
        chat.until_done()


async def test_an_unreachable_gateway() -> None:
    for client in (Citewire("http://127.0.0.1:9", retries=0),):
        with client, pytest.raises(ConnectionFailedError, match="nothing answers at"):
            client.get_document(7)


async def test_a_silent_stream_times_out(gateway: FakeGateway) -> None:
    def silent(_: Request) -> Reply:
        def frames() -> Iterator[bytes]:
            yield token(1, "x")
            time.sleep(1)

        return Reply(content_type="text/event-stream", chunks=frames())

    gateway.on("POST", "/v1/chat", silent)
    with Citewire(gateway.url, timeout=0.2) as client, client.stream_chat("?") as chat:
        with pytest.raises(TimedOutError):
            chat.until_done()


async def test_waiting_for_a_document(gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(_: float) -> None: ...

    monkeypatch.setattr("citewire_client._sync.client.sleep", sleep)
    working = reply_json(DOCUMENT | {"status": "processing"})
    gateway.on("GET", "/v1/documents/7", in_turn(working, working, reply_json(DOCUMENT)))
    with Citewire(gateway.url) as client:
        assert client.wait_for_document(7).status == "ready"
        gateway.on("GET", "/v1/documents/7", working)
        with pytest.raises(UploadStuckError, match="still processing"):
            client.wait_for_document(7, timeout=0)
