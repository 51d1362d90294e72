"""A streamed answer."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, suppress
from types import TracebackType
from typing import Self
from uuid import UUID

import httpx

from citewire_client import models
from citewire_client._async.transport import AsyncTransport
from citewire_client.errors import ChatFailedError, CitewireError, ConnectionFailedError, StreamCutError
from citewire_client.events import ChatEvent, read_chat_event
from citewire_client.requests import Request, path_of

_RESUMES = 5
"""Maximum number of consecutive connections that may break without delivering an event."""


class AsyncChatStream:
    """The events of one chat: enter it, then iterate. Leaving it early stops the chat, unless it is detached.

    If the chat has `grace_seconds`, a broken connection is reopened after the last event received, without lost or
    duplicate events.
    """

    def __init__(self, transport: AsyncTransport, request: Request) -> None:
        """No request is sent before the stream is entered."""
        self._transport = transport
        self._request = request
        self._can_resume = bool(request.json.get("grace_seconds") or request.json.get("detach"))
        self._detached = bool(request.json.get("detach"))
        self._stack = AsyncExitStack()
        self._events: AsyncGenerator[ChatEvent, None] | None = None
        self._texts: list[str] = []
        self.run_id: UUID | None = None
        """The id for reading the chat elsewhere and cancelling it; None: without grace, it ends with its reader."""
        self.conversation_id: UUID | None = None
        """The conversation's id if the profile stores conversations, once the stream has sent it."""
        self.last_event_id = 0
        """Number of the last event received."""
        self.citations: tuple[models.Citation, ...] = ()
        """The passages placed in the prompt, once received."""
        self.verified: list[models.VerifiedCitation] = []
        """The verified citations so far, sentence by sentence."""
        self.usage: models.TokenUsage | None = None
        """Tokens and cost, once received."""
        self.is_done = False
        """Whether the complete answer has been received."""

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self._texts)

    async def __aenter__(self) -> Self:
        """Sends the question; raises like the client's methods."""
        response = await self._stack.enter_async_context(self._transport.open(self._request))
        run = response.headers.get("citewire-run")
        self.run_id = UUID(run) if run else None
        self._events = self._whole(response)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the connection, and cancels a chat with grace, which would otherwise continue."""
        if self._events is not None:
            await self._events.aclose()
        await self._stack.aclose()
        if not self.is_done and self.run_id is not None and not self._detached:
            with suppress(CitewireError):
                await self._transport.do(Request("POST", path_of("/v1/chat/{}/cancel", self.run_id)))

    def __aiter__(self) -> Self:
        """Yields events until the answer is complete.

        Raises:
            ChatFailedError: The gateway reported that the answer failed.
            StreamCutError: The stream ended before its last event.
            CitewireError: As for the client's methods.
        """
        return self

    async def __anext__(self) -> ChatEvent:
        """The next event; raises like iteration."""
        if self._events is None:
            raise RuntimeError("enter the stream first: `with client.stream_chat(...) as stream`")
        return await self._events.__anext__()

    async def text_pieces(self) -> AsyncGenerator[str, None]:
        """Yields only the answer's text, piece by piece; raises like iteration."""
        async for event in self:
            if isinstance(event, models.TokenEvent):
                yield event.data.text

    async def until_done(self) -> Self:
        """Reads the rest of the stream; raises like iteration."""
        async for _ in self:
            pass
        return self

    async def _whole(self, response: httpx.Response) -> AsyncGenerator[ChatEvent, None]:
        """Yields events over as many connections as necessary."""
        broken, opened = 0, response
        while not self.is_done:
            before = self.last_event_id
            try:
                current = await self._resume() if opened is None else opened
                async with aclosing(self._read(current)) as events:
                    async for event in events:
                        yield event
            except (ConnectionFailedError, StreamCutError):
                broken = broken + 1 if self.last_event_id == before else 1
                if not self._can_resume or self.run_id is None or broken > _RESUMES:
                    raise
                opened = None

    async def _read(self, response: httpx.Response) -> AsyncGenerator[ChatEvent, None]:
        """Yields the events of one connection, or raises."""
        async with aclosing(self._transport.events(response)) as raw_events:
            async for raw in raw_events:
                event = read_chat_event(raw)
                if event.id <= self.last_event_id:
                    continue
                self.last_event_id = event.id
                self._take(event)
                yield event
                if self.is_done:
                    return
        raise StreamCutError("the stream ended before its last event: the answer is incomplete")

    def _take(self, event: ChatEvent) -> None:
        match event:
            case models.TokenEvent(data=data):
                self._texts.append(data.text)
            case models.ConversationEvent(data=data):
                self.conversation_id = data.conversation_id
            case models.CitationsEvent(data=data):
                self.citations = tuple(data.citations)
            case models.CitationEvent(data=data):
                self.verified.append(data)
            case models.UsageEvent(data=data):
                self.usage = data
            case models.ErrorEvent(data=data):
                raise ChatFailedError(data.text, reason=data.reason or "", retryable=bool(data.retryable))
            case models.DoneEvent():
                self.is_done = True
            case _:
                pass

    async def _resume(self) -> httpx.Response:
        await self._stack.aclose()
        request = Request(
            "GET",
            path_of("/v1/chat/{}/events", self.run_id),
            headers={"Accept": "text/event-stream", "Last-Event-ID": str(self.last_event_id)},
        )
        return await self._stack.enter_async_context(self._transport.open(request))
