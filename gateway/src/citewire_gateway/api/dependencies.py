"""Dependencies of the routes: the services, who calls, and parameters that several share.

All are coroutines, also those that wait for nothing: FastAPI runs plain functions in a thread.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import AfterValidator

from citewire_accounts.people.authenticator import Authenticator
from citewire_accounts.people.cookies import SESSION_COOKIE, may_use_session
from citewire_accounts.people.sign_in import SignIn
from citewire_accounts.tenants.accounts import AccountStore
from citewire_accounts.tenants.audit import AuditReader
from citewire_accounts.tenants.identity import Caller, IdentityStore
from citewire_accounts.tenants.members import MemberStore
from citewire_accounts.tenants.provider_service import TenantProviders
from citewire_accounts.tenants.retention import Retention
from citewire_gateway.api.schemas import MAX_ID
from citewire_gateway.api.scopes import check_scope, scope_for
from citewire_gateway.api.upload_places import UploadPlaces
from citewire_gateway.chat.erasing import QuoteEraser
from citewire_gateway.chat.erasures import Erasures
from citewire_gateway.chat.pipeline import ChatPipeline
from citewire_gateway.chat.reading import ConversationReader
from citewire_gateway.chat.store import ChatStore
from citewire_gateway.clients.embedder import Embedder
from citewire_gateway.clients.generator import Generator
from citewire_gateway.clients.health import Health
from citewire_gateway.clients.retriever import CorpusClient, Retriever
from citewire_gateway.profiles.store import Profiles
from citewire_gateway.settings import GatewaySettings
from citewire_http.bodies import unstorable
from citewire_http.connections import site_of
from citewire_http.idempotency import IdempotencyStore
from citewire_http.middleware import add_headers
from citewire_http.server import Drain, StreamRules
from citewire_kit.audit import AuditTrail, current_record
from citewire_kit.errors import PermissionDenied, Violations, invalid_field
from citewire_kit.limiter import Limiter
from citewire_kit.plan_limits import Measure
from citewire_kit.tenant import Tenant, use_tenant

MAX_KEY = 255


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a request may need; built once by `app`."""

    settings: GatewaySettings
    trail: AuditTrail
    audit: AuditReader
    authenticator: Authenticator
    identity: IdentityStore
    members: MemberStore
    sign_in: SignIn | None
    limiter: Limiter
    chats: ChatStore
    reader: ConversationReader
    eraser: QuoteEraser
    erasures: Erasures
    retention: Retention
    accounts: AccountStore
    idempotency: IdempotencyStore
    providers: TenantProviders
    profiles: Profiles
    pipeline: ChatPipeline
    embedder: Embedder
    retriever: Retriever
    generator: Generator
    corpus: CorpusClient
    health: Health
    drain: Drain
    stream_rules: StreamRules
    uploads: UploadPlaces


async def get_services(request: Request) -> Services:
    """Returns what `app` built."""
    state: Any = request.app.state
    services = state.services
    if not isinstance(services, Services):
        raise TypeError("the application has no services")
    return services


ServicesDep = Annotated[Services, Depends(get_services)]


async def find_caller(request: Request, services: ServicesDep) -> Caller:
    """Finds who sent the request.

    Raises:
        Unauthenticated: There is no valid key, token or session.
        PermissionDenied: It has a session, and is sent by a page of another origin (reason `CROSS_SITE`).
        ResourceExhausted: The address sent too many wrong keys.
    """
    site, authorization = site_of_request(request), request.headers.get("authorization")
    if authorization is None and services.sign_in is not None and (cookie := session_cookie(request)):
        check_own_page(request, services)
        caller = await services.authenticator.caller_of_session(cookie, site)
    else:
        caller = await services.authenticator.caller_of(authorization, site)
    note_caller(caller.tenant)
    return caller


def note_caller(tenant: Tenant) -> None:
    """Says in the audit trail whose request this is."""
    if (record := current_record()) is not None:
        record.tenant = tenant


def site_of_request(request: Request) -> str:
    """Returns where a request comes from, as wrong keys are counted."""
    return site_of(request.client.host) if request.client is not None else ""


def session_cookie(request: Request) -> str:
    """Returns the session's cookie, or ""."""
    return request.cookies.get(SESSION_COOKIE, "")


