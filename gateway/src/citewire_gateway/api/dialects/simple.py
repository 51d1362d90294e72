"""The dialect of `/api/chat/` and `/api/chat/query`: data-only frames, and a body of answer and sources."""

from typing import ClassVar

from citewire_gateway.api.dialects.base import AnswerDialect, StreamDialect, quoted
from citewire_gateway.api.schemas.chat import SimpleAnswer, SimpleDone, SimpleError, SimpleSource
from citewire_gateway.chat.events import Citations, Done, Event, Tokens
from citewire_kit.errors import CitewireError


class SimpleDialect(StreamDialect):
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

    def failed(self, error: CitewireError, *, retryable: bool) -> bytes:
        """See `StreamDialect.failed`."""
        del retryable  # this dialect has no member for it
        return SimpleError(error=error.message).frame().encode()


class SimpleJsonAnswer(AnswerDialect):
    """`{"answer", "sources"}`."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._sources: list[SimpleSource] = []

    def add(self, event: Event) -> None:
        """See `AnswerDialect.add`."""
        match event:
            case Tokens(texts=texts):
                self._texts.extend(texts)
            case Citations(citations=citations):
                self._sources = [SimpleSource.read(citation) for citation in citations]
            case _:
                pass

    def body(self) -> SimpleAnswer:
        """See `AnswerDialect.body`."""
        return SimpleAnswer(answer="".join(self._texts), sources=self._sources)
