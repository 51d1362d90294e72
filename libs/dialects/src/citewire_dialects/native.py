"""The native dialect: each event as `event: TYPE`, `id: SEQUENCE`, `data: JSON`; and the whole chat as one body."""

from collections.abc import Collection
from typing import Any, ClassVar

from fastapi import Request
from pydantic import MISSING

from citewire_dialects import events
from citewire_dialects.dialect import AnswerDialect, ChatStreamDialect, quoted
from citewire_dialects.events import Event, Tokens
from citewire_dialects.passed_on import renamed
from citewire_dialects.profile import EventType
from citewire_dialects.schemas import StreamError
from citewire_dialects.schemas import chat as schemas
from citewire_dialects.schemas.chat import ChatAnswer, event_payload
from citewire_http.api.schemas import Nothing, ResponseModel
from citewire_kit.errors import CitewireError

CHAT_PATH = "/v1/chat"


class NativeDialect(ChatStreamDialect):
    """Frames of `POST /v1/chat`, with `done` last; only events that the profile allows are shown."""

    name: ClassVar[str] = "native"

    def __init__(self, shown: Collection[EventType]) -> None:
        """`shown`: the events that this stream may show."""
        self._shown = frozenset(shown)
        self._sequence = 0

    def encode(self, event: Event) -> bytes:
        """See `StreamDialect.encode`."""
        if type(event) is Tokens:
            return self._tokens(event)
        if event.type not in self._shown:
            return b""
        return self._frame(event.type, event_payload(event))

    def failed(self, error: CitewireError) -> bytes:
        """See `StreamDialect.failed`."""
        if error.reason not in ("RUN_LOST", "RUN_CANCELLED"):
            return self._failed(StreamError(text=error.message))
        return self._failed(StreamError(text=error.message, reason=error.reason, last_sequence=self._sequence))

    def going_away(self, error: CitewireError) -> bytes:
        """See `StreamDialect.going_away`."""
        return self._failed(StreamError(text=error.message, retryable=True))

    def _failed(self, fault: StreamError) -> bytes:
        return self._frame(EventType.ERROR, fault) + self._frame(EventType.DONE, Nothing())

    def _tokens(self, event: Tokens) -> bytes:
        """One frame per delta, in one piece: this runs for every token of every stream."""
        number = self._sequence
        if len(event.texts) == 1:
            self._sequence = number + 1
            return f'event: token\nid: {number + 1}\ndata: {{"text": {quoted(event.texts[0])}}}\n\n'.encode()
        frames: list[str] = []
        for text in event.texts:
            number += 1
            frames.append(f'event: token\nid: {number}\ndata: {{"text": {quoted(text)}}}\n\n')
        self._sequence = number
        return "".join(frames).encode()

    def _frame(self, name: str, data: ResponseModel) -> bytes:
        self._sequence += 1
        return f"event: {name}\nid: {self._sequence}\n{data.frame()}".encode()


def native_members(request: Request, error: CitewireError) -> dict[str, Any]:
    """Returns the members of a problem document, with the request's field names instead of the generator's."""
    return renamed(error) if request.url.path == CHAT_PATH else {}


class ResumedDialect(NativeDialect):
    """The same frames with the same numbers, for a client that has seen the first ones."""

    def __init__(self, shown: Collection[EventType], after: int) -> None:
        """`after`: the last number seen."""
        super().__init__(shown)
        self._after = after

    def failed(self, error: CitewireError) -> bytes:
        """See `StreamDialect.failed`. Of a lost run, more may have been shown than was stored."""
        if error.reason == "RUN_LOST":
            self._sequence = max(self._sequence, self._after)
        return super().failed(error)

    def _tokens(self, event: Tokens) -> bytes:
        texts = event.texts[max(0, self._after - self._sequence) :]
        self._sequence += len(event.texts) - len(texts)
        return super()._tokens(Tokens(texts))

    def _frame(self, name: str, data: ResponseModel) -> bytes:
        frame = super()._frame(name, data)
        return frame if self._sequence > self._after else b""


class JsonAnswer(AnswerDialect):
    """`"stream": false`: answer, citations, usage, and how it came about."""

    def __init__(self, shown: Collection[EventType]) -> None:
        """`shown`: the events that this answer may contain."""
        super().__init__()
        self._shown = frozenset(shown)

    def body(self) -> ChatAnswer:
        """See `AnswerDialect.body`."""
        verified = [schemas.VerifiedCitation.read(event) for event in self.all(events.VerifiedCitation)]
        uncited = [schemas.UncitedSentence.read(event) for event in self.all(events.UncitedSentence)]
        listed = bool(self.all(events.Sources))
        return ChatAnswer.read(
            self.outcome,
            answer=self.text,
            tool_calls=self.tool_calls or MISSING,
            citations=[schemas.Citation.read(citation) for citation in self.citations],
            usage=schemas.TokenUsage.read(self.all(events.Usage)[0]),
            verified=verified if EventType.CITATION in self._shown else MISSING,
            uncited=uncited if EventType.UNCITED in self._shown else MISSING,
            **{
                name: schemas.event_payload(event)
                for name, kind in (("decision", events.Decision), ("assessment", events.Assessment))
                for event in self.all(kind)
            },
            sources=[schemas.Source.of(citation) for citation in self.citations] if listed else MISSING,
        )
