"""What untouched clients of Anthropic call, under a prefix of its own, as its paths are others' too."""

from dataclasses import replace
from typing import Annotated

from citewire.generator.v1 import generator_pb2
from fastapi import APIRouter, Depends, Request, Response

from citewire_accounts.api.dependencies import TenantDep, authenticate
from citewire_dialects.anthropic_messages import MessagesAnswer, MessagesStream
from citewire_dialects.dialect import ChatDialect
from citewire_dialects.options import changed
from citewire_dialects.schemas.anthropic import Message, MessagesRequest, text_of
from citewire_gateway.api.chat_requests import compatible_request, make_chat_input, respond
from citewire_gateway.api.dependencies import ServicesDep
from citewire_gateway.api.routes.openai import urls_at
from citewire_http.api.openapi import event_stream, problems
from citewire_http.api.parameters import IdempotencyDep
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.tenant import current_request_id

router = APIRouter(route_class=CancellingRoute, tags=["compatible"], dependencies=[Depends(authenticate)])


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
                "`message_stop`. A fault is `error`, and nothing follows.",
            )
        },
        **problems(402, 404, 409, 503),
    },
)
async def create_message(
    request: Request,
    tenant: TenantDep,
    services: ServicesDep,
    key: IdempotencyDep,
    body: Annotated[MessagesRequest, Depends(JsonBody(MessagesRequest))],
) -> Response:
    """Answers as Anthropic's Messages API does; `model` names a profile, and after a slash a chat model."""
    name, native = compatible_request(body.model, body.messages, body.citewire)
    profile = await services.profiles.find(tenant, name or services.settings.default_profile)
    # Their citations stand beside the text, so that it needs no markers.
    policy = changed(profile.answer, marker_style=generator_pb2.MARKER_STYLE_REMOVE, verify_citations=True)
    kind = MessagesStream if body.stream else MessagesAnswer
    dialect: ChatDialect = kind(f"msg_{current_request_id()}", body.model, urls_at(request))
    chat = make_chat_input(
        native,
        replace(profile, answer=policy),
        tenant,
        dialect.name,
        services.settings,
        question_at=f"messages.{len(body.messages) - 1}.content",
        instructions=text_of(body.system),
        max_tokens=body.max_tokens,
        temperature=body.temperature,
    )
    return await respond(services, chat, dialect, key=key, body=body.model_dump(mode="json"))
