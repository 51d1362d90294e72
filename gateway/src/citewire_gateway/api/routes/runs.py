"""`/v1/chat/{run_id}`: resumable chat runs."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Response

from citewire_accounts.api.dependencies import TenantDep, authenticate
from citewire_dialects.events import Event
from citewire_dialects.native import ResumedDialect
from citewire_dialects.profile import EventType
from citewire_dialects.schemas.chat import RunCancelled
from citewire_dialects.ui_message import UiMessageDialect
from citewire_gateway.api.dependencies import Services, ServicesDep
from citewire_gateway.api.routes.chat import DialectName
from citewire_http.api.openapi import event_stream, problems
from citewire_http.departures import CancellingRoute
from citewire_http.runs.store import StoredRun, no_such_run
from citewire_http.streams import EventStream, StreamDialect
from citewire_kit.errors import CitewireError, invalid_field
from citewire_kit.tenant import Tenant

router = APIRouter(route_class=CancellingRoute, tags=["chat"], dependencies=[Depends(authenticate)])

_MAX_DIGITS = 9


@router.get(
    "/v1/chat/{run_id}/events",
    summary="Resume a chat",
    response_class=Response,
    response_description="The rest of the stream.",
    responses={
        200: {
            "content": event_stream(
                "ChatEvent",
                "The frames of the chat with the same numbers, from the one after `Last-Event-ID` on. A run that lost "
                "its gateway ends in an `error` with the reason `RUN_LOST` and the number of the last event.",
                ui_message="UiMessagePart",
            )
        },
        204: {"description": "The run has ended and all frames were received: an `EventSource` stops."},
        **problems(404, 503),
    },
)
async def read_events(
    run_id: str,
    tenant: TenantDep,
    services: ServicesDep,
    last_event_id: Annotated[
        str, Header(alias="Last-Event-ID", description="The last frame received; absent: from the beginning.")
    ] = "",
    dialect: DialectName = None,
) -> Response:
    """Resumes one of the caller's chats on any gateway, if it had `grace_seconds`, `detach` or a key."""
    if last_event_id and not (
        last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) <= _MAX_DIGITS
    ):
        raise invalid_field("Last-Event-ID", "must be the `id` of a frame")
    after, run = int(last_event_id or 0), await services.run_store.find(tenant, _run_id(run_id))
    if dialect == "ui-message":
        return _resume(services, tenant, run, _ui_dialect(run))
    if after and run.ended and await _was_seen(services, tenant, run, after):
        return Response(status_code=204)
    return _resume(services, tenant, run, ResumedDialect(_shown(run), after))


@router.get(
    "/v1/chat/{chat_id}/stream",
    summary="Resume a chat (AI SDK)",
    response_class=Response,
    response_description="The message being written, from its beginning.",
    responses={
        200: {"content": event_stream("UiMessagePart", "The same frames as in `POST /v1/chat?dialect=ui-message`.")},
        204: {"description": "No message is being written."},
        **problems(503),
    },
)
async def read_message(chat_id: str, tenant: TenantDep, services: ServicesDep) -> Response:
    """Called by `reconnectToStream` of Vercel's AI SDK; its chat is a conversation."""
    conversation_id, _ = await services.chats.find_chat(tenant, chat_id)
    run = await services.run_store.find_running(tenant, conversation_id)
    return Response(status_code=204) if run is None else _resume(services, tenant, run, _ui_dialect(run))


@router.post("/v1/chat/{run_id}/cancel", summary="Stop a chat", status_code=202, responses=problems(404, 503))
async def cancel(run_id: str, tenant: TenantDep, services: ServicesDep) -> RunCancelled:
    """Stops one of the caller's chats on any gateway; what was written so far is stored."""
    known = _run_id(run_id)
    return RunCancelled.model_validate({"run_id": str(known), "state": await services.live_runs.cancel(tenant, known)})


def _resume(services: Services, tenant: Tenant, run: StoredRun, dialect: StreamDialect[Event]) -> EventStream[Event]:
    return EventStream(
        lambda _: services.runs.events(tenant, run.run_id),
        dialect=dialect,
        tenant=tenant,
        rules=services.stream_rules,
        more_headers={"citewire-run": str(run.run_id)},
        at_once=True,
    )


async def _was_seen(services: Services, tenant: Tenant, run: StoredRun, after: int) -> bool:
    """Whether a run that has ended has nothing after a frame."""
    dialect = ResumedDialect(_shown(run), after)
    try:
        async for event in services.runs.events(tenant, run.run_id):
            if dialect.encode(event):
                return False
    except CitewireError as error:
        return not dialect.failed(error)
    return True


def _ui_dialect(run: StoredRun) -> UiMessageDialect:
    return UiMessageDialect(_shown(run), f"msg_{run.request_id}")


def _shown(run: StoredRun) -> frozenset[EventType]:
    return frozenset(EventType(name) for name in run.shown)


def _run_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as exc:
        raise no_such_run(text) from exc
