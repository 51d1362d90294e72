"""The dialect of `/api/chat/` and `/api/chat/query`: data-only frames, and a body of answer and sources."""

from typing import ClassVar

from citewire_gateway.api.dialects import AnswerDialect, StreamDialect, quoted
from citewire_gateway.api.schemas.chat import SimpleAnswer, SimpleDone, SimpleError, SimpleSource
from citewire_gateway.chat.events import Citations, Done, Event, Tokens
from citewire_kit.errors import CitewireError


class SimpleDialect(StreamDialect[Event]):
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

    def failed(self, error: CitewireError) -> bytes:
        """See `StreamDialect.failed`."""
        return SimpleError(error=error.message).frame().encode()


class SimpleJsonAnswer(AnswerDialect):
    """`{"answer", "sources"}`."""

    def body(self) -> SimpleAnswer:
        """See `AnswerDialect.body`."""
        return SimpleAnswer(answer=self.text, sources=[SimpleSource.read(citation) for citation in self.citations])
