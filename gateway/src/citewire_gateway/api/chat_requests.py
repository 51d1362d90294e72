"""From what a route has read to a running chat: the one way for all dialects."""

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from citewire.generator.v1 import generator_pb2
from fastapi import Response

from citewire_accounts.tenants.providers import CHAT_NEEDS
from citewire_dialects.dialect import AnswerDialect, ChatDialect
from citewire_dialects.events import PRELIMINARY, Done, Event
from citewire_dialects.openai_requests import Asked
from citewire_dialects.options import MAX_INSTRUCTIONS_BYTES, changed
from citewire_dialects.profile import EventType, Persist, Profile
from citewire_dialects.run_codec import EVENT_CODEC
from citewire_dialects.schemas.anthropic import MessageParam
from citewire_dialects.schemas.openai import Extras
from citewire_dialects.schemas.questions import ChatMessage, ChatRequest
from citewire_dialects.schemas.responses import InputItem
from citewire_gateway.api.dependencies import Services
from citewire_gateway.chat.run import ChatInput
from citewire_gateway.chat.store import chat_message
from citewire_gateway.settings import GatewaySettings
from citewire_http.idempotency import Claim, hash_json
from citewire_http.streams import NO_HEADERS, EventBody, EventStream, StreamControl
from citewire_kit.deadline import remaining
from citewire_kit.errors import Violations
from citewire_kit.tenant import Tenant, current_request_id
from citewire_kit.time_zones import find_time_zone


def make_chat_input(
    body: ChatRequest,
    profile: Profile,
    tenant: Tenant,
    dialect: str,
    settings: GatewaySettings,
    *,
    asked: Asked | None = None,
    question_at: str | None = None,
    instructions: str = "",
    max_tokens: int | None = None,
    temperature: float | None = None,
) -> ChatInput:
    """Checks a request against its profile.

    Args:
        body: What is asked for, in the native form; what it leaves out is the profile's.
        profile: The profile, with the request's body.
        tenant: Who asks.
        dialect: Name of the wire format.
        settings: The gateway's.
        asked: The conversation as OpenAI's clients have it, with what else they ask; then `body` has none.
        question_at: The field that the question stood in, for errors; None: that of the native form.
        instructions: What the caller tells the model beyond our own prompt.
        max_tokens: Most tokens of the answer; None: the profile's.
        temperature: 0–2; None: the provider's.

    Raises:
        InvalidArgument: Every field that is wrong is named.
    """
    if asked is None:
        messages = tuple(chat_message(message.role, message.content) for message in body.messages or ())
    else:
        messages, instructions, question_at = tuple(asked.messages), asked.instructions, asked.question_at
    question = messages[-1].content if messages else body.question
    include = body.events()
    violations = Violations()
    if question is None:
        violations.add("question", "is required (or messages)")
    else:
        at = question_at or (f"messages.{len(messages) - 1}.content" if messages else "question")
        _check_question(violations, at, question, settings)
    top_k = profile.top_k.default if body.top_k is None else body.top_k
    violations.require(
        profile.top_k.minimum <= top_k <= profile.top_k.maximum,
        "top_k",
        f"must be between {profile.top_k.minimum} and {profile.top_k.maximum} in profile {profile.name}",
    )
    violations.require(
        body.conversation_id is None or profile.persist is not Persist.NEVER,
        "conversation_id",
        f"can't be continued: profile {profile.name} keeps no conversations",
    )
    violations.require(
        body.keep is not True or profile.persist is not Persist.NEVER,
        "keep",
        f"must not be true: profile {profile.name} keeps no conversations",
    )
    violations.require(
        not include - profile.events - profile.optional_events,
        "include",
        f"holds events that profile {profile.name} doesn't have",
    )
    violations.require(
        len(instructions.encode()) <= MAX_INSTRUCTIONS_BYTES,
        "instructions",
        f"must be at most {MAX_INSTRUCTIONS_BYTES} bytes long",
    )
    violations.require(
        find_time_zone(body.time_zone or "") is not None, "time_zone", "must be an IANA name such as Europe/Berlin"
    )
    violations.raise_if_any()
    scope = body.scope()
    scope.level = profile.level
    scope.types.extend(profile.types)
    return ChatInput(
        tenant=tenant,
        profile=_with_options(profile, body, instructions, max_tokens),
        question=question or "",
        scope=scope,
        top_k=top_k,
        min_score=profile.min_score if body.min_score is None else body.min_score,
        dialect=dialect,
        request_id=current_request_id(),
        messages=messages,
        conversation_id=body.conversation_id,
        model=body.model or "",
        temperature=temperature,
        passed_on=generator_pb2.GenerateRequest() if asked is None else asked.passed_on,
        keep=bool(body.keep),
        min_score_calibrated=profile.min_score_calibrated and body.min_score is None,
        time_zone=body.time_zone or "",
        shown=shown_events(profile, include),
        grace_seconds=body.patience,
    )


