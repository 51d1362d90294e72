"""`/v1/conversations`: each user's questions and answers."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import JSONResponse
from pydantic import MISSING, Field, StrictBool, StrictStr

from citewire_accounts.api.dependencies import TenantDep, authenticate
from citewire_accounts.api.schemas.feedback import FeedbackInfo
from citewire_accounts.tenants.feedback import Feedback, conversation_not_found
from citewire_dialects.schemas.chat import AnswerDetails
from citewire_gateway.api.dependencies import ServicesDep
from citewire_gateway.chat import records
from citewire_gateway.chat.markdown import markdown
from citewire_http.api.openapi import deleted, problems
from citewire_http.api.parameters import PageSize, PageToken, SearchText
from citewire_http.api.reading import time_text
from citewire_http.api.schemas import RequestModel, ResponseModel, Time, Uuid
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.errors import Violations, invalid_field
from citewire_kit.tenant import Tenant, is_token


class ConversationPatch(RequestModel):
    """A conversation's new title."""

    title: Annotated[StrictStr, Field(min_length=1, max_length=200)]


class Conversation(ResponseModel):
    """A conversation without its messages."""

    id: Uuid = Field(examples=["01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11"])
    title: str = Field(examples=["How much did revenue grow?"])
    profile: str = Field(examples=["documents"])
    created_at: Time = Field(examples=["2026-01-15T09:31:00Z"])
    updated_at: Time = Field(examples=["2026-01-15T09:31:02Z"])
    user: str | MISSING = Field(default=MISSING, description="Its user; absent for the caller's own.", examples=["ada"])


class ConversationList(ResponseModel):
    """A page of conversations, latest first."""

    conversations: list[Conversation]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


class UserMessage(ResponseModel):
    """A question."""

    role: Literal["user"]
    content: str = Field(examples=["How much did revenue grow?"])
    created_at: Time = Field(examples=["2026-01-15T09:31:00Z"])


class StoredAnswer(AnswerDetails):
    """A stored answer with its details."""

    role: Literal["assistant"]
    content: str = Field(examples=["Revenue grew by 12 %."])
    created_at: Time = Field(examples=["2026-01-15T09:31:02Z"])
    state: Literal["complete", "cancelled", "failed"] = Field(examples=["complete"])
    exchange_id: Uuid = Field(
        description="The run that wrote it; feedback names it.", examples=["01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e12"]
    )
    feedback: FeedbackInfo | MISSING = Field(default=MISSING, description="The caller's own.")
    withheld: Literal[True] | MISSING = Field(
        default=MISSING,
        description="Only if `content` is a note in place of the answer: it was written from a document that the "
        "caller may not see, or that was deleted.",
    )


Reader = Annotated[StrictStr, Field(min_length=1, max_length=200)]


class Sharing(RequestModel):
    """Who may read a conversation besides its user. Readers can't change it."""

    users: list[Reader] = Field(default_factory=list, max_length=200, description="Ids of users.", examples=[["bob"]])
    groups: list[Reader] = Field(default_factory=list, max_length=200, examples=[["finance"]])
    organisation: StrictBool = Field(default=False, description="Whether everybody in the organisation may read it.")

    @classmethod
    def of(cls, readers: records.Readers) -> Self:
        """Describes them."""
        return cls(users=list(readers.users), groups=list(readers.groups), organisation=readers.organisation)


Message = Annotated[UserMessage | StoredAnswer, Field(discriminator="role")]


class ConversationExport(Conversation):
    """A conversation with all its messages, oldest first."""

    messages: list[Message]


class ConversationPage(ConversationExport):
    """A conversation with a page of its messages, oldest first."""

    run_id: Uuid | MISSING = Field(
        default=MISSING,
        description="The run that is writing the next answer, if `GET /v1/chat/{run_id}/events` can resume it.",
    )
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


_PAGE = 200
_SUFFIXES = {"json": "json", "markdown": "md"}
ExportFormat = Annotated[Literal["json", "markdown"], Query(description="The file's format.")]

router = APIRouter(route_class=CancellingRoute, tags=["conversations"], dependencies=[Depends(authenticate)])


@router.get("/v1/conversations", summary="List conversations")
async def list_conversations(
    tenant: TenantDep,
    services: ServicesDep,
    page_size: PageSize = None,
    page_token: PageToken = None,
    q: SearchText = None,
    shared: Annotated[bool, Query(description="Conversations shared with the caller instead.")] = False,
) -> ConversationList:
    """Returns the caller's conversations, latest first; `q` searches titles and, of the caller's own, messages."""
    page, next_token = await services.reader.find(
        tenant, shared=shared, part=q or "", page_size=page_size or 50, page_token=page_token or ""
    )
    return ConversationList(
        conversations=[_conversation(conversation, tenant) for conversation in page], next_page_token=next_token
    )


