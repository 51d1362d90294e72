"""A chat's events as JSON and back, so that a repeated request is answered with what the first one was."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import Any

from citewire_gateway.domain import Chunk, Hit
from citewire_gateway.events import (
    Citation,
    Citations,
    ConversationCreated,
    Done,
    Event,
    Outcome,
    Step,
    Tokens,
    Usage,
)


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
    """Returns the events of a whole chat as JSON."""
    kept: dict[str, Any] = {"conversation_id": None, "steps": [], "citations": [], "texts": []}
    for event in events:
        match event:
            case ConversationCreated(conversation_id=conversation_id):
                kept["conversation_id"] = conversation_id
            case Step():
                kept["steps"].append(asdict(event))
            case Citations(citations=citations):
                kept["citations"] = [{"index": one.index, "hit": asdict(one.hit)} for one in citations]
            case Tokens(texts=texts):
                kept["texts"].extend(texts)
            case Usage():
                kept["usage"] = asdict(event)
            case Done(outcome=outcome):
                kept["outcome"] = asdict(replace(outcome, steps=())) | {"cited": list(outcome.cited)}
    text = "".join(kept.pop("texts")).replace("\x00", "\ufffd")  # what jsonb can't hold
    return kept | {"text": text}


def load(response: dict[str, Any]) -> list[Event]:
    """Returns the events that `dump` wrote, in the order of a stream."""
    events: list[Event] = []
    if response["conversation_id"] is not None:
        events.append(ConversationCreated(response["conversation_id"]))
    steps = tuple(Step(**step) for step in response["steps"])
    events.extend(steps)
    events.append(Citations(tuple(Citation(one["index"], _hit(one["hit"])) for one in response["citations"])))
    if response["text"]:
        events.append(Tokens((response["text"],)))
    events.append(Usage(**response["usage"]))
    outcome: dict[str, Any] = dict(response["outcome"])
    outcome["cited"], outcome["steps"] = tuple(outcome["cited"]), steps
    events.append(Done(Outcome(**outcome)))
    return events


def _hit(value: dict[str, Any]) -> Hit:
    fields: dict[str, Any] = dict(value)
    fields["chunk"] = Chunk(**value["chunk"])
    return Hit(**fields)
