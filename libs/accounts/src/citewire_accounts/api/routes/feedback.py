"""Feedback on answers, given by the owner of the conversation. The application lists it with question and answer."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from citewire_accounts.api.dependencies import AccountsDep, TenantDep, authenticate, require_admin
from citewire_accounts.api.schemas.feedback import FeedbackBody, FeedbackInfo
from citewire_accounts.tenants.feedback import FeedbackQuery, RatedAnswer, Rating, conversation_not_found
from citewire_http.api.openapi import deleted, problems
from citewire_http.api.pages import read_token, write_token, wrong_token
from citewire_http.api.parameters import Clean, PageSize, PageToken
from citewire_http.api.times import read_moment
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.errors import NotFound

_ANSWER = "/v1/conversations/{conversation_id}/answers/{exchange_id}/feedback"
_DAY = timedelta(days=1)
_PAGE = 50

router = APIRouter(route_class=CancellingRoute, tags=["conversations"], dependencies=[Depends(authenticate)])


async def _answer(conversation_id: str, exchange_id: str) -> tuple[UUID, UUID]:
    try:
        conversation = UUID(conversation_id)
    except ValueError as exc:
        raise conversation_not_found(conversation_id) from exc
    try:
        return conversation, UUID(exchange_id)
    except ValueError as exc:
        raise NotFound(f"there is no answer {exchange_id[:64]}", reason="RUN_NOT_FOUND") from exc


AnswerDep = Annotated[tuple[UUID, UUID], Depends(_answer)]


@router.put(_ANSWER, summary="Rate an answer", responses=problems(404))
async def give_feedback(
    answer: AnswerDep,
    tenant: TenantDep,
    services: AccountsDep,
    body: Annotated[FeedbackBody, Depends(JsonBody(FeedbackBody))],
) -> FeedbackInfo:
    """Stores the caller's feedback on an answer in one of their conversations, replacing earlier feedback.

    Owners and admins of the organisation can see it, with the question and the answer.
    """
    body.check()
    reasons = list(dict.fromkeys(body.reasons))
    given = await services.feedback.give(tenant, answer, body.rating, reasons, body.comment.strip())
    return FeedbackInfo.read(given)


@router.delete(_ANSWER, summary="Withdraw feedback", **deleted(404))
async def delete_feedback(answer: AnswerDep, tenant: TenantDep, services: AccountsDep) -> None:
    """Deletes the caller's feedback on an answer."""
    await services.feedback.take_back(tenant, answer)


async def read_page(
    tenant: TenantDep,
    services: AccountsDep,
    rating: Annotated[Rating | None, Query(description="Only feedback with this rating.")] = None,
    from_: Annotated[
        str | None, Query(alias="from", max_length=40, description="A day (UTC) or a time (RFC 3339)."), Clean
    ] = None,
    to: Annotated[
        str | None, Query(max_length=40, description="A day (inclusive) or a time (exclusive)."), Clean
    ] = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> tuple[Sequence[RatedAnswer], str]:
    """Returns the page of feedback for a request of an owner or admin, and the token of the next page."""
    require_admin(tenant)
    since = None if from_ is None else read_moment("from", from_)
    until = None if to is None else read_moment("to", to, after=_DAY)
    bound, size = f"{rating}\n{from_}\n{to}", page_size or _PAGE
    query, after = FeedbackQuery(rating, since, until), _position(read_token(page_token or "", bound))
    page = await services.feedback.page(tenant, query, after, size + 1)
    return page[:size], write_token(bound, _key(page[size - 1])) if len(page) > size else ""


RatedPageDep = Annotated[tuple[Sequence[RatedAnswer], str], Depends(read_page)]


def _key(rated: RatedAnswer) -> tuple[str, str, str]:
    return rated.feedback.updated_at.isoformat(), str(rated.conversation_id), str(rated.ordinal)


def _position(key: tuple[str, ...]) -> tuple[datetime, UUID, int] | None:
    if not key:
        return None
    try:
        at, conversation_id, ordinal = key
        return datetime.fromisoformat(at), UUID(conversation_id), int(ordinal)
    except ValueError as exc:
        raise wrong_token() from exc
