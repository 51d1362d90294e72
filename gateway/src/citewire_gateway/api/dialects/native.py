"""The native dialect: each event as `event: TYPE`, `id: SEQUENCE`, `data: JSON`; and the whole chat as one body."""

from collections.abc import Collection
from typing import ClassVar

from pydantic import MISSING

from citewire_gateway.api.dialects.base import AnswerDialect, StreamDialect, quoted
from citewire_gateway.api.schemas.base import Nothing, ResponseModel, StreamError
from citewire_gateway.api.schemas.chat import (
    Assessment,
    ChatAnswer,
    Citation,
    Decision,
    Source,
    TokenUsage,
    UncitedSentence,
    VerifiedCitation,
    event_payload,
)
from citewire_gateway.chat import events
from citewire_gateway.chat.events import Event, Tokens
from citewire_gateway.profiles.model import EventType
from citewire_kit.errors import CitewireError


class NativeDialect(StreamDialect):
    """Frames of `POST /v1/chat`, `done` last; only events that the profile allows are shown."""

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

    def failed(self, error: CitewireError, *, retryable: bool) -> bytes:
        """See `StreamDialect.failed`."""
        fault = StreamError(text=error.message, retryable=True if retryable else MISSING)
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


class JsonAnswer(AnswerDialect):
    """`"stream": false`: answer, citations, usage, and how it came about."""

    def __init__(self, shown: Collection[EventType]) -> None:
        """`shown`: the events that this answer may hold."""
        self._shown = frozenset(shown)
        self._texts: list[str] = []
        self._citations: list[Citation] = []
        self._verified: list[VerifiedCitation] = []
        self._uncited: list[UncitedSentence] = []
        self._sources: list[Source] | MISSING = MISSING
        self._decision: Decision | MISSING = MISSING
        self._assessment: Assessment | MISSING = MISSING
        self._usage: TokenUsage | None = None
        self._outcome: events.Outcome | None = None

    def add(self, event: Event) -> None:
        """See `AnswerDialect.add`."""
        match event:
            case Tokens(texts=texts):
                self._texts.extend(texts)
            case events.Citations(citations=citations):
                self._citations = [Citation.read(citation) for citation in citations]
            case events.Sources(citations=citations):
                self._sources = [Source.of(citation) for citation in citations]
            case events.VerifiedCitation():
                self._verified.append(VerifiedCitation.read(event))
            case events.UncitedSentence():
                self._uncited.append(UncitedSentence.read(event))
            case events.Decision():
                self._decision = Decision.read(event)
            case events.Assessment():
                self._assessment = Assessment.read(event)
            case events.Usage():
                self._usage = TokenUsage.read(event)
            case events.Done(outcome=outcome):
                self._outcome = outcome
            case _:
                pass  # the conversation and the steps are in the outcome

    def body(self) -> ChatAnswer:
        """See `AnswerDialect.body`."""
        outcome, usage = self._outcome, self._usage
        if outcome is None or usage is None:
            raise RuntimeError("the chat isn't done")
        return ChatAnswer.read(
            outcome,
            answer="".join(self._texts),
            citations=self._citations,
            sources=self._sources,
            decision=self._decision,
            assessment=self._assessment,
            usage=usage,
            verified=self._verified if EventType.CITATION in self._shown else MISSING,
            uncited=self._uncited if EventType.UNCITED in self._shown else MISSING,
        )
