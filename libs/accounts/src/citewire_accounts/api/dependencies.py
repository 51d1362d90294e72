"""Dependencies that give routes the caller. The application keeps its services in `app.state.services`.

All are coroutines, even those that never wait: FastAPI runs plain functions in a thread. Those of every request get the
services themselves, because FastAPI walks through dependencies of dependencies again each time.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Any

from citewire.retriever.v1.corpus_pb2 import GetStorageResponse
from fastapi import Depends, Request
from fastapi.routing import APIRoute

from citewire_accounts.api.scopes import check_scope, scope_for
from citewire_accounts.people.authenticator import Authenticator
from citewire_accounts.people.cookies import SESSION_COOKIE, may_use_session
from citewire_accounts.people.sign_in import SignIn
from citewire_accounts.tenants.accounts import AccountStore
from citewire_accounts.tenants.audit import AuditReader
from citewire_accounts.tenants.erasures import Erasures
from citewire_accounts.tenants.exports import UserExports
from citewire_accounts.tenants.feedback import FeedbackStore
from citewire_accounts.tenants.groups import GroupStore
from citewire_accounts.tenants.identity import Caller, IdentityStore
from citewire_accounts.tenants.limits import LimitSettingStore
from citewire_accounts.tenants.members import MemberStore
from citewire_accounts.tenants.operators import Operator, OperatorStore
from citewire_accounts.tenants.provider_service import TenantProviders
from citewire_accounts.tenants.retention import Retention
from citewire_http.addresses import site_of
from citewire_http.api.parameters import check_parameters
from citewire_http.middleware import add_headers
from citewire_http.supervision import StreamRules
from citewire_kit.audit import current_record
from citewire_kit.audit_events import OPERATOR, OPERATORS
from citewire_kit.errors import PermissionDenied
from citewire_kit.limiter import Limiter
from citewire_kit.plan_limits import Measure, PlanLimits
from citewire_kit.tenant import Tenant, use_tenant


@dataclass(frozen=True, slots=True)
class AccountServices:
    """The services that accounts routes may need. An application subclasses it to add its own."""

    audit: AuditReader
    authenticator: Authenticator
    identity: IdentityStore
    members: MemberStore
    operators: OperatorStore
    groups: GroupStore
    sign_in: SignIn | None
    other_origins: Collection[str]
    """Other origins, besides our own, whose pages may use a session."""
    limiter: Limiter
    own_limits: LimitSettingStore
    plan_limits: PlanLimits
    erasures: Erasures
    exports: UserExports
    feedback: FeedbackStore
    retention: Retention
    accounts: AccountStore
    providers: TenantProviders
    stream_rules: StreamRules
    stored_bytes: Callable[[], Awaitable[GetStorageResponse]]
    """The bytes that the caller and the organisation store, and their limits."""


async def get_accounts(request: Request) -> AccountServices:
    """Returns the services that the application built."""
    state: Any = request.app.state
    services = state.services
    if not isinstance(services, AccountServices):
        raise TypeError("the application has no services")
    return services


AccountsDep = Annotated[AccountServices, Depends(get_accounts)]


async def find_caller(request: Request) -> Caller:
    """Finds who sent the request.

    Raises:
        Unauthenticated: There is no valid key, token or session.
        PermissionDenied: It uses a session but comes from a page of another origin (reason `CROSS_SITE`); or it has an
            operator's key, whose holder isn't a member.
        ResourceExhausted: The client's address sent too many wrong keys.
    """
    services, site, authorization = await get_accounts(request), site_of_request(request), _authorization(request)
    if services.authenticator.is_operator(authorization):
        note_operator(await services.authenticator.operator_of(authorization, site))
        raise PermissionDenied(
            "an operator's key is for /v1/operator only: operators don't belong to an organisation",
            reason="PERMISSION_DENIED",
        )
    if authorization is None and services.sign_in is not None and (cookie := session_cookie(request)):
        check_own_page(request, services)
        caller = await services.authenticator.caller_of_session(cookie, site)
    else:
        caller = await services.authenticator.caller_of(authorization, site)
    note_caller(caller.tenant)
    return caller


def _authorization(request: Request) -> str | None:
    """The caller's credentials: the standard header, or a key in the header of Anthropic's clients."""
    key = request.headers.get("x-api-key")
    return request.headers.get("authorization") or (None if key is None else f"Bearer {key}")


def note_caller(tenant: Tenant) -> None:
    """Records the caller of the request in the audit trail."""
    if (record := current_record()) is not None:
        record.tenant = tenant


def note_operator(operator: Operator) -> None:
    """Records the caller of the request in the operators' own audit trail."""
    if (record := current_record()) is not None:
        record.tenant, record.issuer = Tenant(OPERATORS, "", "free", key_id=operator.key_id), OPERATOR


def site_of_request(request: Request) -> str:
    """Returns the address that a request comes from, under which wrong keys are counted."""
    return site_of(request.client.host) if request.client is not None else ""


def session_cookie(request: Request) -> str:
    """Returns the session's cookie, or ""."""
    return request.cookies.get(SESSION_COOKIE, "")


def check_own_page(request: Request, services: AccountServices) -> None:
    """Rejects a request that uses a session but comes from a page of another origin.

    Raises:
        PermissionDenied: Reason `CROSS_SITE`.
    """
    headers = (request.headers.get(name, "") for name in ("origin", "sec-fetch-site", "sec-fetch-mode"))
    origin, site, mode = headers
    own = services.sign_in.origin if services.sign_in is not None else ""
    if not may_use_session(
        request.method, origin=origin, site=site, mode=mode, own_origin=own, allowed=services.other_origins
    ):
        raise PermissionDenied(
            f"with a session, only pages of {own} may do this; other clients send an API key or a token",
            reason="CROSS_SITE",
        )


CallerDep = Annotated[Caller, Depends(find_caller)]


async def authenticate(request: Request, caller: CallerDep) -> AsyncGenerator[Tenant, None]:
    """Makes the caller the tenant of all calls until the response is sent.

    Raises:
        ResourceExhausted: The caller sends too many requests.
        PermissionDenied: The key lacks the scope that the route needs.
        InvalidArgument: The URL has a parameter that the route doesn't know.
    """
    services, tenant = await get_accounts(request), caller.limited()
    add_headers(request.scope, (await services.limiter.take(tenant, Measure.REQUESTS)).headers())
    route: APIRoute = request.scope["route"]
    check_scope(caller, scope_for(request.method, route.tags))
    await check_parameters(request)
    with use_tenant(tenant):
        yield tenant


TenantDep = Annotated[Tenant, Depends(authenticate)]


def require_admin(tenant: Tenant) -> None:
    """Rejects callers who aren't owners or admins of the organisation.

    Raises:
        PermissionDenied: Reason `PERMISSION_DENIED`.
    """
    if not is_admin(tenant):
        raise PermissionDenied("only owners and admins of the organisation may do this", reason="PERMISSION_DENIED")


def is_admin(tenant: Tenant) -> bool:
    """Whether the caller is an owner or admin of the organisation."""
    return tenant.is_at_least("admin")
