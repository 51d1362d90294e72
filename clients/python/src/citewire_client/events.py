"""The events of a chat's stream, each typed by its name."""

import json
from typing import TypeAlias, get_args

from pydantic import ValidationError

from citewire_client import models
from citewire_client.base import Model
from citewire_client.errors import InvalidResponseError
from citewire_client.sse import SseEvent


class UnknownEvent(Model):
    """An unknown event from a newer gateway; programs may ignore it."""

    event: str
    id: int
    data: dict[str, object]


ChatEvent: TypeAlias = models.ChatEvent | UnknownEvent
"""An event of a chat's stream."""

_KINDS: dict[str, type[Model]] = {
    get_args(kind.model_fields["event"].annotation)[0]: kind for kind in get_args(models.ChatEvent.__value__)
}


def read_chat_event(event: SseEvent) -> ChatEvent:
    """Reads one event.

    Raises:
        InvalidResponseError: The event is malformed.
    """
    try:
        members = {"event": event.event, "id": int(event.id), "data": json.loads(event.data)}
        return _KINDS.get(event.event, UnknownEvent).model_validate(members)  # type: ignore[return-value] # one of the union's
    except (ValueError, RecursionError, ValidationError):
        raise InvalidResponseError(f"an event of type {event.event[:40]!r} can't be read") from None
