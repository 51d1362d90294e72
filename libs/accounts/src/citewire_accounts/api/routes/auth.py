"""`/v1/auth`: sign-in with a browser at an identity provider, and sign-out."""

import base64
import binascii
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from citewire_accounts.api.dependencies import (
    AccountsDep,
    AccountServices,
    CallerDep,
    TenantDep,
    check_own_page,
    note_caller,
    session_cookie,
    site_of_request,
)
from citewire_accounts.api.schemas.auth import CallerInfo, SignedOut
from citewire_accounts.people.cookies import PENDING_COOKIE, SESSION_COOKIE, set_cookie
from citewire_accounts.people.sign_in import CALLBACK, SIGN_IN_SECONDS, SignIn
from citewire_http.api.openapi import problems
from citewire_http.api.parameters import Clean, check_parameters
from citewire_http.departures import CancellingRoute
from citewire_kit.errors import CitewireError, NotFound, Unauthenticated

router = APIRouter(route_class=CancellingRoute, tags=["auth"])

_NO_STORE = {"Cache-Control": "no-store"}
_KNOWN_PARAMETERS = [Depends(check_parameters)]
_REDIRECT = {303: {"description": "A redirect in `Location`, with a cookie."}}
OfIssuer = Annotated[
    str | None, Query(max_length=32, description="The identity provider; required if there are several."), Clean
]
ReturnTo = Annotated[str, Query(max_length=2000, description="Path on this server to redirect to afterwards."), Clean]


@router.get(
    "/v1/auth/login",
    summary="Sign in",
    dependencies=_KNOWN_PARAMETERS,
    status_code=303,
    response_class=Response,
    responses={**_REDIRECT, **problems(404, 422, 503)},
)
async def sign_in(services: AccountsDep, issuer: OfIssuer = None, return_to: ReturnTo = "/v1/auth/session") -> Response:
    """Redirects the browser to the identity provider, which returns it to `/v1/auth/callback`, and then to `return_to`.

    If there are several providers, one that doesn't identify itself in its responses (RFC 9207) returns it to
    `/v1/auth/callback/{issuer}`.
    """
    departure = await _sign_in(services).begin(issuer, return_to)
    pending = base64.urlsafe_b64encode(departure.pending).decode()
    return _redirect(departure.url, set_cookie(PENDING_COOKIE, pending, SIGN_IN_SECONDS))


@router.get(
    CALLBACK,
    summary="Return from the identity provider",
    status_code=303,
    response_class=Response,
    responses={**_REDIRECT, **problems(401, 403, 404, 429, 503)},
)
async def come_back(request: Request, services: AccountsDep) -> Response:
    """Starts a session with the identity provider's response, and redirects the browser to `return_to`."""
    site, sign_in = site_of_request(request), _sign_in(services)
    services.authenticator.check_site(site)
    try:
        answer = dict(request.query_params)
        arrival = await sign_in.finish(_pending(request), request.url.path, answer, session_cookie(request))
    except CitewireError as exc:
        if isinstance(exc, Unauthenticated):
            services.authenticator.note_failure(site)
        raise
    note_caller(arrival.tenant)
    cookies = (set_cookie(SESSION_COOKIE, arrival.cookie, sign_in.seconds), set_cookie(PENDING_COOKIE, "", 0))
    return _redirect(arrival.return_to, *cookies)


@router.get(
    CALLBACK + "/{issuer}",
    summary="Return from an identity provider with its own path",
    status_code=303,
    response_class=Response,
    responses={**_REDIRECT, **problems(401, 403, 404, 429, 503)},
)
async def come_back_from(issuer: str, request: Request, services: AccountsDep) -> Response:
    """Does the same for a provider that doesn't identify itself in its responses, if there are several providers."""
    return await come_back(request, services)


@router.get("/v1/auth/session", summary="Show the caller")
async def get_session(_tenant: TenantDep, caller: CallerDep) -> CallerInfo:
    """Returns the caller that the session, key or token identifies."""
    return CallerInfo.of(caller)


@router.post(
    "/v1/auth/refresh",
    summary="Refresh the session",
    dependencies=_KNOWN_PARAMETERS,
    responses=problems(401, 403, 429, 503),
)
async def refresh_session(request: Request, services: AccountsDep, response: Response) -> CallerInfo:
    """Updates the user from the identity provider, unless that was done in the last five seconds.

    The session then has a new cookie. Once that has been used, the previous one works for another 15 seconds, for
    requests in progress; using it later ends the session. The gateway also updates by itself within 30 seconds of use.
    A page that is about to open a stream learns here whether it must sign in again, before it sends the question.
    """
    check_own_page(request, services)
    cookie = session_cookie(request)
    caller = await services.authenticator.caller_of_session(cookie, site_of_request(request), renew=True)
    note_caller(caller.tenant)
    sign_in = _sign_in(services)
    new = await sign_in.replace(cookie)
    if new is not None and caller.expires_at is not None:
        seconds = (caller.expires_at - datetime.now(UTC)).total_seconds()
        response.headers["Set-Cookie"] = set_cookie(SESSION_COOKIE, new, seconds)
    response.headers.update(_NO_STORE)
    return CallerInfo.of(caller)


@router.post("/v1/auth/logout", summary="Sign out", dependencies=_KNOWN_PARAMETERS, responses=problems(403, 404))
async def sign_out(request: Request, services: AccountsDep, response: Response) -> SignedOut:
    """Ends the session immediately, and revokes its tokens at the identity provider."""
    check_own_page(request, services)
    tenant, url = await _sign_in(services).end(session_cookie(request))
    if tenant is not None:
        note_caller(tenant)
    response.headers["Set-Cookie"] = set_cookie(SESSION_COOKIE, "", 0)
    response.headers.update(_NO_STORE)
    return SignedOut(end_session_url=url)


def _sign_in(services: AccountServices) -> SignIn:
    if services.sign_in is None:
        raise NotFound("sign-in is not available: this server has no identity provider", reason="ROUTE_NOT_FOUND")
    return services.sign_in


def _pending(request: Request) -> bytes:
    try:
        return base64.b64decode(request.cookies.get(PENDING_COOKIE, ""), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return b""


def _redirect(url: str, *cookies: str) -> Response:
    response = Response(status_code=303, headers={"Location": url, **_NO_STORE})
    for cookie in cookies:
        response.headers.append("Set-Cookie", cookie)
    return response
