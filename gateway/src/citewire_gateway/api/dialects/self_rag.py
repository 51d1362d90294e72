"""The dialect of `/api/rag-chat/stream`: `decision`, `retrieval`, `content`, `assessment`, then `done`."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from citewire_gateway.api.dialects.base import StreamDialect, quoted
from citewire_gateway.api.wire import assessment_json, decision_json, score_of
from citewire_gateway.chat.events import Assessment, Citation, Citations, Decision, Done, Event, Tokens
from citewire_gateway.clients.json_values import struct_to_json
from citewire_kit.errors import CitewireError

_OF_REPOSITORIES = ("owner_login", "owner_avatar_url", "stargazers_count", "language", "description")


class SelfRagDialect(StreamDialect):
    """Frames `event: TYPE`, `data: JSON`. A fault is `error`, and nothing follows it."""

    name: ClassVar[str] = "self_rag"

    def encode(self, event: Event) -> bytes:
        """See `StreamDialect.encode`."""
        match event:
            case Tokens(texts=texts):
                return "".join([f'event: content\ndata: {{"delta": {quoted(text)}}}\n\n' for text in texts]).encode()
            case Decision():
                return _frame("decision", decision_json(event))
            case Citations(citations=citations):
                sources = [source(citation) for citation in citations]
                return _frame("retrieval", {"total": len(sources), "sources": sources})
            case Assessment():
                return _frame("assessment", assessment_json(event))
            case Done():
                return _frame("done", {"message": "completed"})
            case _:
                return b""

    def failed(self, error: CitewireError, *, retryable: bool) -> bytes:
        """See `StreamDialect.failed`."""
        del retryable  # this dialect has no member for it
        return _frame("error", {"message": error.message})


def source(citation: Citation) -> dict[str, Any]:
    """One source. What doesn't apply to its type is null."""
    chunk = citation.chunk
    metadata: Mapping[str, Any] = struct_to_json(chunk.metadata) if chunk.type == "repository" else {}
    stars = metadata.get("stargazers_count")
    return {
        "id": str(chunk.chunk_id),
        "index": citation.index,
        "content": chunk.text,
        "score": score_of(citation.result),
        "source_type": chunk.type,
        "title": chunk.title,
        "url": chunk.url or None,
        **{name: metadata.get(name) for name in _OF_REPOSITORIES},
        # Numbers come back from storage as floating-point ones.
        "stargazers_count": int(stars) if isinstance(stars, int | float) else None,
    }


def _frame(name: str, data: Mapping[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
