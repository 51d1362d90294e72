"""`/v1/responses`: what untouched clients of OpenAI's Responses API call."""

from dataclasses import replace
from typing import Annotated
from uuid import UUID

from citewire.generator.v1 import generator_pb2
from fastapi import APIRouter, Depends, Response

from citewire_accounts.api.dependencies import TenantDep, authenticate
from citewire_dialects.dialect import ChatDialect
from citewire_dialects.openai_filters import narrowed
from citewire_dialects.openai_responses import (
    ResponsesAnswer,
    ResponsesStream,
    ResponseWriter,
    run_of,
    stored_inputs,
    stored_response,
)
from citewire_dialects.options import changed
from citewire_dialects.profile import History, Persist, Profile
from citewire_dialects.schemas.questions import ChatMessage, ChatRequest
from citewire_dialects.schemas.responses import (
    ResponseBody,
    ResponseDeleted,
    ResponseSettings,
    ResponsesRequest,
    StoredInputs,
)
from citewire_gateway.api.chat_requests import compatible_request, make_chat_input, respond
from citewire_gateway.api.dependencies import Services, ServicesDep
from citewire_gateway.chat.context import MOST_MESSAGES
from citewire_gateway.chat.store import StoredExchange, StoredMessage
from citewire_http.api.openapi import event_stream, problems
from citewire_http.api.parameters import IdempotencyDep
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.errors import FailedPrecondition, FieldViolation, NotFound, invalid_field
from citewire_kit.tenant import Tenant

_HISTORY = History(tokens=4_000)
"""What is read of a conversation where the profile reads none by itself."""

router = APIRouter(route_class=CancellingRoute, dependencies=[Depends(authenticate)])


@router.post(
    "/v1/responses",
    summary="Ask a question (OpenAI's responses)",
    tags=["compatible"],
    response_model=ResponseBody,
    response_description="A stream, or without `stream` one `response`.",
    responses={
        200: {
            "content": event_stream(
                "ResponseFrame",
                "Events numbered from 0: `response.created`, the search where `tools` names one, the answer's text "
                "with its annotations, `response.completed` or `response.incomplete`. A fault is `response.failed`.",
            )
        },
        **problems(402, 404, 409, 503),
    },
)
async def create_response(
    tenant: TenantDep,
    services: ServicesDep,
    key: IdempotencyDep,
    body: Annotated[ResponsesRequest, Depends(JsonBody(ResponsesRequest))],
) -> Response:
    """Answers as OpenAI's Responses API does; `model` names a profile, and after a slash a chat model."""
    name, native = compatible_request(body.model, body.messages, body.citewire)
    profile = await services.profiles.find(tenant, name or services.settings.default_profile)
    if body.search is not None:
        await _check_stores(services, body.search.vector_store_ids)
        extras = narrowed(body.citewire, body.search, profile.top_k.maximum)
        native = native.model_copy(update=dict(extras))
    profile, native = _persisting(profile, native, body)
    continued = await _continued(tenant, services, body)
    if continued is not None:
        native = await _continue(tenant, services, native, continued, persists=profile.persist is not Persist.NEVER)
    if profile.history is None and (continued is not None or len(native.messages or ()) > 1):
        profile = replace(profile, history=_HISTORY)  # else what the request names wouldn't be read
    # Their citations stand beside the text, so that it needs no markers.
    policy = changed(profile.answer, marker_style=generator_pb2.MARKER_STYLE_REMOVE, verify_citations=True)
    stored = profile.persist is Persist.ALWAYS or (profile.persist is Persist.ON_REQUEST and bool(native.keep))
    settings = ResponseSettings.of(body, store=stored)
    question = native.messages[-1].content if native.messages else native.question
    writer = ResponseWriter(settings, question or "", shows_results=body.shows_results)
    dialect: ChatDialect = ResponsesStream(writer) if body.stream else ResponsesAnswer(writer)
    chat = make_chat_input(
        native,
        replace(profile, answer=policy),
        tenant,
        dialect.name,
        services.settings,
        question_at=f"input.{len(body.input) - 1}.content",
        instructions=body.told,
        max_tokens=body.max_output_tokens,
        temperature=body.temperature,
    )
    chat = replace(chat, request=settings.members())
    return await respond(services, chat, dialect, key=key, body=body.model_dump(mode="json"))


@router.get(
    "/v1/responses/{response_id}", summary="Read a response (OpenAI)", tags=["conversations"], responses=problems(404)
)
async def get_response(response_id: str, tenant: TenantDep, services: ServicesDep) -> ResponseBody:
    """Returns a response of the caller's own that has ended and that is kept."""
    run_id, stored, answer = await _stored(tenant, services, response_id)
    conversation = str(stored.conversation_id)
    return stored_response(run_id, stored.question, answer.content, answer.state, answer.details, conversation)


