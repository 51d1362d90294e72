"""A chat's events as they are stored: JSON, in no dialect, so that each reader gets them in the one it asked for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from citewire_dialects.events import Event, Tokens
from citewire_dialects.profile import EventType
from citewire_http.runs.forms import from_json, to_json
from citewire_http.runs.recorder import Codec
from citewire_kit.errors import Aborted, Unavailable

_EVENTS: Mapping[EventType, type[Event]] = {event.type: event for event in get_args(Event)}


class EventCodec(Codec[Event]):
    """See the module. Each piece of text has a number of its own; neighbouring ones share an entry."""

    version = 2

    def count(self, event: Event) -> int:
        """See `Codec.count`."""
        return len(event.texts) if type(event) is Tokens else 1

    def dump(self, events: Sequence[Event]) -> list[dict[str, Any]]:
        """See `Codec.dump`."""
        dumped: list[dict[str, Any]] = []
        for event in events:
            if type(event) is not Tokens:
                dumped.append({"type": event.type.value} | to_json(event))
                continue
            texts = [text.replace("\x00", "\ufffd") for text in event.texts]  # which jsonb doesn't support
            if dumped and dumped[-1]["type"] == EventType.TOKEN:
                dumped[-1]["texts"] += texts
            else:
                dumped.append({"type": EventType.TOKEN.value, "texts": texts})
        return dumped

    def load(self, entries: Sequence[Mapping[str, Any]]) -> Iterator[Event]:
        """See `Codec.load`; also reads what the previous release stored for an Idempotency-Key."""
        for entry in entries:
            kind = EventType(entry["type"])
            if kind is EventType.ERROR:
                error = Unavailable if entry["reason"] == "SHUTTING_DOWN" else Aborted
                raise error(entry["text"], reason=entry["reason"])
            if kind is EventType.TOKEN:
                yield Tokens(entry["texts"] if "texts" in entry else (entry["text"],))
            else:
                yield from_json(_EVENTS[kind], {name: value for name, value in entry.items() if name != "type"})


EVENT_CODEC = EventCodec()
