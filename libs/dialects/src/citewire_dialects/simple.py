"""The dialect of `/api/chat/` and `/api/chat/query`: data-only frames, and a body of answer and sources."""

from typing import ClassVar, Literal

from pydantic import Field, StrictStr

from citewire_dialects.dialect import LONG_LIST, AnswerDialect, ChatStreamDialect, quoted
from citewire_dialects.events import Citations, Done, Event, Tokens
from citewire_dialects.schemas import DocumentIds
from citewire_dialects.schemas.questions import ForeignRequest
from citewire_http.api.reading import Names
from citewire_http.api.schemas import Id, ResponseModel
from citewire_kit.errors import CitewireError


class SimpleRequest(ForeignRequest):
    """A question of the simple API."""

    question: StrictStr = Field(examples=["How much did revenue grow?"])
    document_ids: DocumentIds | None = Field(
        default=None, description="Only these documents; absent or empty means all."
    )


class SimpleSource(ResponseModel):
    """A source of the simple API."""

    parts = ("chunk",)
    names: ClassVar[Names] = {"filename": "document_name", "page": "place.page", "content": "text"}

    document_id: Id = Field(examples=[7])
    filename: str = Field(examples=["report.pdf"])
    page: Id | None = Field(examples=[3])
    content: str = Field(examples=["Revenue grew by 12 %, …"])


class SimpleAnswer(ResponseModel):
    """An answer of the simple API."""

    answer: str = Field(examples=["Revenue grew by 12 %."])
    sources: list[SimpleSource]


class SimpleToken(ResponseModel):
    """A fragment of the answer's text."""

    token: str = Field(examples=["Revenue grew by 12 %."])


class SimpleDone(ResponseModel):
    """The end of a stream that succeeded."""

    done: Literal[True]
    sources: list[SimpleSource]


class SimpleError(ResponseModel):
    """The end of a stream that failed."""

    error: str = Field(examples=["the model provider went away"])


SIMPLE_STREAM = (SimpleToken, SimpleDone, SimpleError)


class SimpleDialect(ChatStreamDialect):
    """`data: {"token": …}` many, then `data: {"done": true, "sources": […]}`; a fault ends in `data: {"error": …}`."""

    name: ClassVar[str] = "simple"

    def __init__(self) -> None:
        self._sources: list[SimpleSource] = []

    def encode(self, event: Event) -> bytes:
        """See `StreamDialect.encode`."""
        match event:
            case Tokens(texts=texts):
                return "".join([f'data: {{"token": {quoted(text)}}}\n\n' for text in texts]).encode()
            case Citations(citations=citations):
                self._sources = [SimpleSource.read(citation) for citation in citations]
                return b""
            case Done():
                return SimpleDone(done=True, sources=self._sources).frame().encode()
            case _:
                return b""

    def takes_long(self, event: Event) -> bool:
        """See `StreamDialect.takes_long`: the sources come last."""
        return super().takes_long(event) or (isinstance(event, Done) and len(self._sources) > LONG_LIST)

    def failed(self, error: CitewireError) -> bytes:
        """See `StreamDialect.failed`."""
        return SimpleError(error=error.message).frame().encode()


class SimpleJsonAnswer(AnswerDialect):
    """`{"answer", "sources"}`."""

    def body(self) -> SimpleAnswer:
        """See `AnswerDialect.body`."""
        return SimpleAnswer(answer=self.text, sources=[SimpleSource.read(citation) for citation in self.citations])