@router.get(
    "/v1/responses/{response_id}/input_items",
    summary="Read what a response answers (OpenAI)",
    tags=["conversations"],
    responses=problems(404),
)
async def list_input_items(response_id: str, tenant: TenantDep, services: ServicesDep) -> StoredInputs:
    """Returns the question; what came before it is in its conversation."""
    run_id, stored, _ = await _stored(tenant, services, response_id)
    return stored_inputs(run_id, stored.question)


@router.post(
    "/v1/responses/{response_id}/cancel",
    summary="Cancel a response (OpenAI)",
    tags=["compatible"],
    responses=problems(404, 409),
)
async def cancel_response(response_id: str, tenant: TenantDep, services: ServicesDep) -> ResponseBody:
    """Refuses: only responses in the background can be cancelled, and there are none. Who leaves stops an answer."""
    await _stored(tenant, services, response_id)
    raise FailedPrecondition(
        "the response wasn't made in the background: close the connection of a stream to stop it", reason="WRONG_STATE"
    )


@router.delete(
    "/v1/responses/{response_id}",
    summary="Delete a response (OpenAI)",
    tags=["conversations"],
    responses=problems(404, 409),
)
async def delete_response(response_id: str, tenant: TenantDep, services: ServicesDep) -> ResponseDeleted:
    """Deletes a response with its question: the last of its conversation."""
    run_id, _, _ = await _stored(tenant, services, response_id)
    if not await services.chats.delete_exchange(tenant, run_id):
        raise FailedPrecondition(
            "others follow this response, and may say again what it says: delete them first, or the conversation",
            reason="WRONG_STATE",
        )
    return ResponseDeleted(id=response_id, object="response", deleted=True)


def _persisting(profile: Profile, native: ChatRequest, body: ResponsesRequest) -> tuple[Profile, ChatRequest]:
    """Returns profile and request as `store` has them: question and answer are kept unless either says otherwise."""
    if body.store is False:
        return replace(profile, persist=Persist.NEVER), native
    if body.store and profile.persist is Persist.NEVER:
        raise invalid_field("store", f"must be false or absent: the profile {profile.name} keeps no conversations")
    return profile, native.model_copy(update={"keep": True})


async def _check_stores(services: Services, names: list[str]) -> None:
    """Refuses vector stores that the caller hasn't; one alone the search refuses by itself."""
    for number, name in enumerate(names if len(names) > 1 else ()):
        if await services.corpus.find_collection(name) is None:
            raise NotFound(
                f"there is no collection {name!r}",
                reason="COLLECTION_NOT_FOUND",
                violations=[FieldViolation(f"tools.0.vector_store_ids.{number}", "must be the name of a collection")],
            )


async def _continued(tenant: Tenant, services: Services, body: ResponsesRequest) -> UUID | None:
    """Returns the conversation that a request continues."""
    conversation = body.conversation
    if body.previous_response_id is None:
        return None if conversation is None else _conversation_id(conversation.id)
    if conversation is not None:
        raise invalid_field("conversation", "can't be given together with previous_response_id")
    if body.citewire.conversation_id is not None:
        raise invalid_field("citewire.conversation_id", "can't be given together with previous_response_id")
    _, stored, _ = await _stored(tenant, services, body.previous_response_id, at="previous_response_id")
    if not stored.last:
        raise invalid_field(
            "previous_response_id",
            "must be the last response of its conversation: send the messages as input to go on from an earlier one",
        )
    return stored.conversation_id


async def _continue(
    tenant: Tenant, services: Services, native: ChatRequest, conversation_id: UUID, *, persists: bool
) -> ChatRequest:
    """Returns a request that continues a conversation, with what was said before where that isn't read by itself."""
    given = native.messages or []
    if persists and len(given) == 1:
        changes = {"conversation_id": conversation_id, "question": given[0].content, "messages": None}
        return native.model_copy(update=changes)
    before = [
        ChatMessage.model_construct(
            role="user" if message.role == generator_pb2.ROLE_USER else "assistant", content=message.content
        )
        for message in await services.reader.history(tenant, conversation_id, MOST_MESSAGES)
    ]
    changes = {"conversation_id": conversation_id if persists else None, "messages": [*before, *given]}
    return native.model_copy(update=changes)


async def _stored(
    tenant: Tenant, services: Services, name: str, *, at: str = "response_id"
) -> tuple[UUID, StoredExchange, StoredMessage]:
    """Finds a response of the caller's own that has ended, its run and its answer."""
    run_id = run_of(name)
    missing = NotFound(
        f"there is no response {name[:64]}, or it isn't kept (see store)",
        reason="RUN_NOT_FOUND",
        violations=[FieldViolation(at, "must be the id of a response that is kept")],
    )
    if run_id is None:
        raise missing
    try:
        stored = await services.reader.exchange(tenant, run_id)
    except NotFound as exc:
        raise missing from exc
    if stored.answer is None or "request" not in stored.answer.details:
        raise missing
    return run_id, stored, stored.answer


def _conversation_id(name: str) -> UUID:
    try:
        return UUID(name.removeprefix("conv_"))
    except ValueError as exc:
        raise invalid_field("conversation", "must be the id of a conversation") from exc
