"""An answer as it is written."""

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
"""Connections in a row that may break without bringing anything."""


class ChatStream:
    """The events of one chat: enter it, then iterate. Leaving it before its end stops the chat, unless it is detached.

    Where the chat has `grace_seconds`, a connection that breaks is opened again after the last event that came: no
    event comes twice, and none is left out.
    """

    def __init__(self, transport: Transport, request: Request) -> None:
        """Nothing is sent before it is entered."""
        self._transport = transport
        self._request = request
        self._can_resume = bool(request.json.get("grace_seconds") or request.json.get("detach"))
        self._detached = bool(request.json.get("detach"))
        self._stack = ExitStack()
        self._events: Generator[ChatEvent, None] | None = None
        self._texts: list[str] = []
        self.run_id: UUID | None = None
        """By which the chat can be read elsewhere and cancelled; None: it has no grace, and ends with its reader."""
        self.conversation_id: UUID | None = None
        """Of profiles that keep conversations, once the stream has said it."""
        self.last_event_id = 0
        """Number of the last event that came."""
        self.citations: tuple[models.Citation, ...] = ()
        """What was placed in the prompt, once it has come."""
        self.verified: list[models.VerifiedCitation] = []
        """What was checked so far, sentence by sentence."""
        self.usage: models.TokenUsage | None = None
        """Tokens and cost, once they have come."""
        self.is_done = False
        """Whether the answer came whole."""

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self._texts)

    def __enter__(self) -> Self:
        """Asks; raises as the client's methods do."""
        response = self._stack.enter_context(self._transport.open(self._request))
        run = response.headers.get("citewire-run")
        self.run_id = UUID(run) if run else None
        self._events = self._whole(response)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the connection. With grace the chat would go on: it is cancelled."""
        if self._events is not None:
            self._events.close()
        self._stack.close()
        if not self.is_done and self.run_id is not None and not self._detached:
            with suppress(CitewireError):
                self._transport.do(Request("POST", path_of("/v1/chat/{}/cancel", self.run_id)))

    def __iter__(self) -> Self:
        """Yields events until the answer is whole.

        Raises:
            ChatFailedError: The gateway says that it failed.
            StreamCutError: The stream ended before its end.
            CitewireError: As the client's methods.
        """
        return self

    def __next__(self) -> ChatEvent:
        """The next event; raises as iterating does."""
        if self._events is None:
            raise RuntimeError("enter the stream first: `with client.stream_chat(...) as stream`")
        return self._events.__next__()

    def text_pieces(self) -> Generator[str, None]:
        """Yields the answer's text alone, piece by piece; raises as iterating does."""
        for event in self:
            if isinstance(event, models.TokenEvent):
                yield event.data.text

    def until_done(self) -> Self:
        """Reads the rest; raises as iterating does."""
        for _ in self:
            pass
        return self

    def _whole(self, response: httpx.Response) -> Generator[ChatEvent, None]:
        """Yields events over as many connections as it takes."""
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
        """Yields what one connection brings, or raises."""
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
        raise StreamCutError("the stream ended before its last event: the answer isn't whole")

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
