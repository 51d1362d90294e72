"""Starts a chat from a parsed request, in the same way for all dialects."""

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Annotated, Any
from uuid import UUID

from citewire.generator.v1 import generator_pb2
from fastapi import Depends, Response

from citewire_accounts.tenants.providers import CHAT_NEEDS
from citewire_dialects.asked import Asked, read_question
from citewire_dialects.dialect import AnswerDialect, ChatDialect
from citewire_dialects.events import PRELIMINARY, Citation, Done, Event
from citewire_dialects.options import MAX_INSTRUCTIONS_BYTES, changed
from citewire_dialects.profile import EventType, Persist, Profile
from citewire_dialects.run_codec import EVENT_CODEC
from citewire_dialects.schemas.questions import ChatRequest
from citewire_gateway.api.dependencies import Call, Services
from citewire_gateway.chat.run import ChatInput
from citewire_gateway.settings import GatewaySettings
from citewire_http.api.schemas import RequestModel
from citewire_http.idempotency import Claim, hash_body
from citewire_http.streams import NO_HEADERS, EventBody, EventStream
from citewire_http.supervision import StreamControl
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
    asked: Asked | None = None,
) -> ChatInput:
    """Checks a request against its profile.

    Args:
        body: The request in the native form; the profile determines what it leaves out.
        profile: The profile, with the request's changes.
        tenant: The caller.
        dialect: Name of the wire format.
        settings: The gateway's settings.
        asked: The conversation and further parameters from another API's request; `body` then has none.

    Raises:
        InvalidArgument: Names all invalid fields.
    """
    asked = asked or read_question(body)
    messages = tuple(asked.messages)
    if body.keep is False:
        profile = replace(profile, persist=Persist.NEVER)
    question = messages[-1].content if messages else body.question
    include = body.events()
    violations = Violations()
    if question is None:
        violations.add("question", "is required unless messages is given")
    else:
        _check_question(violations, asked.question_at, question, settings)
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
        f"contains events that profile {profile.name} doesn't have",
    )
    violations.require(
        len(asked.instructions.encode()) <= MAX_INSTRUCTIONS_BYTES,
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
        profile=_with_options(profile, body, asked),
        question=question or "",
        scope=scope,
        top_k=top_k,
        min_score=profile.min_score if body.min_score is None else body.min_score,
        dialect=dialect,
        request_id=current_request_id(),
        messages=messages,
        conversation_id=body.conversation_id,
        model=body.model or "",
        temperature=asked.temperature,
        passed_on=asked.passed_on,
        brought=tuple(asked.brought),
        keep=bool(body.keep),
        min_score_calibrated=profile.min_score_calibrated and body.min_score is None,
        time_zone=body.time_zone or "",
        shown=shown_events(profile, include),
        grace_seconds=body.patience,
        request=asked.request,
    )


def shown_events(profile: Profile, include: Collection[EventType]) -> frozenset[EventType]:
    """Returns the events that a stream may show: always including tool calls, because the request has the tools."""
    return profile.events | (profile.optional_events & set(include)) | {EventType.TOOL_CALL}


@dataclass(frozen=True, slots=True)
class ChatCall(Call):
    """A call of a route that returns a chat."""

    async def find_profile(self, name: str | None) -> Profile:
        """Returns a profile, by default the default one. Raises `NotFound`."""
        return await self.services.profiles.find(self.tenant, name or self.services.settings.default_profile)

    async def answer(
        self,
        body: RequestModel,
        profile: Profile,
        native: ChatRequest,
        dialect: ChatDialect,
        asked: Asked | None = None,
    ) -> Response:
        """Answers a request, given as `native` and `asked`: see `make_chat_input`."""
        chat = make_chat_input(native, profile, self.tenant, dialect.name, self.services.settings, asked)
        return await self.respond(body, chat, dialect)

    async def respond(self, body: RequestModel, chat: ChatInput, dialect: ChatDialect) -> Response:
        """Runs the chat and encodes it in its dialect; with an Idempotency-Key, at most once for the same body."""
        operation = f"chat:{type(dialect).__name__}"
        chat = replace(
            chat,
            route=await self.services.providers.route(chat.tenant, CHAT_NEEDS),
            kept_for_key=self.key is not None,
        )
        held: Claim | _Earlier | None = None
        if self.key is not None:
            held = await _claim(self.services, chat, self.key, operation, hash_body(body))
        return _running(self.services, chat, dialect, held)

    def url_of(self, citation: Citation) -> str:
        """Returns the URL of a citation's original, as reachable by the caller."""
        return citation.url if citation.chunk.url else str(self.request.base_url).rstrip("/") + citation.url


ChatCallDep = Annotated[ChatCall, Depends(ChatCall.of)]


@dataclass(frozen=True, slots=True)
class _Earlier:
    """The response to the first request with a key."""

    run_id: UUID | None
    """None for a response stored by the previous release."""
    stored: list[dict[str, Any]]

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yields the same events again."""
        for event in EVENT_CODEC.load(self.stored):
            yield event


async def _claim(
    services: Services, chat: ChatInput, key: str, operation: str, request_hash: bytes
) -> Claim | _Earlier:
    """Claims a key, or returns the earlier response, as long as the caller may read it."""
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
    if stored and await services.reader.guard(chat.tenant, held.run_id)(stored):
        return _Earlier(held.run_id, stored)
    # It was written from documents that are deleted or no longer visible to the caller, so the question is asked again.
    await services.idempotency.forget(chat.tenant, key)
    return await _claim(services, chat, key, operation, request_hash)


def _running(services: Services, chat: ChatInput, dialect: ChatDialect, held: Claim | _Earlier | None) -> Response:
    """The response: the earlier one for the key, or the running chat."""

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


async def _answering(events: AsyncGenerator[Event, None], claim: Claim, run_id: UUID) -> AsyncGenerator[Event, None]:
    """Passes a chat's events on; stores them under its key when it completes, and otherwise releases the key."""
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


def _with_options(profile: Profile, body: ChatRequest, asked: Asked) -> Profile:
    """The profile with this request's changes."""
    include, answer = body.events(), dict[str, Any]()
    if EventType.CITATION in include:
        answer["verify_citations"] = True
    if EventType.UNCITED in include:
        answer["flag_uncited"] = True
    if asked.instructions:
        answer["instructions"] = asked.instructions
    if asked.cited_beside:
        answer |= {"marker_style": generator_pb2.MARKER_STYLE_REMOVE, "verify_citations": True}
    return replace(
        profile,
        assess=profile.assess or EventType.ASSESSMENT in include,
        answer=changed(profile.answer, **answer),
        full_usage=profile.full_usage or "cost" in body.include,
        max_completion_tokens=profile.max_completion_tokens if asked.max_tokens is None else asked.max_tokens,
    )


def _check_question(violations: Violations, field: str, question: str, settings: GatewaySettings) -> None:
    if violations.require(bool(question.strip()), field, "must not be empty"):
        violations.require(
            len(question.encode()) <= settings.max_question_bytes,
            field,
            f"must be at most {settings.max_question_bytes} bytes long",
        )
