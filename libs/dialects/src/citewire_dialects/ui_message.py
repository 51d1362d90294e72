"""Vercel AI SDK's UI message stream, a dialect of `/v1/chat`: what `useChat` reads.

Every frame is `data: JSON` with a `type`; the stream ends in `[DONE]`. Our own events travel as `data-…` parts.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import MISSING, ConfigDict, Field, WithJsonSchema, create_model
from pydantic.alias_generators import to_camel

from citewire_dialects.dialect import ChatStreamDialect, quoted
from citewire_dialects.events import Citation, Citations, Done, Event, Tokens
from citewire_dialects.profile import EventType
from citewire_dialects.schemas.chat import CHAT_EVENTS, event_payload
from citewire_http.api.schemas import ResponseModel, Uuid
from citewire_kit.errors import CitewireError

_TEXT_ID = "answer"
_END = b"data: [DONE]\n\n"


class UiPart(ResponseModel):
    """A part of the stream: one frame."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)


class UiStart(UiPart):
    """The message begins."""

    type: Literal["start"]
    message_id: str = Field(examples=["msg_0a1b2c"])


class UiStartStep(UiPart):
    """Start of a step; there is only one."""

    type: Literal["start-step"]


class UiSourceUrl(UiPart):
    """A citation of a document with a URL."""

    type: Literal["source-url"]
    source_id: str = Field(examples=["1"])
    url: str = Field(examples=["https://example.org/vectors"])
    title: str = Field(examples=["Vector search § Distances"])


class UiSourceDocument(UiPart):
    """A citation of a document without a URL."""

    type: Literal["source-document"]
    source_id: str = Field(examples=["1"])
    media_type: Literal["text/plain"]
    title: str = Field(examples=["report.pdf § Results"])
    filename: str | MISSING = Field(default=MISSING, examples=["report.pdf"])


class UiTextStart(UiPart):
    """The text begins."""

    type: Literal["text-start"]
    id: str = Field(examples=["answer"])


class UiTextDelta(UiPart):
    """A fragment of the answer's text."""

    type: Literal["text-delta"]
    id: str = Field(examples=["answer"])
    delta: str = Field(examples=["Revenue grew by 12 %."])


class UiTextEnd(UiPart):
    """The text is complete."""

    type: Literal["text-end"]
    id: str = Field(examples=["answer"])


class UiFinishStep(UiPart):
    """The step is complete."""

    type: Literal["finish-step"]


class UiMetadata(ResponseModel):
    """How the chat ended."""

    finish_reason: str = Field(examples=["stop"])
    exchange_id: Uuid = Field(examples=["01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e12"])
    not_found: bool = Field(examples=[False])
    conversation_id: Uuid | MISSING = Field(default=MISSING, examples=["01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11"])


class UiFinish(UiPart):
    """The message is complete; `[DONE]` follows."""

    type: Literal["finish"]
    message_metadata: UiMetadata


class UiError(UiPart):
    """The end of a stream that failed; `[DONE]` follows."""

    type: Literal["error"]
    error_text: str = Field(examples=["the model provider went away"])


def _data_part(event: str, data: type[ResponseModel]) -> type[UiPart]:
    schema = {"const": f"data-{event}", "type": "string"}
    return create_model(
        f"Ui{data.__name__}",
        __base__=UiPart,
        __doc__=f"The event `{event}` of the native dialect.",
        type=(Annotated[str, WithJsonSchema(schema)], ...),
        data=(data, ...),
    )


UI_DATA: Mapping[str, type[UiPart]] = {
    event: _data_part(event, data) for event, data in CHAT_EVENTS.items() if event not in ("token", "error", "done")
}
"""Parts that carry an event of the native dialect."""

UI_STREAM = (
    UiStart,
    UiStartStep,
    UiSourceUrl,
    UiSourceDocument,
    *UI_DATA.values(),
    UiTextStart,
    UiTextDelta,
    UiTextEnd,
    UiFinishStep,
    UiFinish,
    UiError,
)


class UiMessageDialect(ChatStreamDialect):
    """One assistant message: its sources, its text, and our own events as data parts."""

    name: ClassVar[str] = "ui_message"
    headers: ClassVar[Sequence[tuple[bytes, bytes]]] = ((b"x-vercel-ai-ui-message-stream", b"v1"),)

    def __init__(self, events: Collection[EventType], message_id: str) -> None:
        """`events`: the events that this stream may show."""
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
                parts = _frames(*(_source(citation) for citation in citations))
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

    def failed(self, error: CitewireError) -> bytes:
        """See `StreamDialect.failed`."""
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


def _source(citation: Citation) -> UiSourceUrl | UiSourceDocument:
    """Returns a citation as the part that lists it."""
    chunk, number, title = citation.chunk, str(citation.index), citation.chunk.label
    if chunk.url:
        return UiSourceUrl(type="source-url", source_id=number, url=chunk.url, title=title)
    return UiSourceDocument(
        type="source-document",
        source_id=number,
        media_type="text/plain",
        title=title,
        filename=chunk.file_name or MISSING,
    )


def _data(event: Event) -> bytes:
    part = UI_DATA[event.type].model_validate({"type": f"data-{event.type}", "data": event_payload(event)})
    return _frames(part)


def _frames(*parts: UiPart) -> bytes:
    return "".join(part.frame() for part in parts).encode()
