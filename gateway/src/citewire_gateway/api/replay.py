"""A chat's events as JSON and back, so that a repeated request is answered with what the first one was."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import fields
from typing import Any, TypeVar

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2
from google.protobuf import json_format
from google.protobuf.message import Message

from citewire_gateway.api.schemas.base import SCHEMA_VERSION
from citewire_gateway.chat.events import (
    Assessment,
    Citation,
    Citations,
    ConversationCreated,
    Decision,
    Done,
    Event,
    Outcome,
    Sources,
    Step,
    Tokens,
    UncitedSentence,
    Usage,
    VerifiedCitation,
)
from citewire_gateway.profiles.model import EventType


async def kept(
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
    kept: list[dict[str, Any]] = []
    for event in events:
        if isinstance(event, Tokens):
            text = "".join(event.texts).replace("\x00", "\ufffd")  # what jsonb can't hold
            if kept and kept[-1]["type"] == event.type:
                kept[-1]["text"] += text
            else:
                kept.append({"type": event.type.value, "text": text})
        else:
            kept.append({"type": event.type.value} | {name: _to_json(getattr(event, name)) for name in _names(event)})
    return {"schema_version": SCHEMA_VERSION, "events": kept}


def load(response: dict[str, Any]) -> list[Event]:
    """Returns the events that `dump` wrote, or the previous release's."""
    events = response["events"] if "schema_version" in response else _from_version_1(response["events"])
    return [_event(dict(event)) for event in events]


def _event(stored: dict[str, Any]) -> Event:
    match EventType(stored.pop("type")):
        case EventType.TOKEN:
            return Tokens((stored["text"],))
        case EventType.CITATIONS:
            return Citations(_citations(stored))
        case EventType.SOURCES:
            return Sources(_citations(stored))
        case EventType.CITATION:
            verified = _message(stored["verified"], generator_pb2.VerifiedCitation)
            return VerifiedCitation(verified, _message(stored["chunk"], retriever_pb2.Chunk))
        case EventType.UNCITED:
            return UncitedSentence(_message(stored["sentence"], generator_pb2.AnswerSpan))
        case EventType.DONE:
            outcome: dict[str, Any] = dict(stored["outcome"])
            outcome["cited"] = tuple(outcome["cited"])
            outcome["steps"] = tuple(Step(**step) for step in outcome["steps"])
            return Done(Outcome(**outcome))
        case EventType.CONVERSATION:
            return ConversationCreated(**stored)
        case EventType.STEP:
            return Step(**stored)
        case EventType.DECISION:
            return Decision(_message(stored["decision"], generator_pb2.DecideResponse))
        case EventType.ASSESSMENT:
            return Assessment(_message(stored["assessment"], generator_pb2.AssessResponse))
        case EventType.USAGE:
            return Usage(**stored)
        case EventType.ERROR:
            raise ValueError("a chat that failed is not kept")


def _citations(stored: dict[str, Any]) -> tuple[Citation, ...]:
    return tuple(
        Citation(citation["index"], _message(citation["result"], retriever_pb2.SearchResult))
        for citation in stored["citations"]
    )


def _names(value: Any) -> list[str]:  # noqa: ANN401 # any of our dataclasses
    return [field.name for field in fields(value)]


def _to_json(value: Any) -> Any:  # noqa: ANN401 # fields of events are of any kind
    if isinstance(value, Message):
        return json_format.MessageToDict(value, preserving_proto_field_name=True)
    if isinstance(value, tuple):
        return [_to_json(member) for member in value]  # pyright: ignore[reportUnknownVariableType] - of any kind
    if isinstance(value, Citation | Outcome | Step):
        return {name: _to_json(getattr(value, name)) for name in _names(value)}
    return value


M = TypeVar("M", bound=Message)


def _message(value: dict[str, Any], message_type: type[M]) -> M:
    return json_format.ParseDict(value, message_type(), ignore_unknown_fields=True)


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


def _result_from_version_1(hit: dict[str, Any]) -> dict[str, Any]:
    chunk = hit["chunk"] | {"created_at": None}  # that release didn't show when a document was saved
    place = {"page": "page_number", "row": "row_number", "start_line": "start_line", "end_line": "end_line"}
    return {
        "chunk": chunk | {"place": {name: chunk[old] for name, old in place.items() if chunk[old] is not None}},
        "rank_score": hit["score"],
        "score": hit["similarity"],
        "lexical_score": hit["lexical_score"],
        "duplicate_chunk_ids": hit["duplicate_ids"],
    }
