"""What untouched clients of Anthropic call, under a prefix of its own, as its paths are others' too."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from citewire_accounts.api.dependencies import authenticate
from citewire_dialects.anthropic_messages import MessagesAnswer, MessagesStream
from citewire_dialects.asked import read_messages
from citewire_dialects.dialect import ChatDialect
from citewire_dialects.schemas.anthropic import Message, MessagesRequest
from citewire_gateway.api.chat_requests import ChatCallDep
from citewire_http.api.openapi import event_stream, problems
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
    call: ChatCallDep, body: Annotated[MessagesRequest, Depends(JsonBody(MessagesRequest))]
) -> Response:
    """Answers as Anthropic's Messages API does; `model` names a profile, and after a slash a chat model."""
    profile = await call.find_profile(body.profile)
    kind = MessagesStream if body.stream else MessagesAnswer
    dialect: ChatDialect = kind(f"msg_{current_request_id()}", body.model, call.url_of)
    return await call.answer(body, profile, body.native(), dialect, read_messages(body))