@router.get(
    "/v1/conversations/{conversation_id}",
    summary="Read a conversation",
    response_model=ConversationPage,
    response_description="The conversation.",
    responses=problems(404),
)
async def get_conversation(
    conversation_id: str,
    tenant: TenantDep,
    services: ServicesDep,
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> Response:
    """Returns a conversation with its messages, oldest first; long ones come in pages."""
    after = _ordinal(page_token or "")
    conversation, messages, more = await services.reader.get(
        tenant, _id(conversation_id), page_size=page_size or _PAGE, after=after
    )
    run = await services.run_store.find_running(tenant, conversation.conversation_id)
    more_members = {} if run is None else {"run_id": str(run.run_id)}
    token = str(messages[-1].ordinal) if more else ""
    return _stored(tenant, conversation, messages, None, next_page_token=token, **more_members)


@router.get(
    "/v1/conversations/{conversation_id}/export",
    summary="Export a conversation",
    response_model=ConversationExport,
    response_description="The conversation.",
    responses={
        200: {
            "content": {
                "text/markdown": {
                    "schema": {"type": "string", "examples": ["# A title\n\n## A question\n\nAn answer.\n"]}
                }
            }
        },
        **problems(404),
    },
)
async def export_conversation(
    conversation_id: str, tenant: TenantDep, services: ServicesDep, format: ExportFormat = "json"
) -> Response:
    """Returns a whole conversation as a file, in JSON or Markdown."""
    number = _id(conversation_id)
    conversation, messages, more = await services.reader.get(tenant, number, page_size=_PAGE, after=0)
    while more:
        after = messages[-1].ordinal
        _, page, more = await services.reader.get(tenant, number, page_size=_PAGE, after=after)
        messages += page
    headers = {"Content-Disposition": f'attachment; filename="conversation-{number}.{_SUFFIXES[format]}"'}
    if format == "markdown":
        return Response(markdown(conversation, messages), headers=headers, media_type="text/markdown; charset=utf-8")
    return _stored(tenant, conversation, messages, headers)


@router.patch("/v1/conversations/{conversation_id}", summary="Rename a conversation", responses=problems(404))
async def rename_conversation(
    conversation_id: str,
    tenant: TenantDep,
    services: ServicesDep,
    body: Annotated[ConversationPatch, Depends(JsonBody(ConversationPatch))],
) -> Conversation:
    """Changes a conversation's title."""
    title = " ".join(body.title.split())
    if not title:
        raise invalid_field("title", "must not be empty")
    return _conversation(await services.chats.rename_conversation(tenant, _id(conversation_id), title), tenant)


@router.get(
    "/v1/conversations/{conversation_id}/sharing", summary="Show who may read a conversation", responses=problems(404)
)
async def get_sharing(conversation_id: str, tenant: TenantDep, services: ServicesDep) -> Sharing:
    """Returns who may read one of the caller's conversations."""
    return Sharing.of(await services.chats.readers(tenant, _id(conversation_id)))


@router.put("/v1/conversations/{conversation_id}/sharing", summary="Share a conversation", responses=problems(404))
async def put_sharing(
    conversation_id: str,
    tenant: TenantDep,
    services: ServicesDep,
    body: Annotated[Sharing, Depends(JsonBody(Sharing))],
) -> Sharing:
    """Sets who may read one of the caller's conversations; `{}` shares it with nobody.

    Answers written from documents hidden from a reader are `withheld` from them.
    """
    violations = Violations()
    for number, user in enumerate(body.users):
        violations.require(is_token(user), f"users[{number}]", "must be 1-128 characters of A-Z a-z 0-9 _ . : @ -")
    for number, group in enumerate(body.groups):
        violations.require(group.isprintable(), f"groups[{number}]", "must be 1-200 printable characters")
    violations.raise_if_any()
    readers = records.Readers(sorted(set(body.users)), sorted(set(body.groups)), body.organisation)
    await services.chats.share(tenant, _id(conversation_id), readers)
    return Sharing.of(readers)


@router.delete("/v1/conversations/{conversation_id}", summary="Delete a conversation", **deleted(404))
async def delete_conversation(conversation_id: str, tenant: TenantDep, services: ServicesDep) -> None:
    """Deletes a conversation with its messages."""
    await services.chats.delete_conversation(tenant, _id(conversation_id))


def _conversation(conversation: records.Conversation, tenant: Tenant) -> Conversation:
    return Conversation(
        id=str(conversation.conversation_id),
        title=conversation.title,
        profile=conversation.profile,
        created_at=time_text(conversation.created_at),
        updated_at=time_text(conversation.updated_at),
        user=MISSING if conversation.user_id == tenant.user_id else conversation.user_id,
    )


def _stored(
    tenant: Tenant,
    conversation: records.Conversation,
    messages: Sequence[records.StoredMessage],
    headers: dict[str, str] | None = None,
    **more: str,
) -> Response:
    """A conversation with messages, which are sent as they are stored."""
    body = (
        _conversation(conversation, tenant).members()
        | {"messages": [message_body(each, each.feedback) for each in messages]}
        | more
    )
    return JSONResponse(body, headers=headers)


def message_body(message: records.StoredMessage, feedback: Feedback | None) -> dict[str, Any]:
    """Returns a message as JSON's values, with feedback on it; what is stored with an answer is sent as it is."""
    head: dict[str, Any] = {
        "role": message.role,
        "content": message.content,
        "created_at": time_text(message.created_at),
    }
    if message.role == "user":
        return head
    details = {name: value for name, value in message.details.items() if name != "schema_version"}
    head |= {"state": message.state, "exchange_id": str(message.exchange_id)}
    if feedback is not None:
        head["feedback"] = FeedbackInfo.read(feedback).members()
    return head | details


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as exc:
        raise conversation_not_found(text) from exc


def _ordinal(token: str) -> int:
    if not token:
        return 0
    if not token.isdecimal() or len(token) > 9:
        raise invalid_field("page_token", "must be the next_page_token of the previous page")
    return int(token)
