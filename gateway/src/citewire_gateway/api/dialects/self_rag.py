"""The dialect of `/api/rag-chat/stream`: `decision`, `retrieval`, `content`, `assessment`, then `done`."""

from typing import ClassVar

from citewire_gateway.api.dialects import StreamDialect, quoted
from citewire_gateway.api.schemas import ResponseModel
from citewire_gateway.api.schemas.chat import SelfRagDone, SelfRagError, SelfRagRetrieval, SelfRagSource, event_payload
from citewire_gateway.chat.events import Assessment, Citations, Decision, Done, Event, Tokens
from citewire_kit.errors import CitewireError


class SelfRagDialect(StreamDialect[Event]):
    """Frames `event: TYPE`, `data: JSON`. A fault is `error`, and nothing follows it."""

    name: ClassVar[str] = "self_rag"

    def encode(self, event: Event) -> bytes:
        """See `StreamDialect.encode`."""
        match event:
            case Tokens(texts=texts):
                return "".join([f'event: content\ndata: {{"delta": {quoted(text)}}}\n\n' for text in texts]).encode()
            case Citations(citations=citations):
                sources = [SelfRagSource.of(citation) for citation in citations]
                return _frame("retrieval", SelfRagRetrieval(total=len(sources), sources=sources))
            case Decision() | Assessment():
                return _frame(event.type, event_payload(event))
            case Done():
                return _frame("done", SelfRagDone(message="completed"))
            case _:
                return b""

    def failed(self, error: CitewireError) -> bytes:
        """See `StreamDialect.failed`."""
        return _frame("error", SelfRagError(message=error.message))


def _frame(name: str, data: ResponseModel) -> bytes:
    return f"event: {name}\n{data.frame()}".encode()
