"""The dialect of `/api/chat/` and `/api/chat/query`: data-only frames, and a body of answer and sources."""

import json
from typing import Any, ClassVar

from citewire_gateway.api.dialects.base import AnswerDialect, StreamDialect, quoted
from citewire_gateway.api.wire import name_of, place_value
from citewire_gateway.chat.events import Citation, Citations, Done, Event, Tokens
from citewire_kit.errors import CitewireError


class SimpleDialect(StreamDialect):
    """`data: {"token": …}` many, then `data: {"done": true, "sources": […]}`; a fault ends in `data: {"error": …}`."""

    name: ClassVar[str] = "simple"

    def __init__(self) -> None:
        self._sources: list[dict[str, Any]] = []

    def encode(self, event: Event) -> bytes:
        """See `StreamDialect.encode`."""
        match event:
            case Tokens(texts=texts):
                return "".join([f'data: {{"token": {quoted(text)}}}\n\n' for text in texts]).encode()
            case Citations(citations=citations):
                self._sources = [_source(citation) for citation in citations]
                return b""
            case Done():
                return _frame({"done": True, "sources": self._sources})
            case _:
                return b""

    def failed(self, error: CitewireError, *, retryable: bool) -> bytes:
        """See `StreamDialect.failed`."""
        del retryable  # this dialect has no member for it
        return _frame({"error": error.message})


class SimpleAnswer(AnswerDialect):
    """`{"answer", "sources"}`."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._sources: list[dict[str, Any]] = []

    def add(self, event: Event) -> None:
        """See `AnswerDialect.add`."""
        match event:
            case Tokens(texts=texts):
                self._texts.extend(texts)
            case Citations(citations=citations):
                self._sources = [_source(citation) for citation in citations]
            case _:
                pass

    def body(self) -> dict[str, Any]:
        """See `AnswerDialect.body`."""
        return {"answer": "".join(self._texts), "sources": self._sources}


def _source(citation: Citation) -> dict[str, Any]:
    chunk = citation.chunk
    return {
        "document_id": chunk.document_id,
        "filename": name_of(chunk),
        "page": place_value(chunk, "page_number"),
        "content": chunk.text,
    }


def _frame(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