def compatible_request(
    model: str, messages: Iterable[MessageParam | InputItem], extras: Extras, *, keep: bool | None = None
) -> tuple[str, ChatRequest]:
    """Returns the profile that another API's model names, "" for the default, and the conversation as our own has it.

    A chat model may follow the profile after a slash. Nothing is checked twice. `keep` is as in `ChatRequest`.
    """
    profile, _, chat_model = model.partition("/")
    conversation = [
        ChatMessage.model_construct(role=message.role, content=message.text)
        for message in messages
        if message.role in ("user", "assistant")
    ]
    return profile, ChatRequest.model_construct(messages=conversation, model=chat_model, keep=keep, **dict(extras))


def shown_events(profile: Profile, include: Collection[EventType]) -> frozenset[EventType]:
    """Returns the events that a stream may show."""
    return profile.events | (profile.optional_events & set(include))


async def respond(
    services: Services,
    chat: ChatInput,
    dialect: ChatDialect,
    *,
    key: str | None = None,
    body: Mapping[str, Any] | None = None,
) -> Response:
    """Runs the chat into its dialect; with an Idempotency-Key `key`, at most once for the same `body`."""
    chat = replace(chat, route=await services.providers.route(chat.tenant, CHAT_NEEDS), kept_for_key=key is not None)
    held: Claim | _Earlier | None = None
    if key is not None:
        held = await _claim(services, chat, key, f"chat:{type(dialect).__name__}", hash_json(dict(body or {})))

    def run(control: StreamControl) -> AsyncGenerator[Event, None]:
        if isinstance(held, _Earlier):
            return held.events()
        events = services.pipeline.run(chat, control)
        return events if held is None else _answering(events, held, chat.run_id)

    run_id = held.run_id if isinstance(held, _Earlier) else chat.run_id
    dialect.identify(run_id or chat.run_id)
    more = {"citewire-run": str(run_id)} if run_id is not None else NO_HEADERS
    rules, grace = services.stream_rules, chat.grace_seconds
    if isinstance(dialect, AnswerDialect):
        return EventBody(run, dialect=dialect, tenant=chat.tenant, rules=rules, grace_seconds=grace, more_headers=more)
    return EventStream(
        run,
        dialect=dialect,
        preliminary=PRELIMINARY,
        tenant=chat.tenant,
        rules=rules,
        grace_seconds=grace,
        more_headers=more,
    )


@dataclass(frozen=True, slots=True)
class _Earlier:
    """What the first request with a key was answered."""

    run_id: UUID | None
    """None of an answer that the release before kept."""
    stored: list[dict[str, Any]]

    async def events(self) -> AsyncGenerator[Event, None]:
        """The same events again."""
        for event in EVENT_CODEC.load(self.stored):
            yield event


async def _claim(
    services: Services, chat: ChatInput, key: str, operation: str, request_hash: bytes
) -> Claim | _Earlier:
    """Takes a key, or returns what was answered with it, as long as the caller may read that."""
    held = await services.idempotency.claim(
        chat.tenant,
        key,
        operation=operation,
        request_hash=request_hash,
        lease_seconds=(remaining() or services.settings.chat_seconds) + services.settings.orphan_seconds,
    )
    if isinstance(held, Claim):
        return held
    stored = held.response.get("events") or await services.runs.stored(chat.tenant, held.run_id)
    if stored and await services.reader.may_read_entries(stored):
        return _Earlier(held.run_id, stored)
    # Written from what the caller may not see any more, or from what is gone: it is asked anew.
    await services.idempotency.forget(chat.tenant, key)
    return await _claim(services, chat, key, operation, request_hash)


async def _answering(events: AsyncGenerator[Event, None], claim: Claim, run_id: UUID) -> AsyncGenerator[Event, None]:
    """Passes a chat's events on; has its key answered with them when it is done, and given back when it isn't."""
    answered = False
    try:
        async with aclosing(events):
            async for event in events:
                if type(event) is Done:
                    await claim.answer(run_id=run_id)
                    answered = True
                yield event
    finally:
        if not answered:
            await claim.release()


def _with_options(profile: Profile, body: ChatRequest, instructions: str, max_tokens: int | None) -> Profile:
    """The profile with what this request changes of it."""
    include, answer = body.events(), dict[str, Any]()
    if EventType.CITATION in include:
        answer["verify_citations"] = True
    if EventType.UNCITED in include:
        answer["flag_uncited"] = True
    if instructions:
        answer["instructions"] = instructions
    return replace(
        profile,
        assess=profile.assess or EventType.ASSESSMENT in include,
        answer=changed(profile.answer, **answer),
        full_usage=profile.full_usage or "cost" in body.include,
        max_completion_tokens=profile.max_completion_tokens if max_tokens is None else max_tokens,
    )


def _check_question(violations: Violations, field: str, question: str, settings: GatewaySettings) -> None:
    if violations.require(bool(question.strip()), field, "must not be empty"):
        violations.require(
            len(question.encode()) <= settings.max_question_bytes,
            field,
            f"must be at most {settings.max_question_bytes} bytes long",
        )