def check_own_page(request: Request, services: Services) -> None:
    """Refuses a request with a session that a page of another origin sent.

    Raises:
        PermissionDenied: Reason `CROSS_SITE`.
    """
    settings = services.settings
    headers = (request.headers.get(name, "") for name in ("origin", "sec-fetch-site", "sec-fetch-mode"))
    origin, site, mode = headers
    own = services.sign_in.origin if services.sign_in is not None else ""
    allowed = settings.allowed_origins() if settings.cors_credentials else ()
    if not may_use_session(request.method, origin=origin, site=site, mode=mode, own_origin=own, allowed=allowed):
        raise PermissionDenied(
            f"with a session, only pages of {own} may do this; other clients send an API key or a token",
            reason="CROSS_SITE",
        )


CallerDep = Annotated[Caller, Depends(find_caller)]


async def authenticate(request: Request, services: ServicesDep, caller: CallerDep) -> AsyncGenerator[Tenant, None]:
    """Makes the caller the tenant of every call until the response is sent.

    Raises:
        ResourceExhausted: The caller sends too many requests.
        PermissionDenied: The key hasn't the scope that the route needs.
        InvalidArgument: The address has a parameter that the route doesn't know.
    """
    tenant = caller.limited()
    add_headers(request.scope, (await services.limiter.take(tenant, Measure.REQUESTS)).headers())
    route: APIRoute = request.scope["route"]
    check_scope(caller, scope_for(request.method, route.tags))
    await check_parameters(request)
    with use_tenant(tenant):
        yield tenant


async def check_parameters(request: Request) -> None:
    """Refuses parameters of the address that the route doesn't know or that come twice: neither would have an effect.

    Raises:
        InvalidArgument: Each is named.
    """
    if not request.query_params:
        return
    route: APIRoute = request.scope["route"]
    known, wrong = sorted(_query_names(route.dependant)), Violations()
    for name, count in Counter(name for name, _ in request.query_params.multi_items()).items():
        if wrong.require(name in known, name[:64], _unknown_parameter(known)):
            wrong.require(count == 1, name, "is there more than once")
    wrong.raise_if_any()


def _query_names(dependant: Dependant) -> set[str]:
    """The parameters that a route and its dependencies read."""
    names = {field.alias for field in dependant.query_params}
    return names.union(*(_query_names(inner) for inner in dependant.dependencies))


def _unknown_parameter(known: Sequence[str]) -> str:
    takes = f"it takes {', '.join(known)}" if known else "it takes none"
    return f"is not a parameter of this request: {takes}"


TenantDep = Annotated[Tenant, Depends(authenticate)]


def require_admin(tenant: Tenant) -> None:
    """Refuses who isn't an owner or admin of the organisation.

    Raises:
        PermissionDenied: Reason `PERMISSION_DENIED`.
    """
    if not is_admin(tenant):
        raise PermissionDenied("only owners and admins of the organisation may do this", reason="PERMISSION_DENIED")


def is_admin(tenant: Tenant) -> bool:
    """Says whether the caller is an owner or admin of the organisation."""
    return tenant.is_at_least("admin")


async def idempotency_key(
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="The same key with the same request is done once and answered the same, for 24 hours; with "
            "another request it is a 409.",
            json_schema_extra={"maxLength": MAX_KEY},
        ),
    ] = None,
) -> str | None:
    """Returns the request's Idempotency-Key, or None.

    Raises:
        InvalidArgument: It isn't 1-255 printable characters.
    """
    if key is not None and not (0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
        raise invalid_field("Idempotency-Key", f"must be 1-{MAX_KEY} printable ASCII characters")
    return key


IdempotencyDep = Annotated[str | None, Depends(idempotency_key)]


def read_id(text: str) -> int | None:
    """Reads the id of a document or chunk; None if it can't be one."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 16 else 0
    return number if 1 <= number <= MAX_ID else None


def _check_text(text: str) -> str:
    wrong = unstorable(text)
    if wrong is not None:
        raise ValueError(wrong)
    return text


Clean = AfterValidator(_check_text)
PageSize = Annotated[int | None, Query(ge=0, le=1000, description="How many a page; absent or 0 means the default.")]
PageToken = Annotated[str | None, Query(max_length=1000, description="`next_page_token` of the page before."), Clean]
SearchText = Annotated[
    str | None,
    Query(min_length=1, max_length=200, description="Only those that contain this, in any case."),
    Clean,
]
