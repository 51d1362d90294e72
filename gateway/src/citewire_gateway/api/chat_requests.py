"""From what a route has read to a running chat: the one way for all dialects."""

from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from fastapi import Response

from citewire_gateway.api.dialects.base import AnswerDialect, StreamDialect
from citewire_gateway.api.replay import kept, replay
from citewire_gateway.api.streams import EventBody, EventStream
from citewire_gateway.chat.events import PRELIMINARY, Event, EventType
from citewire_gateway.chat.run import Ask, RunControl
from citewire_gateway.clients.domain import Filter, Scope
from citewire_gateway.clients.generation import Message
from citewire_gateway.http.idempotency import Claim, Kept, hash_json
from citewire_gateway.profiles.model import Persist, Profile
from citewire_gateway.services import Services
from citewire_gateway.settings import GatewaySettings
from citewire_gateway.tenants.provider_resolver import CHAT_NEEDS
from citewire_kit.deadline import remaining
from citewire_kit.errors import CitewireError, Violations
from citewire_kit.tenant import Tenant, current_request_id

_MAX_INSTRUCTIONS_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request asks for, whatever its wire format; what it leaves out is the profile's.

    Attributes:
        question: None if the body had none.
        question_at: The field that it stood in, for errors.
        messages: The conversation that the request brought, the question last.
        include: Events to show beyond those that the profile shows.
        cost: Whether `usage` is to say what it cost, where the profile doesn't.
        keep: Whether it is to become a conversation; None leaves it to the profile.
        instructions: What the caller tells the model beyond our own prompt.
        max_tokens: Most tokens of the answer.
    """

    question: str | None
    question_at: str = "question"
    messages: tuple[Message, ...] = ()
    document_ids: tuple[int, ...] | None = None
    collection: str = ""
    filter: Filter | None = None
    top_k: int | None = None
    min_score: float | None = None
    model: str = ""
    conversation_id: UUID | None = None
    keep: bool | None = None
    include: Collection[EventType] = ()
    cost: bool = False
    instructions: str = ""
    max_tokens: int | None = None


def make_ask(wanted: Wanted, profile: Profile, tenant: Tenant, dialect: str, settings: GatewaySettings) -> Ask:
    """Checks a request against its profile.

    Raises:
        InvalidArgument: Every field that is wrong is named.
    """
    found = Violations()
    if wanted.question is None:
        found.add(wanted.question_at, "is required (or messages)")
    else:
        _check_question(found, wanted.question_at, wanted.question, settings)
    top_k = profile.top_k.default if wanted.top_k is None else wanted.top_k
    found.require(
        profile.top_k.minimum <= top_k <= profile.top_k.maximum,
        "top_k",
        f"must be between {profile.top_k.minimum} and {profile.top_k.maximum} in profile {profile.name}",
    )
    found.require(
        wanted.conversation_id is None or profile.persist is not Persist.NEVER,
        "conversation_id",
        f"can't be continued: profile {profile.name} keeps no conversations",
    )
    found.require(
        wanted.keep is not True or profile.persist is not Persist.NEVER,
        "keep",
        f"must not be true: profile {profile.name} keeps no conversations",
    )
    found.require(
        not set(wanted.include) - profile.events - profile.optional_events,
        "include",
        f"holds events that profile {profile.name} doesn't have",
    )
    found.require(
        len(wanted.instructions.encode()) <= _MAX_INSTRUCTIONS_BYTES,
        "instructions",
        f"must be at most {_MAX_INSTRUCTIONS_BYTES} bytes long",
    )
    found.raise_if_any()
    return Ask(
        tenant=tenant,
        profile=_with(profile, wanted),
        question=wanted.question or "",
        scope=Scope(profile.level, wanted.document_ids, wanted.collection, profile.types, wanted.filter),
        top_k=top_k,
        min_score=profile.min_score if wanted.min_score is None else wanted.min_score,
        dialect=dialect,
        request_id=current_request_id(),
        messages=wanted.messages,
        conversation_id=wanted.conversation_id,
        model=wanted.model,
        keep=bool(wanted.keep),
        min_score_calibrated=profile.min_score_calibrated and wanted.min_score is None,
    )


def shown_events(profile: Profile, include: Collection[EventType]) -> frozenset[EventType]:
    """Returns the events that a stream may show."""
    return profile.events | (profile.optional_events & set(include))


async def respond(
    services: Services,
    ask: Ask,
    dialect: StreamDialect | AnswerDialect,
    *,
    key: str | None = None,
    body: Mapping[str, Any] | None = None,
) -> Response:
    """Runs the chat into its dialect; with an Idempotency-Key `key`, at most once for the same `body`."""
    ask = replace(ask, own=await services.providers.choose(ask.tenant, CHAT_NEEDS))
    held: Claim | Kept | None = None
    if key is not None:
        held = await services.idempotency.claim(
            ask.tenant,
            key,
            operation=f"chat:{type(dialect).__name__}",
            request_hash=hash_json(dict(body or {})),
            lease_seconds=(remaining() or services.settings.chat_seconds) + services.settings.orphan_seconds,
        )

    def run(control: RunControl) -> AsyncGenerator[Event, None]:
        if isinstance(held, Kept):
            return replay(held.response)
        events = services.pipeline.run(ask, control)
        return events if held is None else kept(events, held.answer, held.release)

    if isinstance(dialect, AnswerDialect):
        return EventBody[Event](
            run,
            add=dialect.add,
            body=dialect.body,
            dialect=dialect.name,
            tenant=ask.tenant,
            rules=services.stream_rules,
        )

    def failed(error: CitewireError, retryable: bool) -> bytes:
        return dialect.failed(error, retryable=retryable)

    return EventStream[Event](
        run,
        encode=dialect.encode,
        failed=failed,
        preliminary=PRELIMINARY,
        dialect=dialect.name,
        headers=dialect.headers,
        tenant=ask.tenant,
        rules=services.stream_rules,
    )


def _with(profile: Profile, wanted: Wanted) -> Profile:
    """The profile with what this request changes of it."""
    if EventType.ASSESSMENT in wanted.include:
        profile = replace(profile, assess=True)
    if EventType.CITATION in wanted.include:
        profile = replace(profile, answer=replace(profile.answer, verify_citations=True))
    if EventType.UNCITED in wanted.include:
        profile = replace(profile, answer=replace(profile.answer, flag_uncited=True))
    if wanted.cost:
        profile = replace(profile, full_usage=True)
    if wanted.instructions:
        profile = replace(profile, answer=replace(profile.answer, instructions=wanted.instructions))
    if wanted.max_tokens is not None:
        profile = replace(profile, max_completion_tokens=wanted.max_tokens)
    return profile


def _check_question(found: Violations, field: str, question: str, settings: GatewaySettings) -> None:
    if found.require(bool(question.strip()), field, "must not be empty"):
        found.require(
            len(question.encode()) <= settings.max_question_bytes,
            field,
            f"must be at most {settings.max_question_bytes} bytes long",
        )
