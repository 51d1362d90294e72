"""What every dialect can do: turn canonical events into bytes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring  # the C function behind json.dumps(ensure_ascii=False) for one text
from typing import ClassVar, Generic, TypeVar, cast

from citewire_gateway.chat.events import Citation, Citations, Done, Event, Outcome, Tokens
from citewire_http.api.schemas import ResponseModel
from citewire_kit.errors import CitewireError

E = TypeVar("E")
K = TypeVar("K")

quoted: Callable[[str], str] = encode_basestring
"""A text as a JSON string, quotes included."""

HEARTBEAT = b": keep-alive\n\n"
"""A comment: keeps proxies from closing a silent stream, and means nothing to clients."""


class StreamDialect(ABC, Generic[E]):
    """Writes the frames of one stream, in order; one object per stream."""

    name: ClassVar[str]
    """Label in metrics and records."""

    headers: ClassVar[Sequence[tuple[bytes, bytes]]] = ()
    """Response headers beyond those of every stream."""

    @abstractmethod
    def encode(self, event: E) -> bytes:
        """Returns the event's frames, empty if this dialect (or the profile) doesn't show it."""

    @abstractmethod
    def failed(self, error: CitewireError) -> bytes:
        """Returns the frames that end a stream that failed. It must not look like a stream that succeeded."""

    def going_away(self, error: CitewireError) -> bytes:
        """Returns those of a stream that ends with this process: the same request may be sent again at once."""
        return self.failed(error)


class AnswerDialect(ABC):
    """Gathers a chat into one JSON body; one object per request."""

    name: ClassVar[str] = "json"

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._events: dict[type[Event], list[Event]] = {}

    def add(self, event: Event) -> None:
        """Takes an event."""
        if isinstance(event, Tokens):
            self._texts.extend(event.texts)
        else:
            self._events.setdefault(type(event), []).append(event)

    @property
    def text(self) -> str:
        """The answer."""
        return "".join(self._texts)

    @property
    def citations(self) -> tuple[Citation, ...]:
        """What was placed in the prompt."""
        return tuple(citation for event in self.all(Citations) for citation in event.citations)

    @property
    def outcome(self) -> Outcome:
        """How the chat ended."""
        return self.all(Done)[0].outcome

    def all(self, kind: type[K]) -> list[K]:
        """Returns the events of a kind, in order."""
        return cast("list[K]", self._events.get(cast("type[Event]", kind), []))

    @abstractmethod
    def body(self) -> ResponseModel:
        """Returns the body, after the last event."""


ChatDialect = StreamDialect[Event] | AnswerDialect
"""What answers a chat."""
