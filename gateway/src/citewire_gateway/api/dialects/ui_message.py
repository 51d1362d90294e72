"""Vercel AI SDK's UI message stream, a dialect of `/v1/chat`: what `useChat` reads.

Every frame is `data: JSON` with a `type`; the stream ends in `[DONE]`. Our own events travel as `data-…` parts.
"""

from collections.abc import Collection, Sequence
from typing import ClassVar

from pydantic import MISSING

from citewire_gateway.api.dialects.base import StreamDialect, quoted
from citewire_gateway.api.schemas.chat import event_payload
from citewire_gateway.api.schemas.ui_message import (
    UI_DATA,
    UiError,
    UiFinish,
    UiFinishStep,
    UiMetadata,
    UiPart,
    UiStart,
    UiStartStep,
    UiTextEnd,
    UiTextStart,
    source_part,
)
from citewire_gateway.chat.events import Citations, Done, Event, Tokens
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
                parts = _frames(*(source_part(citation) for citation in citations))
                return self._begin() + parts + _data(event)
            case Done(outcome=outcome):
                metadata = UiMetadata(
                    finish_reason=outcome.finish_reason,
                    exchange_id=outcome.exchange_id,
                    not_found=outcome.not_found,
                    conversation_id=outcome.conversation_id or MISSING,
                )
                last = _frames(UiFinishStep(type="finish-step"), UiFinish(type="finish", message_metadata=metadata))
                return self._begin() + self._close_text() + last + _END
            case _:
                return self._begin() + _data(event)

    def failed(self, error: CitewireError, *, retryable: bool) -> bytes:
        """See `StreamDialect.failed`."""
        del retryable  # this dialect has no member for it
        return self._begin() + _frames(UiError(type="error", error_text=error.message)) + _END

    def _begin(self) -> bytes:
        if self._started:
            return b""
        self._started = True
        return _frames(UiStart(type="start", message_id=self._message_id), UiStartStep(type="start-step"))

    def _open_text(self) -> bytes:
        if self._in_text:
            return b""
        self._in_text = True
        return _frames(UiTextStart(type="text-start", id=_TEXT_ID))

    def _close_text(self) -> bytes:
        return _frames(UiTextEnd(type="text-end", id=_TEXT_ID)) if self._in_text else b""


def _data(event: Event) -> bytes:
    part = UI_DATA[event.type].model_validate({"type": f"data-{event.type}", "data": event_payload(event)})
    return _frames(part)


def _frames(*parts: UiPart) -> bytes:
    return "".join(part.frame() for part in parts).encode()
