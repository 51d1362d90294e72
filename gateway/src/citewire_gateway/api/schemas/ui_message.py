"""Parts of Vercel AI SDK's UI message stream, as its clients name their fields."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import MISSING, ConfigDict, Field, WithJsonSchema, create_model
from pydantic.alias_generators import to_camel

from citewire_gateway.api.schemas.base import ResponseModel, Uuid
from citewire_gateway.api.schemas.chat import CHAT_EVENTS
from citewire_gateway.chat import events


class UiPart(ResponseModel):
    """A part of the stream: one frame."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)


class UiStart(UiPart):
    """The message begins."""

    type: Literal["start"]
    message_id: str = Field(examples=["msg_0a1b2c"])


class UiStartStep(UiPart):
    """A step begins; there is one."""

    type: Literal["start-step"]


class UiSourceUrl(UiPart):
    """A citation whose document has an address."""

    type: Literal["source-url"]
    source_id: str = Field(examples=["1"])
    url: str = Field(examples=["https://example.org/vectors"])
    title: str = Field(examples=["Vector search § Distances"])


class UiSourceDocument(UiPart):
    """A citation whose document has none."""

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
    """A piece of the answer's text."""

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


def source_part(citation: events.Citation) -> UiSourceUrl | UiSourceDocument:
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
