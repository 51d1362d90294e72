"""The native dialect: each event as `event: TYPE`, `id: SEQUENCE`, `data: JSON`; the stream ends in `done`."""

import json
from collections.abc import Collection
from typing import Any, ClassVar

from citewire_gateway.api.dialects.base import StreamDialect, quoted
from citewire_gateway.api.wire import event_json
from citewire_gateway.chat.events import Event, Tokens
from citewire_gateway.profiles.model import EventType
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
        return self._frame(event.type, event_json(event))

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
