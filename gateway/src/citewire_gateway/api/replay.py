"""A chat's events as JSON and back, so that a repeated request is answered with what the first one was."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, cast, get_args, get_origin, get_type_hints

from google.protobuf import json_format
from google.protobuf.message import Message

from citewire_gateway.chat.events import Done, Event, Tokens
from citewire_gateway.profiles.model import EventType
from citewire_http.api.schemas import SCHEMA_VERSION

_EVENTS: Mapping[EventType, type[Event]] = {event.type: event for event in get_args(Event)}


async def recorded(
    events: AsyncGenerator[Event, None],
    answer: Callable[[dict[str, Any]], Awaitable[None]],
    release: Callable[[], Awaitable[None]],
) -> AsyncGenerator[Event, None]:
    """Passes a chat's events on; keeps them when it is done, and gives its key back when it isn't."""
    seen: list[Event] = []
    answered = False
    try:
        async with aclosing(events):
            async for event in events:
                seen.append(event)
                if isinstance(event, Done):
                    await answer(dump(seen))
                    answered = True
                yield event
    finally:
        if not answered:
            await release()


async def replay(response: dict[str, Any]) -> AsyncGenerator[Event, None]:
    """The events of a chat that was kept; its text in one piece."""
    for event in load(response):
        yield event


def dump(events: list[Event]) -> dict[str, Any]:
    """Returns the events of a whole chat as JSON; neighbouring texts become one."""
    dumped: list[dict[str, Any]] = []
    for event in events:
        if not isinstance(event, Tokens):
            dumped.append({"type": event.type.value} | _to_json(event))
            continue
        text = "".join(event.texts).replace("\x00", "\ufffd")  # what jsonb can't hold
        if dumped and dumped[-1]["type"] == event.type:
            dumped[-1]["text"] += text
        else:
            dumped.append({"type": event.type.value, "text": text})
    return {"schema_version": SCHEMA_VERSION, "events": dumped}


def load(response: dict[str, Any]) -> list[Event]:
    """Returns the events that `dump` wrote, or the previous release's."""
    events = response["events"] if "schema_version" in response else _from_version_1(response["events"])
    return [_event(dict(event)) for event in events]


def _event(stored: dict[str, Any]) -> Event:
    name = EventType(stored.pop("type"))
    if name is EventType.ERROR:
        raise ValueError("a chat that failed is not kept")
    return Tokens((stored["text"],)) if name is EventType.TOKEN else _from_json(_EVENTS[name], stored)


def _from_json(kind: Any, value: Any) -> Any:  # noqa: ANN401 # fields of events are of any kind
    """Returns a value of an event as its type says: one of our dataclasses, a message, a tuple, or the value itself."""
    if get_origin(kind) is tuple:
        return tuple(_from_json(get_args(kind)[0], member) for member in value)
    if is_dataclass(kind):
        build = cast("Callable[..., Any]", kind)
        return build(**{name: _from_json(_types(kind)[name], member) for name, member in value.items()})
    if isinstance(kind, type) and issubclass(kind, Message):
        return json_format.ParseDict(value, kind(), ignore_unknown_fields=True)
    return value


@cache
def _types(kind: Any) -> dict[str, Any]:  # noqa: ANN401 # a class of events
    return get_type_hints(kind)


def _to_json(value: Any) -> Any:  # noqa: ANN401 # fields of events are of any kind
    if isinstance(value, Message):
        return json_format.MessageToDict(value, preserving_proto_field_name=True)
    if isinstance(value, tuple):
        return [_to_json(member) for member in value]  # pyright: ignore[reportUnknownVariableType] - of any kind
    if is_dataclass(value):
        return {field.name: _to_json(getattr(value, field.name)) for field in fields(value)}
    return value


def _from_version_1(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events as a release wrote them whose values were its own classes; keys live 24 hours, so the next may drop it."""
    chunks: dict[int, dict[str, Any]] = {}
    upgraded: list[dict[str, Any]] = []
    for event in events:
        fields = {name: value for name, value in event.items() if name != "type"}
        match EventType(event["type"]):
            case EventType.CITATIONS | EventType.SOURCES:
                citations: list[dict[str, Any]] = [
                    {"index": citation["index"], "result": _result_from_version_1(citation["hit"])}
                    for citation in event["citations"]
                ]
                chunks |= {citation["index"]: citation["result"]["chunk"] for citation in citations}
                fields = {"citations": citations}
            case EventType.CITATION:
                verdicts = {name: f"VERDICT_{event[name].upper()}" for name in ("verdict", "sentence_verdict")}
                fields = {"verified": event | verdicts | {"number": event["index"]}, "chunk": chunks[event["index"]]}
            case EventType.DECISION:
                fields = {"decision": fields}
            case EventType.ASSESSMENT:
                fields = {"assessment": fields}
            case _:
                pass
        upgraded.append({"type": event["type"]} | fields)
    return upgraded


def _result_from_version_1(old: dict[str, Any]) -> dict[str, Any]:
    chunk = old["chunk"] | {"created_at": None}  # that release didn't show when a document was saved
    name = chunk["file_name"] or chunk["title"]
    chunk["label"] = f"{name} § {chunk['section']}" if chunk["section"] else name
    place = {"page": "page_number", "row": "row_number", "start_line": "start_line", "end_line": "end_line"}
    return {
        "chunk": chunk | {"place": {name: chunk[key] for name, key in place.items() if chunk[key] is not None}},
        "rank_score": old["score"],
        "score": old["similarity"],
        "lexical_score": old["lexical_score"],
        "duplicate_chunk_ids": old["duplicate_ids"],
    }
