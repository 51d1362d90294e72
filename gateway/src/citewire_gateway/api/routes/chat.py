"""`POST /v1/chat`, the APIs of single systems under `/api`."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Response

from citewire_gateway.api.chat_requests import ChatOptions, make_chat_input, respond, shown_events
from citewire_gateway.api.dependencies import IdempotencyDep, ServicesDep, TenantDep, authenticate
from citewire_gateway.api.dialects.base import AnswerDialect, StreamDialect
from citewire_gateway.api.dialects.native import JsonAnswer, NativeDialect
from citewire_gateway.api.dialects.self_rag import SelfRagDialect
from citewire_gateway.api.dialects.simple import SimpleDialect, SimpleJsonAnswer
from citewire_gateway.api.dialects.ui_message import UiMessageDialect
from citewire_gateway.api.filters import parse_filter
from citewire_gateway.api.openapi import event_stream, problems
from citewire_gateway.api.schemas.chat import ChatAnswer, ChatRequest, SelfRagRequest, SimpleAnswer, SimpleRequest
from citewire_gateway.chat.store import chat_message
from citewire_gateway.http.bodies import JsonBody
from citewire_gateway.profiles.builtin import SELF_RAG, SIMPLE
from citewire_gateway.profiles.model import EventType, apply_changes
from citewire_kit.errors import invalid_field
from citewire_kit.tenant import current_request_id

router = APIRouter(tags=["chat"], dependencies=[Depends(authenticate)])

DialectName = Annotated[
    Literal["native", "ui-message"] | None,
    Query(description="Wire format of the stream: `native` (the default), or `ui-message` of Vercel's AI SDK."),
]


@router.post(
    "/v1/chat",
    summary="Ask a question",
    response_model=ChatAnswer,
    response_description="A stream, or with `stream: false` one JSON body.",
    responses={
        200: {
            "content": event_stream(
                "ChatEvent",
                "The native dialect: each event as `event: TYPE`, `id: SEQUENCE`, `data: JSON`, and `done` last. Which "
                "events are shown is the profile's; ignore those that you don't know. A fault is `error`, then `done`. "
                "Lines that begin with a colon are heartbeats.",
                ui_message="UiMessagePart",
            )
        },
        **problems(402, 404, 409, 503),
    },
)
async def chat(
    tenant: TenantDep,
    services: ServicesDep,
    key: IdempotencyDep,
    body: Annotated[ChatRequest, Depends(JsonBody(ChatRequest))],
    dialect: DialectName = None,
) -> Response:
    """Answers from the caller's documents, as a stream of events or as one JSON body."""
    profile = await services.profiles.find(tenant, body.profile or services.settings.default_profile)
    if body.options is not None:
        profile = apply_changes(profile, body.options, "options")
    options = _chat_options(body)
    shown = shown_events(profile, options.include)
    answer: StreamDialect | AnswerDialect = JsonAnswer(shown)
    if body.stream:
        ui = dialect == "ui-message"
        answer = UiMessageDialect(shown, f"msg_{current_request_id()}") if ui else NativeDialect(shown)
    elif dialect is not None:
        raise invalid_field("dialect", "is for streams; leave it out with stream: false")
    chat = make_chat_input(options, profile, tenant, answer.name, services.settings)
    return await respond(services, chat, answer, key=key, body=body.model_dump(mode="json"))


@router.post(
    "/api/chat/",
    summary="Ask a question, streamed (simple API)",
    response_class=Response,
    response_description="A stream.",
    responses={
        200: {
            "content": event_stream(
                "SimpleFrame",
                "Frames of data only: `token` many, then `done` with the sources. A fault is `error`, and no `done`.",
            )
        },
        **problems(402, 404, 503),
    },
)
@router.post("/api/chat", include_in_schema=False)
async def simple_chat(
    tenant: TenantDep,
    services: ServicesDep,
    key: IdempotencyDep,
    body: Annotated[SimpleRequest, Depends(JsonBody(SimpleRequest))],
) -> Response:
    """Streams tokens, then the sources."""
    chat = make_chat_input(_simple_options(body), SIMPLE, tenant, SimpleDialect.name, services.settings)
    return await respond(services, chat, SimpleDialect(), key=key, body=body.model_dump(mode="json"))


@router.post(
    "/api/chat/query",
    summary="Ask a question (simple API)",
    response_model=SimpleAnswer,
    response_description="The answer.",
    responses=problems(402, 404, 503),
)
async def simple_query(
    tenant: TenantDep,
    services: ServicesDep,
    key: IdempotencyDep,
    body: Annotated[SimpleRequest, Depends(JsonBody(SimpleRequest))],
) -> Response:
    """Returns the answer and its sources."""
    chat = make_chat_input(_simple_options(body), SIMPLE, tenant, SimpleJsonAnswer.name, services.settings)
    return await respond(services, chat, SimpleJsonAnswer(), key=key, body=body.model_dump(mode="json"))


@router.post(
    "/api/rag-chat/stream",
    summary="Ask about saved articles and repositories",
    response_class=Response,
    response_description="A stream.",
    responses={
        200: {
            "content": event_stream(
                "SelfRagFrame",
                "Frames of an event and its data: `decision` first, `retrieval` if it is needed, `content` many, "
                "`assessment`, then `done`. A fault is `error`, and nothing follows it.",
            )
        },
        **problems(402, 503),
    },
)
async def self_rag_chat(
    tenant: TenantDep,
    services: ServicesDep,
    body: Annotated[SelfRagRequest, Depends(JsonBody(SelfRagRequest))],
) -> Response:
    """Decides, retrieves, answers with `[ref:N]`, and judges the answer; stateless."""
    options = ChatOptions(
        question=body.messages[-1].content,
        question_at=f"messages.{len(body.messages) - 1}.content",
        messages=tuple(chat_message(message.role, message.content) for message in body.messages),
        collection=body.collection or "",
        top_k=body.top_k,
        min_score=body.min_score,
    )
    chat = make_chat_input(options, SELF_RAG, tenant, SelfRagDialect.name, services.settings)
    return await respond(services, chat, SelfRagDialect())


def _chat_options(body: ChatRequest) -> ChatOptions:
    question, at = body.question, "question"
    if question is not None and body.messages is not None:
        raise invalid_field("messages", "can't be given together with question")
    if question is None and body.messages is not None:
        question, at = body.messages[-1].content, f"messages.{len(body.messages) - 1}.content"
    return ChatOptions(
        question=question,
        question_at=at,
        messages=tuple(chat_message(message.role, message.content) for message in body.messages or ()),
        document_ids=None if body.document_ids is None else tuple(body.document_ids),
        collection=body.collection or "",
        filter=None if body.filter is None else parse_filter(body.filter),
        top_k=body.top_k,
        min_score=body.min_score,
        model=body.model or "",
        conversation_id=body.conversation_id,
        keep=body.keep,
        include=frozenset(EventType(name) for name in body.include if name != "cost"),
        cost="cost" in body.include,
    )


def _simple_options(body: SimpleRequest) -> ChatOptions:
    return ChatOptions(body.question, document_ids=None if body.document_ids is None else tuple(body.document_ids))
