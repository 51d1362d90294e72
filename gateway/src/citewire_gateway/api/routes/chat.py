"""`POST /v1/chat`, the APIs of single systems under `/api`."""

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from citewire_accounts.api.dependencies import TenantDep, authenticate
from citewire_dialects.dialect import ChatDialect
from citewire_dialects.native import JsonAnswer, NativeDialect
from citewire_dialects.options import apply_changes, check_possible
from citewire_dialects.profile import Profile
from citewire_dialects.schemas.chat import ChatAnswer
from citewire_dialects.schemas.questions import ChatRequest
from citewire_dialects.self_rag import SelfRagAnswer, SelfRagDialect, SelfRagJsonAnswer, SelfRagRequest
from citewire_dialects.simple import SimpleAnswer, SimpleDialect, SimpleJsonAnswer, SimpleRequest
from citewire_dialects.ui_message import UiMessageDialect
from citewire_gateway.api.chat_requests import ChatCall, ChatCallDep, make_chat_input, shown_events
from citewire_gateway.api.dependencies import ServicesDep
from citewire_gateway.profiles.builtin import SELF_RAG, SIMPLE
from citewire_http.api.openapi import event_stream, problems, streamed
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.errors import invalid_field
from citewire_kit.tenant import current_request_id

router = APIRouter(route_class=CancellingRoute, tags=["chat"], dependencies=[Depends(authenticate)])

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
                "The native dialect: each event as `event: TYPE`, `id: SEQUENCE`, `data: JSON`, and `done` last. The "
                "profile determines which events are shown; ignore unknown ones. If the chat fails, `error` comes "
                "before `done`. Lines that begin with a colon are heartbeats.",
                ui_message="UiMessagePart",
            )
        },
        **problems(402, 404, 409, 503),
    },
)
async def chat(
    call: ChatCallDep,
    body: Annotated[ChatRequest, Depends(JsonBody(ChatRequest))],
    dialect: DialectName = None,
) -> Response:
    """Answers from the caller's documents, as a stream of events or as one JSON body."""
    profile = await call.find_profile(body.profile)
    if body.options is not None:
        profile = apply_changes(profile, body.options, "options")
        check_possible(profile, "options")
    if body.question is not None and body.messages is not None:
        raise invalid_field("messages", "can't be given together with question")
    shown = shown_events(profile, body.events())
    answer: ChatDialect = JsonAnswer(shown)
    if body.stream:
        ui = dialect == "ui-message"
        answer = UiMessageDialect(shown, f"msg_{current_request_id()}") if ui else NativeDialect(shown)
    elif dialect is not None:
        raise invalid_field("dialect", "is for streams; leave it out with stream: false")
    chat = make_chat_input(body, profile, call.tenant, answer.name, call.services.settings)
    if isinstance(answer, UiMessageDialect) and isinstance(body.id, str) and chat.persists and not chat.conversation_id:
        conversation_id, exists = await call.services.chats.find_chat(call.tenant, body.id)
        chat = replace(chat, conversation_id=conversation_id, creates=not exists)
    return await call.respond(body, chat, answer)


@router.post(
    "/api/chat/",
    summary="Ask a question, streamed (simple API)",
    **streamed(
        "SimpleFrame",
        "Frames with data only: any number of `token`, then `done` with the sources. If the answer fails, the stream "
        "ends with `error` instead of `done`.",
        402,
        404,
        503,
    ),
)
@router.post("/api/chat", include_in_schema=False)
async def simple_chat(call: ChatCallDep, body: Annotated[SimpleRequest, Depends(JsonBody(SimpleRequest))]) -> Response:
    """Streams tokens, then the sources."""
    return await call.answer(body, SIMPLE, body.native(), SimpleDialect())


@router.post(
    "/api/chat/query",
    summary="Ask a question (simple API)",
    response_model=SimpleAnswer,
    response_description="The answer.",
    responses=problems(402, 404, 503),
)
async def simple_query(call: ChatCallDep, body: Annotated[SimpleRequest, Depends(JsonBody(SimpleRequest))]) -> Response:
    """Returns the answer and its sources."""
    return await call.answer(body, SIMPLE, body.native(), SimpleJsonAnswer())


@router.post(
    "/api/rag-chat",
    summary="Ask about saved articles and repositories, in one piece",
    response_model=SelfRagAnswer,
    response_description="The answer.",
    responses=problems(402, 404, 503),
)
async def self_rag_query(
    call: ChatCallDep, body: Annotated[SelfRagRequest, Depends(JsonBody(SelfRagRequest))]
) -> Response:
    """Decides, retrieves, answers with `[ref:N]`, and judges the answer; stateless."""
    return await call.answer(body, _self_rag(body), body.native(), SelfRagJsonAnswer())


@router.post(
    "/api/rag-chat/stream",
    summary="Ask about saved articles and repositories",
    **streamed(
        "SelfRagFrame",
        "Frames with an event and its data: `decision` first, `retrieval` if it is needed, any number of `content`, "
        "`assessment`, then `done`. If the answer fails, the stream ends with `error`.",
        402,
        503,
    ),
)
async def self_rag_chat(
    request: Request,
    tenant: TenantDep,
    services: ServicesDep,
    body: Annotated[SelfRagRequest, Depends(JsonBody(SelfRagRequest))],
) -> Response:
    """Decides, retrieves, answers with `[ref:N]`, and judges the answer; stateless."""
    call = ChatCall(request, tenant, services)
    return await call.answer(body, _self_rag(body), body.native(), SelfRagDialect())


def _self_rag(body: SelfRagRequest) -> Profile:
    return replace(SELF_RAG, judge_relevance=body.judge_relevance)
