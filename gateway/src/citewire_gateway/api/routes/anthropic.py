"""Routes for Anthropic's clients, under their own prefix because the paths are used elsewhere."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from citewire_accounts.api.dependencies import TenantDep, authenticate
from citewire_dialects.anthropic_messages import MessagesAnswer, MessagesStream
from citewire_dialects.anthropic_requests import brought_texts, read_messages
from citewire_dialects.dialect import ChatDialect
from citewire_dialects.schemas.anthropic import (
    CountRequest,
    Message,
    MessagesRequest,
    ModelEntries,
    ModelEntry,
    TokenCount,
)
from citewire_gateway.api.chat_requests import ChatCallDep
from citewire_gateway.api.dependencies import ServicesDep
from citewire_http.api.openapi import event_stream, problems
from citewire_http.api.parameters import Clean
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.tenant import current_request_id

router = APIRouter(route_class=CancellingRoute, tags=["compatible"], dependencies=[Depends(authenticate)])

Beta = Annotated[bool, Query(description="Sent by Anthropic's `client.beta`; ignored.")]
Neighbour = Annotated[str | None, Query(max_length=300, description="An entry's id."), Clean]


@router.post(
    "/anthropic/v1/messages",
    summary="Ask a question (Anthropic)",
    response_model=Message,
    response_description="A stream, or without `stream` one `message`.",
    responses={
        200: {
            "content": event_stream(
                "MessageEvent",
                "`message_start`, blocks of text with the citations of their sentence, `message_delta`, "
                "`message_stop`. If the answer fails, the stream ends with `error`.",
            )
        },
        **problems(402, 404, 409, 503),
    },
)
async def create_message(
    call: ChatCallDep, body: Annotated[MessagesRequest, Depends(JsonBody(MessagesRequest))], *, beta: Beta = False
) -> Response:
    """Anthropic's Messages API; `model` names a profile, optionally with a chat model after a slash.

    Search results in the request are passages in addition to the library's; no conversation is stored then.
    """
    del beta
    profile = await call.find_profile(body.profile)
    brought = brought_texts(body.messages)
    kind = MessagesStream if body.stream else MessagesAnswer
    dialect: ChatDialect = kind(f"msg_{current_request_id()}", body.model, call.url_of, brought)
    native = body.native(keep=False if brought else None)
    return await call.answer(body, profile, native, dialect, read_messages(body, brought))


@router.post("/anthropic/v1/messages/count_tokens", summary="Count tokens (Anthropic)")
async def count_message_tokens(
    body: Annotated[CountRequest, Depends(JsonBody(CountRequest))], *, beta: Beta = False
) -> TokenCount:
    """Estimates the tokens of a conversation, without the passages that its answer would read."""
    del beta
    return TokenCount.of(body)


@router.get("/anthropic/v1/models", summary="List profiles as models (Anthropic)")
async def list_anthropic_models(
    tenant: TenantDep,
    services: ServicesDep,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of entries per page.")] = 20,
    after_id: Neighbour = None,
    before_id: Neighbour = None,
    *,
    beta: Beta = False,
) -> ModelEntries:
    """Returns the profiles by name, each as a model."""
    del beta
    profiles = await services.profiles.list(tenant)
    entries = [ModelEntry.of(profile.name, stored and stored.created_at) for profile, stored in profiles]
    return ModelEntries.page(entries, limit, after_id, before_id)


@router.get("/anthropic/v1/models/{name}", summary="Get a profile as a model (Anthropic)", responses=problems(404))
async def get_anthropic_model(name: str, tenant: TenantDep, services: ServicesDep, *, beta: Beta = False) -> ModelEntry:
    """Returns one profile."""
    del beta
    return ModelEntry.of((await services.profiles.find(tenant, name)).name)
