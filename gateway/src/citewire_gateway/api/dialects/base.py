"""What every dialect can do: turn canonical events into bytes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring  # the C function behind json.dumps(ensure_ascii=False) for one text
from typing import ClassVar

from citewire_gateway.api.schemas.base import ResponseModel
from citewire_gateway.chat.events import Event
from citewire_kit.errors import CitewireError

quoted: Callable[[str], str] = encode_basestring
"""A text as a JSON string, quotes included."""

HEARTBEAT = b": keep-alive\n\n"
"""A comment: keeps proxies from closing a silent stream, and means nothing to clients."""


class StreamDialect(ABC):
    """Writes the frames of one stream, in order; one object per stream."""

    name: ClassVar[str]
    """Label in metrics and records."""

    media_type: ClassVar[str] = "text/event-stream"

    headers: ClassVar[Sequence[tuple[bytes, bytes]]] = ()
    """Response headers beyond those of every stream."""

    @abstractmethod
    def encode(self, event: Event) -> bytes:
        """Returns the event's frames, empty if this dialect (or the profile) doesn't show it."""

    @abstractmethod
    def failed(self, error: CitewireError, *, retryable: bool) -> bytes:
        """Returns the frames that end a stream that failed. It must not look like a stream that succeeded.

        `retryable`: the server is going away, and the same request may be sent again at once.
        """


class AnswerDialect(ABC):
    """Gathers a chat into one JSON body; one object per request."""

    name: ClassVar[str] = "json"

    @abstractmethod
    def add(self, event: Event) -> None:
        """Takes an event."""

    @abstractmethod
    def body(self) -> ResponseModel:
        """Returns the body, after `Done`."""
