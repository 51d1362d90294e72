"""`/v1/responses`: routes for clients of OpenAI's Responses API."""

from dataclasses import replace
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Response

from citewire_accounts.api.dependencies import TenantDep, authenticate
from citewire_dialects.asked import read_response_request
from citewire_dialects.dialect import ChatDialect
from citewire_dialects.openai_filters import narrowed
from citewire_dialects.openai_responses import ResponsesAnswer, ResponsesStream, ResponseWriter
from citewire_dialects.profile import History, Persist, Profile
from citewire_dialects.response_bodies import run_of, stored_inputs, stored_response
from citewire_dialects.schemas.questions import ChatRequest
from citewire_dialects.schemas.response_answers import ResponseBody, ResponseDeleted, ResponseSettings, StoredInputs
from citewire_dialects.schemas.responses import ResponsesRequest
from citewire_gateway.api.chat_requests import ChatCall, ChatCallDep
from citewire_gateway.api.dependencies import Services, ServicesDep
from citewire_gateway.chat.context import MOST_MESSAGES
from citewire_gateway.chat.records import StoredExchange, StoredMessage
from citewire_http.api.openapi import event_stream, problems
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.errors import FailedPrecondition, FieldViolation, NotFound, invalid_field
from citewire_kit.tenant import Tenant

_HISTORY = History(tokens=4_000)
"""The history to use if the profile has none."""

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
                "Events numbered from 0: `response.created`, the search if `tools` names one, the answer's text "
                "with its annotations, `response.completed` or `response.incomplete`. If the answer fails, the last "
                "event is `response.failed`.",
            )
        },
        **problems(402, 404, 409, 503),
    },
)
async def create_response(
    call: ChatCallDep, body: Annotated[ResponsesRequest, Depends(JsonBody(ResponsesRequest))]
) -> Response:
    """OpenAI's Responses API; `model` names a profile, optionally with a chat model after a slash."""
    native, asked = body.native(), read_response_request(body)
    profile = await call.find_profile(body.profile)
    if body.search is not None:
        await _check_stores(call.services, body.search.vector_store_ids)
        native = native.model_copy(update=dict(narrowed(body.citewire, body.search, profile.top_k.maximum)))
    profile, native = _persisting(profile, native, body)
    continued = await _continued(call, body)
    question = asked.messages[-1].content
    if profile.history is None and (continued is not None or len(asked.messages) > 1):
        profile = replace(profile, history=_HISTORY)  # otherwise the conversation named in the request wouldn't be used
    if continued is not None and profile.persist is not Persist.NEVER and len(asked.messages) == 1:
        native = native.model_copy(update={"conversation_id": continued, "question": question})
        asked = replace(asked, messages=())
    elif continued is not None:
        native = native.model_copy(
            update={"conversation_id": continued if profile.persist is not Persist.NEVER else None}
        )
        before = await call.services.reader.history(call.tenant, continued, MOST_MESSAGES)
        asked = replace(asked, messages=[*before, *asked.messages])
    stored = profile.persist is Persist.ALWAYS or (profile.persist is Persist.ON_REQUEST and bool(native.keep))
    settings = ResponseSettings.of(body, store=stored)
    writer = ResponseWriter(settings, question, shows_results=body.shows_results)
    dialect: ChatDialect = ResponsesStream(writer) if body.stream else ResponsesAnswer(writer)
    return await call.answer(body, profile, native, dialect, replace(asked, request=settings.members()))


@router.get(
    "/v1/responses/{response_id}", summary="Read a response (OpenAI)", tags=["conversations"], responses=problems(404)
)
async def get_response(response_id: str, tenant: TenantDep, services: ServicesDep) -> ResponseBody:
    """Returns one of the caller's stored responses, once it has ended."""
    run_id, stored, answer = await _stored(tenant, services, response_id)
    conversation = str(stored.conversation_id)
    return stored_response(run_id, stored.question, answer.content, answer.state, answer.details, conversation)


@router.get(
    "/v1/responses/{response_id}/input_items",
    summary="Read a response's question (OpenAI)",
    tags=["conversations"],
    responses=problems(404),
)
async def list_input_items(response_id: str, tenant: TenantDep, services: ServicesDep) -> StoredInputs:
    """Returns the question; earlier messages are in its conversation."""
    run_id, stored, _ = await _stored(tenant, services, response_id)
    return stored_inputs(run_id, stored.question)


@router.post(
    "/v1/responses/{response_id}/cancel",
    summary="Cancel a response (OpenAI)",
    tags=["compatible"],
    responses=problems(404, 409),
)
async def cancel_response(response_id: str, tenant: TenantDep, services: ServicesDep) -> ResponseBody:
    """Always fails: only background responses can be cancelled, and there are none. Disconnect to stop an answer."""
    await _stored(tenant, services, response_id)
    raise FailedPrecondition(
        "only background responses can be cancelled: to stop a stream, close its connection", reason="WRONG_STATE"
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
            "later responses in this conversation may repeat this one: delete them first, or the conversation",
            reason="WRONG_STATE",
        )
    return ResponseDeleted(id=response_id, object="response", deleted=True)


def _persisting(profile: Profile, native: ChatRequest, body: ResponsesRequest) -> tuple[Profile, ChatRequest]:
    """Applies `store` to profile and request: question and answer are stored unless either disables it."""
    if body.store is False:
        return replace(profile, persist=Persist.NEVER), native
    if body.store and profile.persist is Persist.NEVER:
        raise invalid_field("store", f"must be false or absent: the profile {profile.name} keeps no conversations")
    return profile, native.model_copy(update={"keep": True})


async def _check_stores(services: Services, names: list[str]) -> None:
    """Rejects unknown vector stores; a single one is checked by the search itself."""
    for number, name in enumerate(names if len(names) > 1 else ()):
        if await services.corpus.find_collection(name) is None:
            raise NotFound(
                f"there is no collection {name!r}",
                reason="COLLECTION_NOT_FOUND",
                violations=[FieldViolation(f"tools.0.vector_store_ids.{number}", "must be the name of a collection")],
            )


async def _continued(call: ChatCall, body: ResponsesRequest) -> UUID | None:
    """Returns the conversation that a request continues."""
    conversation = body.conversation
    if body.previous_response_id is None:
        return None if conversation is None else _conversation_id(conversation.id)
    if conversation is not None:
        raise invalid_field("conversation", "can't be given together with previous_response_id")
    if body.citewire.conversation_id is not None:
        raise invalid_field("citewire.conversation_id", "can't be given together with previous_response_id")
    _, stored, _ = await _stored(call.tenant, call.services, body.previous_response_id, at="previous_response_id")
    if not stored.last:
        raise invalid_field(
            "previous_response_id",
            "must be the last response of its conversation: send the messages as input to continue from an earlier one",
        )
    return stored.conversation_id


async def _stored(
    tenant: Tenant, services: Services, name: str, *, at: str = "response_id"
) -> tuple[UUID, StoredExchange, StoredMessage]:
    """Finds one of the caller's completed responses, with its run and its answer."""
    run_id = run_of(name)
    missing = NotFound(
        f"there is no response {name[:64]}, or it isn't stored (see store)",
        reason="RUN_NOT_FOUND",
        violations=[FieldViolation(at, "must be the id of a stored response")],
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
