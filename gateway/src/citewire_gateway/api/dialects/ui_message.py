"""Vercel AI SDK's UI message stream, a dialect of `/v1/chat`: what `useChat` reads.

Every frame is `data: JSON` with a `type`; the stream ends in `[DONE]`. Our own events travel as `data-…` parts.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from citewire_gateway.api.dialects.base import StreamDialect, quoted
from citewire_gateway.api.wire import event_json, ref_of
from citewire_gateway.chat.events import Citation, Citations, Done, Event, Tokens
from citewire_gateway.profiles.model import EventType
from citewire_kit.errors import CitewireError

_TEXT_ID = "answer"
_END = b"data: [DONE]\n\n"


class UiMessageDialect(StreamDialect):
    """One assistant message: its sources, its text, and our own events as data parts."""

    name: ClassVar[str] = "ui_message"
    headers: ClassVar[Sequence[tuple[bytes, bytes]]] = ((b"x-vercel-ai-ui-message-stream", b"v1"),)

    def __init__(self, events: Collection[EventType], message_id: str) -> None:
        """`events`: what this stream may show."""
        self._events = frozenset(events)
        self._message_id = message_id
        self._started = self._in_text = False

    def encode(self, event: Event) -> bytes:
        """See `StreamDialect.encode`."""
        if event.type not in self._events:
            return b""
        match event:
            case Tokens(texts=texts):
                delta = "".join(texts)
                frame = f'data: {{"type": "text-delta", "id": "{_TEXT_ID}", "delta": {quoted(delta)}}}\n\n'
                return self._begin() + self._open_text() + frame.encode()
            case Citations(citations=citations):
                parts = b"".join([_frame(_source_part(citation)) for citation in citations])
                return self._begin() + parts + _data(event.type, event_json(event))
            case Done(outcome=outcome):
                metadata = {
                    "finish_reason": outcome.finish_reason,
                    "exchange_id": outcome.exchange_id,
                    "not_found": outcome.not_found,
                    **({"conversation_id": outcome.conversation_id} if outcome.conversation_id else {}),
                }
                last = _frame({"type": "finish-step"}) + _frame({"type": "finish", "messageMetadata": metadata})
                return self._begin() + self._close_text() + last + _END
            case _:
                return self._begin() + _data(event.type, event_json(event))

    def failed(self, error: CitewireError, *, retryable: bool) -> bytes:
        """See `StreamDialect.failed`."""
        del retryable  # this dialect has no member for it
        return self._begin() + _frame({"type": "error", "errorText": error.message}) + _END

    def _begin(self) -> bytes:
        if self._started:
            return b""
        self._started = True
        return _frame({"type": "start", "messageId": self._message_id}) + _frame({"type": "start-step"})

    def _open_text(self) -> bytes:
        if self._in_text:
            return b""
        self._in_text = True
        return _frame({"type": "text-start", "id": _TEXT_ID})

    def _close_text(self) -> bytes:
        return _frame({"type": "text-end", "id": _TEXT_ID}) if self._in_text else b""


def _source_part(citation: Citation) -> dict[str, Any]:
    chunk = citation.chunk
    if chunk.url:
        return {"type": "source-url", "sourceId": str(citation.index), "url": chunk.url, "title": ref_of(chunk)}
    part: dict[str, Any] = {
        "type": "source-document",
        "sourceId": str(citation.index),
        "mediaType": "text/plain",
        "title": ref_of(chunk),
    }
    return part | ({"filename": chunk.file_name} if chunk.file_name else {})


def _data(name: str, data: Mapping[str, Any]) -> bytes:
    return _frame({"type": f"data-{name}", "data": data})


def _frame(part: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(part, ensure_ascii=False)}\n\n".encode()
