"""`POST /v1/chat`, the simple API under `/api/chat`, and the list of profiles."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse

from citewire_gateway.asks import Ask, RunControl
from citewire_gateway.dialects.answer import JsonAnswer
from citewire_gateway.dialects.base import AnswerDialect, StreamDialect
from citewire_gateway.dialects.native import NativeDialect
from citewire_gateway.dialects.simple import SimpleAnswer, SimpleDialect
from citewire_gateway.domain import Message, Scope
from citewire_gateway.events import PRELIMINARY, Event, EventType
from citewire_gateway.filters import parse_filter
from citewire_gateway.idempotency import Claim, Kept, hash_json
from citewire_gateway.own_providers.resolve import CHAT_NEEDS
from citewire_gateway.profiles import PROFILES, SIMPLE, Persist, Profile, describe, find_profile
from citewire_gateway.replay import kept, replay
from citewire_gateway.services import Services
from citewire_gateway.settings import GatewaySettings
from citewire_gateway.web.bodies import json_body
from citewire_gateway.web.depends import IdempotencyDep, ServicesDep, TenantDep, authenticate
from citewire_gateway.web.openapi import chat_docs, profiles_docs, simple_query_docs, simple_stream_docs
from citewire_gateway.web.schemas import ChatRequest, SimpleRequest
from citewire_gateway.web.streams import EventBody, EventStream
from citewire_kit.deadline import remaining
from citewire_kit.errors import CitewireError, Violations
from citewire_kit.tenant import Tenant, current_request_id

router = APIRouter(tags=["chat"], dependencies=[Depends(authenticate)])

CHAT_PATHS = ("/v1/chat", "/api/chat")


@router.post("/v1/chat", summary="Ask a question", **chat_docs())
async def chat(
    tenant: TenantDep,
    services: ServicesDep,
    key: IdempotencyDep,
    body: Annotated[ChatRequest, Depends(json_body(ChatRequest))],
) -> Response:
    """Answers from the caller's documents, as a stream of events or as one JSON body."""
    profile = find_profile(body.profile or services.settings.default_profile)
    ask = _ask_of(body, profile, tenant, services.settings)
    answer: StreamDialect | AnswerDialect = JsonAnswer()
    if body.stream:
        shown = profile.events | (profile.optional_events & {EventType(name) for name in body.include})
        answer = NativeDialect(shown)
    return await _respond(services, ask, answer, key, body.model_dump(mode="json"))


@router.post("/api/chat/", summary="Ask a question, streamed (simple API)", **simple_stream_docs())
@router.post("/api/chat", include_in_schema=False)
async def simple_chat(
    tenant: TenantDep,
    services: ServicesDep,
    key: IdempotencyDep,
    body: Annotated[SimpleRequest, Depends(json_body(SimpleRequest))],
) -> Response:
    """Streams tokens, then the sources."""
    ask = _simple_ask_of(body, SimpleDialect.name, tenant, services.settings)
    return await _respond(services, ask, SimpleDialect(), key, body.model_dump(mode="json"))


@router.post("/api/chat/query", summary="Ask a question (simple API)", **simple_query_docs())
async def simple_query(
    tenant: TenantDep,
    services: ServicesDep,
    key: IdempotencyDep,
    body: Annotated[SimpleRequest, Depends(json_body(SimpleRequest))],
) -> Response:
    """Returns the answer and its sources."""
    ask = _simple_ask_of(body, SimpleAnswer.name, tenant, services.settings)
    return await _respond(services, ask, SimpleAnswer(), key, body.model_dump(mode="json"))


@router.get("/v1/profiles", summary="List profiles", **profiles_docs())
async def list_profiles(_tenant: TenantDep) -> Response:
    """Returns the profiles that a chat may name."""
    return JSONResponse({"profiles": [describe(profile) for profile in PROFILES.values()]})


async def _respond(
    services: Services, ask: Ask, dialect: StreamDialect | AnswerDialect, key: str | None, body: dict[str, Any]
) -> Response:
    """Runs the chat into its dialect; with a key, at most once."""
    ask = replace(ask, own=await services.providers.choose(ask.tenant, CHAT_NEEDS))
    held: Claim | Kept | None = None
    if key is not None:
        held = await services.idempotency.claim(
            ask.tenant,
            key,
            operation=f"chat:{type(dialect).__name__}",
            request_hash=hash_json(body),
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
        tenant=ask.tenant,
        rules=services.stream_rules,
    )


def _ask_of(body: ChatRequest, profile: Profile, tenant: Tenant, settings: GatewaySettings) -> Ask:
    found = Violations()
    found.require(body.question is None or body.messages is None, "messages", "can't be given together with question")
    question, at = body.question, "question"
    if question is None and body.messages is not None:
        question, at = body.messages[-1].content, f"messages.{len(body.messages) - 1}.content"
    if question is None:
        found.add("question", "is required (or messages)")
    else:
        _check_question(found, at, question, settings)
    top_k = profile.top_k.default if body.top_k is None else body.top_k
    found.require(
        profile.top_k.minimum <= top_k <= profile.top_k.maximum,
        "top_k",
        f"must be between {profile.top_k.minimum} and {profile.top_k.maximum} in profile {profile.name}",
    )
    found.require(
        body.conversation_id is None or profile.persist is not Persist.NEVER,
        "conversation_id",
        f"can't be continued: profile {profile.name} keeps no conversations",
    )
    unknown = {EventType(name) for name in body.include} - profile.events - profile.optional_events
    found.require(not unknown, "include", f"holds events that profile {profile.name} doesn't have")
    found.raise_if_any()
    return Ask(
        tenant=tenant,
        profile=profile,
        question=question or "",
        scope=Scope(
            level=profile.level,
            document_ids=None if body.document_ids is None else tuple(body.document_ids),
            collection=body.collection or "",
            types=profile.types,
            filter=None if body.filter is None else parse_filter(body.filter),
        ),
        top_k=top_k,
        min_score=profile.min_score if body.min_score is None else body.min_score,
        dialect=NativeDialect.name if body.stream else JsonAnswer.name,
        request_id=current_request_id(),
        messages=tuple(Message(one.role, one.content) for one in body.messages or ()),
        conversation_id=body.conversation_id,
        model=body.model or "",
    )


def _simple_ask_of(body: SimpleRequest, dialect: str, tenant: Tenant, settings: GatewaySettings) -> Ask:
    found = Violations()
    _check_question(found, "question", body.question, settings)
    found.raise_if_any()
    return Ask(
        tenant=tenant,
        profile=SIMPLE,
        question=body.question,
        scope=Scope(SIMPLE.level, None if body.document_ids is None else tuple(body.document_ids)),
        top_k=SIMPLE.top_k.default,
        min_score=SIMPLE.min_score,
        dialect=dialect,
        request_id=current_request_id(),
    )


def _check_question(found: Violations, field: str, question: str, settings: GatewaySettings) -> None:
    if found.require(bool(question.strip()), field, "must not be empty"):
        found.require(
            len(question.encode()) <= settings.max_question_bytes,
            field,
            f"must be at most {settings.max_question_bytes} bytes long",
        )
