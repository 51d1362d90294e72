"""A streamed answer."""

from collections.abc import Generator
from contextlib import ExitStack, closing, suppress
from types import TracebackType
from typing import Self
from uuid import UUID

import httpx

from citewire_client import models
from citewire_client._sync.transport import Transport
from citewire_client.errors import ChatFailedError, CitewireError, ConnectionFailedError, StreamCutError
from citewire_client.events import ChatEvent, read_chat_event
from citewire_client.requests import Request, path_of

_RESUMES = 5
"""Maximum number of consecutive connections that may break without delivering an event."""


class ChatStream:
    """The events of one chat: enter it, then iterate. Leaving it early stops the chat, unless it is detached.

    If the chat has `grace_seconds`, a broken connection is reopened after the last event received, without lost or
    duplicate events.
    """

    def __init__(self, transport: Transport, request: Request) -> None:
        """No request is sent before the stream is entered."""
        self._transport = transport
        self._request = request
        self._can_resume = bool(request.json.get("grace_seconds") or request.json.get("detach"))
        self._detached = bool(request.json.get("detach"))
        self._stack = ExitStack()
        self._events: Generator[ChatEvent, None] | None = None
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

    def __enter__(self) -> Self:
        """Sends the question; raises like the client's methods."""
        response = self._stack.enter_context(self._transport.open(self._request))
        run = response.headers.get("citewire-run")
        self.run_id = UUID(run) if run else None
        self._events = self._whole(response)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the connection, and cancels a chat with grace, which would otherwise continue."""
        if self._events is not None:
            self._events.close()
        self._stack.close()
        if not self.is_done and self.run_id is not None and not self._detached:
            with suppress(CitewireError):
                self._transport.do(Request("POST", path_of("/v1/chat/{}/cancel", self.run_id)))

    def __iter__(self) -> Self:
        """Yields events until the answer is complete.

        Raises:
            ChatFailedError: The gateway reported that the answer failed.
            StreamCutError: The stream ended before its last event.
            CitewireError: As for the client's methods.
        """
        return self

    def __next__(self) -> ChatEvent:
        """The next event; raises like iteration."""
        if self._events is None:
            raise RuntimeError("enter the stream first: `with client.stream_chat(...) as stream`")
        return self._events.__next__()

    def text_pieces(self) -> Generator[str, None]:
        """Yields only the answer's text, piece by piece; raises like iteration."""
        for event in self:
            if isinstance(event, models.TokenEvent):
                yield event.data.text

    def until_done(self) -> Self:
        """Reads the rest of the stream; raises like iteration."""
        for _ in self:
            pass
        return self

    def _whole(self, response: httpx.Response) -> Generator[ChatEvent, None]:
        """Yields events over as many connections as necessary."""
        broken, opened = 0, response
        while not self.is_done:
            before = self.last_event_id
            try:
                current = self._resume() if opened is None else opened
                with closing(self._read(current)) as events:
                    for event in events:
                        yield event
            except (ConnectionFailedError, StreamCutError):
                broken = broken + 1 if self.last_event_id == before else 1
                if not self._can_resume or self.run_id is None or broken > _RESUMES:
                    raise
                opened = None

    def _read(self, response: httpx.Response) -> Generator[ChatEvent, None]:
        """Yields the events of one connection, or raises."""
        with closing(self._transport.events(response)) as raw_events:
            for raw in raw_events:
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

    def _resume(self) -> httpx.Response:
        self._stack.close()
        request = Request(
            "GET",
            path_of("/v1/chat/{}/events", self.run_id),
            headers={"Accept": "text/event-stream", "Last-Event-ID": str(self.last_event_id)},
        )
        return self._stack.enter_context(self._transport.open(request))
