"""A chat's events as JSON and back, so that a repeated request is answered with what the first one was."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from citewire_gateway.chat.events import (
    Assessed,
    CheckedCitation,
    Citation,
    Citations,
    ConversationCreated,
    Decided,
    Done,
    Event,
    EventType,
    Outcome,
    Sources,
    Step,
    Tokens,
    UncitedSentence,
    Usage,
)
from citewire_gateway.clients.domain import Chunk, Hit
from citewire_gateway.clients.verified import Span, Verdict


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
            kept.append({"type": event.type.value} | asdict(event))
    return {"events": kept}


def load(response: dict[str, Any]) -> list[Event]:
    """Returns the events that `dump` wrote."""
    return [_event(dict(one)) for one in response["events"]]


def _event(fields: dict[str, Any]) -> Event:
    match EventType(fields.pop("type")):
        case EventType.TOKEN:
            return Tokens((fields["text"],))
        case EventType.CITATIONS:
            return Citations(_citations(fields))
        case EventType.SOURCES:
            return Sources(_citations(fields))
        case EventType.CITATION:
            return CheckedCitation(**fields | _verdicts(fields))
        case EventType.UNCITED:
            return UncitedSentence(Span(**fields["sentence"]))
        case EventType.DONE:
            outcome: dict[str, Any] = dict(fields["outcome"])
            outcome["cited"] = tuple(outcome["cited"])
            outcome["steps"] = tuple(Step(**step) for step in outcome["steps"])
            return Done(Outcome(**outcome))
        case EventType.CONVERSATION:
            return ConversationCreated(**fields)
        case EventType.STEP:
            return Step(**fields)
        case EventType.DECISION:
            return Decided(**fields)
        case EventType.ASSESSMENT:
            return Assessed(**fields)
        case EventType.USAGE:
            return Usage(**fields)
        case EventType.ERROR:
            raise ValueError("a chat that failed is not kept")


def _verdicts(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "sentence": Span(**fields["sentence"]),
        "verdict": Verdict(fields["verdict"]),
        "sentence_verdict": Verdict(fields["sentence_verdict"]),
        "mismatches": tuple(fields["mismatches"]),
    }


def _citations(fields: dict[str, Any]) -> tuple[Citation, ...]:
    return tuple(Citation(one["index"], _hit(one["hit"])) for one in fields["citations"])


def _hit(value: dict[str, Any]) -> Hit:
    fields: dict[str, Any] = dict(value)
    fields["chunk"] = Chunk(**value["chunk"])
    fields["duplicate_ids"] = tuple(value["duplicate_ids"])
    return Hit(**fields)
