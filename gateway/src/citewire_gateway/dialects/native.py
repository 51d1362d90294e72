"""The native dialect: each event as `event: TYPE`, `id: SEQUENCE`, `data: JSON`; the stream ends in `done`."""

import json
from collections.abc import Collection
from typing import Any, ClassVar

from citewire_gateway.dialects.base import StreamDialect, quoted
from citewire_gateway.events import (
    Assessed,
    CheckedCitation,
    Citations,
    ConversationCreated,
    Decided,
    Done,
    Event,
    EventType,
    Sources,
    Step,
    Tokens,
    UncitedSentence,
    Usage,
)
from citewire_gateway.wire import (
    assessment_json,
    checked_json,
    citation_json,
    decision_json,
    source_json,
    step_json,
    uncited_json,
    usage_json,
)
from citewire_kit.errors import CitewireError


class NativeDialect(StreamDialect):
    """Frames of `POST /v1/chat`; only events that the profile allows are shown."""

    name: ClassVar[str] = "native"

    def __init__(self, events: Collection[EventType]) -> None:
        """`events`: what this stream may show."""
        self._events = frozenset(events)
        self._sequence = 0

    def encode(self, event: Event) -> bytes:
        """See `StreamDialect.encode`."""
        if type(event) is Tokens:
            return self._tokens(event)
        if event.type not in self._events:
            return b""
        return self._frame(event.type, _data(event))

    def failed(self, error: CitewireError, *, retryable: bool) -> bytes:
        """See `StreamDialect.failed`."""
        data: dict[str, Any] = {"text": error.message}
        if retryable:
            data["retryable"] = True
        return self._frame(EventType.ERROR, data) + self._frame(EventType.DONE, {})

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

    def _frame(self, name: str, data: dict[str, Any]) -> bytes:
        self._sequence += 1
        text = json.dumps(data, ensure_ascii=False)
        return f"event: {name}\nid: {self._sequence}\ndata: {text}\n\n".encode()


def _data(event: Event) -> dict[str, Any]:
    match event:
        case ConversationCreated(conversation_id=conversation_id):
            return {"conversation_id": conversation_id}
        case Step():
            return step_json(event)
        case Decided():
            return decision_json(event)
        case Citations(citations=citations):
            return {"citations": [citation_json(citation) for citation in citations]}
        case CheckedCitation():
            return checked_json(event)
        case UncitedSentence():
            return uncited_json(event)
        case Sources(citations=citations):
            return {"sources": [source_json(citation) for citation in citations]}
        case Assessed():
            return assessment_json(event)
        case Usage():
            return usage_json(event)
        case Done():
            return {}
        case Tokens(texts=texts):
            return {"text": "".join(texts)}
