"""From what a route has read to a running chat: the one way for all dialects."""

from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import filter_pb2, retriever_pb2
from fastapi import Response

from citewire_gateway.api.dependencies import Services
from citewire_gateway.api.dialects.base import AnswerDialect, StreamDialect
from citewire_gateway.api.replay import recorded, replay
from citewire_gateway.api.streams import EventBody, EventStream
from citewire_gateway.chat.events import PRELIMINARY, Event
from citewire_gateway.chat.run import ChatInput, RunControl
from citewire_gateway.http.idempotency import Claim, StoredAnswer, hash_json
from citewire_gateway.profiles.model import EventType, Persist, Profile, changed
from citewire_gateway.settings import GatewaySettings
from citewire_gateway.tenants.providers import CHAT_NEEDS
from citewire_kit.deadline import remaining
from citewire_kit.errors import CitewireError, Violations
from citewire_kit.tenant import Tenant, current_request_id

_MAX_INSTRUCTIONS_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """What a request asks for, whatever its wire format; what it leaves out is the profile's."""

    question: str | None
    """None if the body had none."""
    question_at: str = "question"
    """The field that it stood in, for errors."""
    messages: tuple[generator_pb2.Message, ...] = ()
    """The conversation that the request brought, the question last."""
    document_ids: tuple[int, ...] | None = None
    collection: str = ""
    filter: filter_pb2.Filter | None = None
    top_k: int | None = None
    min_score: float | None = None
    model: str = ""
    conversation_id: UUID | None = None
    keep: bool | None = None
    """Whether it is to become a conversation; None leaves it to the profile."""
    include: Collection[EventType] = ()
    """Events to show beyond those that the profile shows."""
    cost: bool = False
    """Whether `usage` is to say what it cost, where the profile doesn't."""
    instructions: str = ""
    """What the caller tells the model beyond our own prompt."""
    max_tokens: int | None = None
    """Most tokens of the answer."""


def make_chat_input(
    options: ChatOptions, profile: Profile, tenant: Tenant, dialect: str, settings: GatewaySettings
) -> ChatInput:
    """Checks a request against its profile.

    Raises:
        InvalidArgument: Every field that is wrong is named.
    """
    violations = Violations()
    if options.question is None:
        violations.add(options.question_at, "is required (or messages)")
    else:
        _check_question(violations, options.question_at, options.question, settings)
    top_k = profile.top_k.default if options.top_k is None else options.top_k
    violations.require(
        profile.top_k.minimum <= top_k <= profile.top_k.maximum,
        "top_k",
        f"must be between {profile.top_k.minimum} and {profile.top_k.maximum} in profile {profile.name}",
    )
    violations.require(
        options.conversation_id is None or profile.persist is not Persist.NEVER,
        "conversation_id",
        f"can't be continued: profile {profile.name} keeps no conversations",
    )
    violations.require(
        options.keep is not True or profile.persist is not Persist.NEVER,
        "keep",
        f"must not be true: profile {profile.name} keeps no conversations",
    )
    violations.require(
        not set(options.include) - profile.events - profile.optional_events,
        "include",
        f"holds events that profile {profile.name} doesn't have",
    )
    violations.require(
        len(options.instructions.encode()) <= _MAX_INSTRUCTIONS_BYTES,
        "instructions",
        f"must be at most {_MAX_INSTRUCTIONS_BYTES} bytes long",
    )
    violations.raise_if_any()
    scope = retriever_pb2.Scope(
        level=profile.level, collection=options.collection, types=profile.types, filter=options.filter
    )
    if options.document_ids is not None:  # an empty selection stays an empty selection
        scope.selection.CopyFrom(retriever_pb2.DocumentSelection(document_ids=options.document_ids))
    return ChatInput(
        tenant=tenant,
        profile=_with_options(profile, options),
        question=options.question or "",
        scope=scope,
        top_k=top_k,
        min_score=profile.min_score if options.min_score is None else options.min_score,
        dialect=dialect,
        request_id=current_request_id(),
        messages=options.messages,
        conversation_id=options.conversation_id,
        model=options.model,
        keep=bool(options.keep),
        min_score_calibrated=profile.min_score_calibrated and options.min_score is None,
    )


def shown_events(profile: Profile, include: Collection[EventType]) -> frozenset[EventType]:
    """Returns the events that a stream may show."""
    return profile.events | (profile.optional_events & set(include))


async def respond(
    services: Services,
    chat: ChatInput,
    dialect: StreamDialect | AnswerDialect,
    *,
    key: str | None = None,
    body: Mapping[str, Any] | None = None,
) -> Response:
    """Runs the chat into its dialect; with an Idempotency-Key `key`, at most once for the same `body`."""
    chat = replace(chat, route=await services.providers.route(chat.tenant, CHAT_NEEDS))
    held: Claim | StoredAnswer | None = None
    if key is not None:
        held = await services.idempotency.claim(
            chat.tenant,
            key,
            operation=f"chat:{type(dialect).__name__}",
            request_hash=hash_json(dict(body or {})),
            lease_seconds=(remaining() or services.settings.chat_seconds) + services.settings.orphan_seconds,
        )

    def run(control: RunControl) -> AsyncGenerator[Event, None]:
        if isinstance(held, StoredAnswer):
            return replay(held.response)
        events = services.pipeline.run(chat, control)
        return events if held is None else recorded(events, held.answer, held.release)

    if isinstance(dialect, AnswerDialect):
        return EventBody[Event](
            run,
            add=dialect.add,
            body=dialect.body,
            dialect=dialect.name,
            tenant=chat.tenant,
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
        tenant=chat.tenant,
        rules=services.stream_rules,
    )


def _with_options(profile: Profile, options: ChatOptions) -> Profile:
    """The profile with what this request changes of it."""
    if EventType.ASSESSMENT in options.include:
        profile = replace(profile, assess=True)
    if EventType.CITATION in options.include:
        profile = replace(profile, answer=changed(profile.answer, verify_citations=True))
    if EventType.UNCITED in options.include:
        profile = replace(profile, answer=changed(profile.answer, flag_uncited=True))
    if options.cost:
        profile = replace(profile, full_usage=True)
    if options.instructions:
        profile = replace(profile, answer=changed(profile.answer, instructions=options.instructions))
    if options.max_tokens is not None:
        profile = replace(profile, max_completion_tokens=options.max_tokens)
    return profile


def _check_question(violations: Violations, field: str, question: str, settings: GatewaySettings) -> None:
    if violations.require(bool(question.strip()), field, "must not be empty"):
        violations.require(
            len(question.encode()) <= settings.max_question_bytes,
            field,
            f"must be at most {settings.max_question_bytes} bytes long",
        )
