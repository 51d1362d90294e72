"""`/v1/conversations`: what was asked and answered, each user's own."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import JSONResponse

from citewire_gateway.api.chat_docs import conversation_docs, conversations_docs, export_docs, rename_docs
from citewire_gateway.api.dependencies import ServicesDep, TenantDep, authenticate
from citewire_gateway.api.operation_docs import deleted_docs
from citewire_gateway.api.queries import PageSize, PageToken
from citewire_gateway.api.schemas import ConversationPatch
from citewire_gateway.chat.store import Conversation, StoredMessage
from citewire_gateway.chat.transcript import markdown
from citewire_gateway.http.bodies import json_body
from citewire_kit.errors import NotFound, invalid_field

_PAGE = 200
_SUFFIXES = {"json": "json", "markdown": "md"}
ExportFormat = Annotated[Literal["json", "markdown"], Query(description="What the file is to be.")]

router = APIRouter(tags=["conversations"], dependencies=[Depends(authenticate)])


@router.get("/v1/conversations", summary="List conversations", **conversations_docs())
async def list_conversations(
    tenant: TenantDep, services: ServicesDep, page_size: PageSize = None, page_token: PageToken = None
) -> Response:
    """Returns the caller's conversations, latest first."""
    page, next_token = await services.chats.list_conversations(
        tenant, page_size=_page_size(page_size), page_token=page_token or ""
    )
    return JSONResponse({"conversations": [_conversation(one) for one in page], "next_page_token": next_token})


@router.get("/v1/conversations/{conversation_id}", summary="Read a conversation", **conversation_docs())
async def get_conversation(
    conversation_id: str,
    tenant: TenantDep,
    services: ServicesDep,
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> Response:
    """Returns a conversation with its messages, oldest first; long ones come in pages."""
    after = _ordinal(page_token or "")
    found, messages, more = await services.chats.get_conversation(
        tenant, _id(conversation_id), page_size=_page_size(page_size, default=200), after=after
    )
    body = _conversation(found) | {
        "messages": [_message(one) for one in messages],
        "next_page_token": str(messages[-1].ordinal) if more else "",
    }
    return JSONResponse(body)


@router.get("/v1/conversations/{conversation_id}/export", summary="Export a conversation", **export_docs())
async def export_conversation(
    conversation_id: str, tenant: TenantDep, services: ServicesDep, format: ExportFormat = "json"
) -> Response:
    """Returns a whole conversation as a file, in JSON or Markdown."""
    number = _id(conversation_id)
    found, messages, more = await services.chats.get_conversation(tenant, number, page_size=_PAGE, after=0)
    while more:
        after = messages[-1].ordinal
        _, page, more = await services.chats.get_conversation(tenant, number, page_size=_PAGE, after=after)
        messages += page
    headers = {"Content-Disposition": f'attachment; filename="conversation-{number}.{_SUFFIXES[format]}"'}
    if format == "markdown":
        return Response(markdown(found, messages), headers=headers, media_type="text/markdown; charset=utf-8")
    return JSONResponse(_conversation(found) | {"messages": [_message(one) for one in messages]}, headers=headers)


@router.patch("/v1/conversations/{conversation_id}", summary="Rename a conversation", **rename_docs())
async def rename_conversation(
    conversation_id: str,
    tenant: TenantDep,
    services: ServicesDep,
    body: Annotated[ConversationPatch, Depends(json_body(ConversationPatch))],
) -> Response:
    """Changes a conversation's title."""
    title = " ".join(body.title.split())
    if not title:
        raise invalid_field("title", "must not be empty")
    return JSONResponse(_conversation(await services.chats.rename_conversation(tenant, _id(conversation_id), title)))


@router.delete(
    "/v1/conversations/{conversation_id}", summary="Delete a conversation", status_code=204, **deleted_docs()
)
async def delete_conversation(conversation_id: str, tenant: TenantDep, services: ServicesDep) -> Response:
    """Deletes a conversation with its messages."""
    await services.chats.delete_conversation(tenant, _id(conversation_id))
    return Response(status_code=204)


def _conversation(one: Conversation) -> dict[str, Any]:
    return {
        "id": str(one.conversation_id),
        "title": one.title,
        "profile": one.profile,
        "created_at": _time(one.created_at),
        "updated_at": _time(one.updated_at),
    }


def _message(one: StoredMessage) -> dict[str, Any]:
    head = {"role": one.role, "content": one.content, "created_at": _time(one.created_at)}
    return head if one.role == "user" else head | {"state": one.state} | one.details


def _time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as exc:
        raise NotFound(f"there is no conversation {text[:64]}", reason="CONVERSATION_NOT_FOUND") from exc


def _ordinal(token: str) -> int:
    if not token:
        return 0
    if not token.isdecimal() or len(token) > 9:
        raise invalid_field("page_token", "must be the next_page_token of the page before")
    return int(token)


def _page_size(given: int | None, *, default: int = 50) -> int:
    return given or default
