"""The interface of every dialect: it converts canonical events to bytes."""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring  # the C function behind json.dumps(ensure_ascii=False) for one text
from typing import Any, ClassVar, TypeVar, cast
from uuid import UUID

from citewire.generator.v1 import generator_pb2

from citewire_dialects.events import (
    Citation,
    Citations,
    Done,
    Event,
    Outcome,
    Sources,
    Tokens,
    ToolCall,
    VerifiedCitation,
)
from citewire_dialects.schemas.tools import FunctionCall, ToolCallParam
from citewire_http.api.schemas import ResponseModel
from citewire_http.streams import BodyDialect, StreamDialect

K = TypeVar("K")

quoted: Callable[[str], str] = encode_basestring
"""A text as a JSON string, quotes included."""

UrlOf = Callable[[Citation], str]
"""Returns the URL at which a citation's original can be opened."""

LONG_LIST = 50
"""Number of citations that take a millisecond or two to write."""


class ChatStreamDialect(StreamDialect[Event]):
    """Writes a chat as frames."""

    def identify(self, run_id: UUID) -> None:
        """Sets the id of the run before its first event; for a repeated run, that of the first."""

    def takes_long(self, event: Event) -> bool:
        """See `StreamDialect.takes_long`."""
        return isinstance(event, Citations | Sources) and len(event.citations) > LONG_LIST


class AnswerDialect(BodyDialect[Event]):
    """Collects a chat into one JSON body."""

    name: ClassVar[str] = "json"

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._events: dict[type[Event], list[Event]] = {}

    def identify(self, run_id: UUID) -> None:
        """See `ChatStreamDialect.identify`."""

    def add(self, event: Event) -> None:
        """See `BodyDialect.add`."""
        if isinstance(event, Tokens):
            self._texts.extend(event.texts)
        else:
            self._events.setdefault(type(event), []).append(event)

    @property
    def takes_long(self) -> bool:
        """See `BodyDialect.takes_long`."""
        return len(self.all(VerifiedCitation)) + len(self.citations) > LONG_LIST

    @property
    def text(self) -> str:
        """The answer."""
        return "".join(self._texts)

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The passages placed in the prompt."""
        return tuple(citation for event in self.all(Citations) for citation in event.citations)

    @property
    def outcome(self) -> Outcome:
        """How the chat ended."""
        return self.all(Done)[0].outcome

    @property
    def tool_calls(self) -> list[ToolCallParam]:
        """The tool calls, assembled from their pieces."""
        pieces: dict[int, list[generator_pb2.ToolCallDelta]] = defaultdict(list)
        for event in self.all(ToolCall):
            pieces[event.piece.index].append(event.piece)
        return [whole_call(parts) for _, parts in sorted(pieces.items())]

    def all(self, kind: type[K]) -> list[K]:
        """Returns the events of a kind, in order."""
        return cast("list[K]", self._events.get(cast("type[Event]", kind), []))

    def members(self) -> dict[str, Any]:
        """See `BodyDialect.members`."""
        return self.body().members()

    @abstractmethod
    def body(self) -> ResponseModel:
        """Returns the body, after the last event."""


def whole_call(pieces: Sequence[generator_pb2.ToolCallDelta]) -> ToolCallParam:
    """Returns a tool call, assembled from its pieces."""
    arguments = "".join(piece.arguments for piece in pieces) or "{}"
    function = FunctionCall(name=pieces[0].name, arguments=arguments)
    return ToolCallParam(id=pieces[0].id, type="function", function=function)


ChatDialect = ChatStreamDialect | AnswerDialect
"""The responses to a chat."""
