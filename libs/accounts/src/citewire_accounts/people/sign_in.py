"""Signing in and out with a browser, and refreshing sessions at the provider."""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import urlencode

from citewire_accounts.people.claims import Claims, read_person
from citewire_accounts.people.provider import Grant, Metadata, Provider, RejectedGrantError
from citewire_accounts.people.sealer import Sealer
from citewire_accounts.people.sessions import LEASE, Session, SessionStore
from citewire_kit.errors import CitewireError, NotFound, Unauthenticated, Unavailable, invalid_field
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant

CALLBACK: Final = "/v1/auth/callback"
SIGN_IN_SECONDS: Final = 600.0
"""Most seconds on the provider's pages."""

FRESH: Final = timedelta(seconds=30)
"""How long groups and roles are valid without querying the provider."""

_EARLY_SECONDS: Final = 10.0
"""Seconds before their expiry at which a request refreshes them; others continue meanwhile."""

_SPARE_SECONDS: Final = 5.0
"""Least seconds between refreshes requested by clients."""

_MAX_RETURN_CHARS: Final = 2000
_POLL_SECONDS: Final = 0.05
_TOKENS: Final = "tokens"
_PENDING: Final = "sign-in"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Departure:
    """The sign-in URL for the browser, and the data that it keeps meanwhile."""

    url: str
    pending: bytes
    """Sealed: state, nonce, verifier, the issuer with the path to come back to, and where to return to."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A new session."""

    tenant: Tenant
    cookie: str
    return_to: str


class SignIn:
    """The sign-in of all providers that have a client."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        store: SessionStore,
        sealer: Sealer,
        *,
        public_url: str,
        lifetime: timedelta,
    ) -> None:
        self._providers = {name: provider for name, provider in providers.items() if provider.issuer.client_id}
        self._store = store
        self._sealer = sealer
        self._public_url = public_url.rstrip("/")
        self._lifetime = lifetime
        self._renewals: set[asyncio.Task[None]] = set()

    @property
    def seconds(self) -> float:
        """The longest duration of a session."""
        return self._lifetime.total_seconds()

    @property
    def origin(self) -> str:
        """The gateway's origin for browsers."""
        return self._public_url

    async def begin(self, name: str | None, return_to: str) -> Departure:
        """Sends a browser to a provider.

        Raises:
            NotFound: There is no such provider, or none that people sign in at.
            InvalidArgument: It isn't said which, or the page to return to isn't one of this server.
            Unavailable: The provider can't be asked.
        """
        if not _is_own_path(return_to):
            raise invalid_field("return_to", "must be a path of this server, such as /docs")
        provider = self._choose(name)
        metadata = await provider.metadata()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        issuer = provider.issuer
        parameters = {
            "response_type": "code",
            "client_id": issuer.client_id,
            "redirect_uri": self._public_url + (callback := self._callback(provider, metadata)),
            "scope": issuer.request_scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        if "offline_access" in issuer.request_scopes.split():
            parameters["prompt"] = "consent"  # without it, a provider may give no refresh token (OpenID Core 11)
        pending = {"state": state, "nonce": nonce, "verifier": verifier, "return_to": return_to, "issuer": issuer.name}
        pending["callback"] = callback
        url = metadata.authorization_endpoint
        url += ("&" if "?" in url else "?") + urlencode(parameters)
        return Departure(url, self._sealer.seal(pending, _PENDING, SIGN_IN_SECONDS))

    async def finish(self, pending: bytes, callback: str, answer: Mapping[str, str], cookie: str) -> Arrival:
        """Begins a session from the provider's response to a sign-in.

        Args:
            pending: What `begin` gave the browser.
            callback: The path that the browser came back to.
            answer: The parameters of the callback.
            cookie: Of the session that the browser had, which ends; "" without one.

        Raises:
            Unauthenticated: Reason `SIGN_IN_FAILED`: it belongs to no sign-in of this browser, or the provider refused.
            PermissionDenied: Reason `CLAIM_INVALID`: the claims name no organisation or user, or too many groups.
            Unavailable: The provider can't be asked.
        """
        begun = self._sealer.open(pending, _PENDING)
        if begun is None or not secrets.compare_digest(begun["state"].encode(), answer.get("state", "").encode()):
            raise _failed("this browser didn't begin this sign-in, or took too long: begin again at /v1/auth/login")
        provider = self._choose(begun["issuer"])
        metadata = await provider.metadata()
        named = answer.get("iss", "" if metadata.names_issuer else provider.issuer.issuer)
        if named != provider.issuer.issuer or callback != begun.get(
            "callback", CALLBACK
        ):  # none: the version before began
            raise _failed("the response is from a different identity provider than the one asked")
        if "code" not in answer:
            log.info("sign_in_refused", issuer=provider.issuer.name, error=answer.get("error", "")[:100])
            raise _failed("the identity provider didn't sign you in: begin again at /v1/auth/login")
        try:
            grant = await provider.exchange(answer["code"], begun["verifier"], self._public_url + callback)
        except RejectedGrantError as exc:
            raise _failed("the identity provider didn't accept the code: begin again at /v1/auth/login") from exc
        if not grant.refresh_token:
            raise _failed(
                "the identity provider returned no refresh token: allow the client the scope offline_access there"
            )
        claims = await _verified(provider, grant.id_token, nonce=begun["nonce"])
        claims = await _completed(provider, claims, grant)
        person = read_person(provider.issuer, claims)
        tokens = self._sealed(grant, str(claims["sub"]))
        new = await self._store.add(person, provider.issuer, tokens, FRESH, self._lifetime)
        if cookie and (before := await self._store.find(cookie)) is not None:
            await self._store.delete(before)
        return Arrival((await self._find(new)).tenant, new, begun["return_to"])

    async def session_of(self, cookie: str, *, renew: bool = False) -> Session:
        """Returns the session of a cookie, with groups and roles that the provider named within `FRESH`.

        Args:
            cookie: The cookie.
            renew: Ask the provider also while they are fresh.

        Raises:
            Unauthenticated: Reason `SESSION_EXPIRED`: it is over, or the provider doesn't let the user in any more.
            Unavailable: The provider can't be asked, and what it said is too old.
        """
        session = await self._find(cookie)
        if session.fresh_seconds < (FRESH.total_seconds() - _SPARE_SECONDS if renew else _EARLY_SECONDS):
            await self._renew(session)
            session = await self._find(cookie)
        end = asyncio.get_running_loop().time() + LEASE.total_seconds()
        while session.fresh_seconds < 0:  # another request asks the provider
            if asyncio.get_running_loop().time() > end:
                raise Unavailable(
                    "the identity provider took too long to respond", reason="SERVICE_UNAVAILABLE", retry_after=5
                )
            await asyncio.sleep(_POLL_SECONDS)
            await self._renew(session)
            session = await self._find(cookie)
        return session

    async def replace(self, cookie: str) -> str | None:
        """Gives a cookie's session a new cookie, after which the present one works only for a short time.

        Returns:
            The new cookie; None if another request has just replaced it.

        Raises:
            Unauthenticated: Reason `SESSION_EXPIRED`.
        """
        return await self._store.replace(await self._find(cookie), cookie)

    async def end(self, cookie: str) -> tuple[Tenant | None, str | None]:
        """Ends a session here, and its tokens at the provider.

        Returns:
            Whose it was, None if it was over; and where the browser signs out of the provider, None where nowhere.
        """
        session = await self._store.find(cookie)
        return (None, None) if session is None else (session.tenant, await self._end(session))

    async def _end(self, session: Session) -> str | None:
        await self._store.delete(session)
        tokens = self._sealer.open(session.sealed_tokens, _TOKENS)
        provider = self._providers.get(session.issuer)
        if tokens is None or provider is None:
            return None
        try:
            await provider.revoke(tokens["refresh_token"])
            address = (await provider.metadata()).end_session_endpoint
        except CitewireError as exc:
            log.warning("sign_out_not_told", issuer=session.issuer, reason=exc.reason)
            return None
        if address is None:
            return None
        parameters = {"client_id": provider.issuer.client_id, "post_logout_redirect_uri": f"{self._public_url}/"}
        if tokens["id_token"]:
            parameters["id_token_hint"] = tokens["id_token"]
        return address + ("&" if "?" in address else "?") + urlencode(parameters)

    async def _find(self, cookie: str) -> Session:
        session = await self._store.find(cookie)
        if session is None or session.issuer not in self._providers:
            raise _expired()
        return session

    async def _renew(self, session: Session) -> None:
        """Refreshes the user at the provider, unless another request or gateway does."""
        leased = await self._store.lease(session)
        if leased is None:
            return
        sealed, fresh_seconds = leased
        if fresh_seconds > session.fresh_seconds:  # another one has refreshed it meanwhile
            await self._store.release(session)
            return
        # If the client disconnects, a refresh token that the provider has already replaced must not be lost.
        renewal = asyncio.create_task(self._ask(session, sealed))
        self._renewals.add(renewal)
        renewal.add_done_callback(self._renewals.discard)
        await asyncio.shield(renewal)

    async def _ask(self, session: Session, sealed: bytes) -> None:
        try:
            await self._update(session, sealed)
        except RejectedGrantError as exc:
            await self._store.delete(session)
            raise _expired() from exc
        except CitewireError:
            await self._store.release(session)
            raise

    async def _update(self, session: Session, sealed: bytes) -> None:
        tokens = self._sealer.open(sealed, _TOKENS)
        if tokens is None:  # the session secret was replaced
            raise RejectedGrantError
        provider = self._providers[session.issuer]
        grant = await provider.refresh(tokens["refresh_token"])
        # A provider may keep the refresh token, and need not send an ID token again (OpenID Core 12.2).
        grant = Grant(
            grant.id_token or tokens["id_token"], grant.access_token, grant.refresh_token or tokens["refresh_token"]
        )
        claims: Claims = {"sub": tokens["sub"]}
        if grant.id_token != tokens["id_token"]:
            claims = await _verified(provider, grant.id_token, nonce=None)
        claims = await _completed(provider, claims, grant)
        if claims["sub"] != tokens["sub"]:
            raise RejectedGrantError
        person = read_person(provider.issuer, claims)
        if (person.org_id, person.user_id) != (session.tenant.org_id, session.tenant.user_id):
            raise RejectedGrantError  # somebody else now: sign in again
        await self._store.renew(session, person, provider.issuer, self._sealed(grant, tokens["sub"]), FRESH)

    def _sealed(self, grant: Grant, subject: str) -> bytes:
        tokens = {"refresh_token": grant.refresh_token, "id_token": grant.id_token, "sub": subject}
        return self._sealer.seal(tokens, _TOKENS, self._lifetime.total_seconds() + LEASE.total_seconds())

    def _callback(self, provider: Provider, metadata: Metadata) -> str:
        """The redirect URL of a provider.

        Among several, one whose answers don't name it (RFC 9207) has a path of its own: else one of the others could
        have it make a code that we would hand to that other (RFC 9700 section 4.4.2.2).
        """
        alone = metadata.names_issuer or len(self._providers) == 1
        return CALLBACK if alone else f"{CALLBACK}/{provider.issuer.name}"

    def _choose(self, name: str | None) -> Provider:
        if not self._providers:
            raise NotFound("sign-in is not available: this server has no identity provider", reason="ROUTE_NOT_FOUND")
        if name is None and len(self._providers) > 1:
            raise invalid_field("issuer", f"must name one of: {', '.join(self._providers)}")
        provider = self._providers.get(name or next(iter(self._providers)))
        if provider is None:
            raise invalid_field("issuer", f"must be one of: {', '.join(self._providers)}")
        return provider


async def _verified(provider: Provider, id_token: str, *, nonce: str | None) -> Claims:
    try:
        return await provider.verify(id_token, provider.issuer.client_id, id_token=True, nonce=nonce)
    except Unauthenticated as exc:
        log.warning("identity_provider_token_invalid", issuer=provider.issuer.name, error=exc.message)
        raise _failed("the identity provider's answer can't be verified") from exc


async def _completed(provider: Provider, claims: Claims, grant: Grant) -> Claims:
    """Adds claims from the userinfo endpoint, if they are of the same user."""
    issuer = provider.issuer
    needed = {issuer.org_claim, issuer.user_claim, issuer.groups_claim, issuer.roles_claim, issuer.plan_claim} - {""}
    if {name.partition(".")[0] for name in needed} <= claims.keys() or needed <= claims.keys():
        return claims
    more = await provider.userinfo(grant.access_token)
    return {**more, **claims} if more.get("sub") == claims["sub"] else claims


def _is_own_path(path: str) -> bool:
    """Whether a redirect there stays on this server: two slashes of either kind lead elsewhere."""
    return (
        path.startswith("/")
        and not path.startswith(("//", "/\\"))
        and len(path) <= _MAX_RETURN_CHARS
        and path.isascii()
        and path.isprintable()
        and "\\" not in path
    )


def _failed(message: str) -> Unauthenticated:
    return Unauthenticated(message, reason="SIGN_IN_FAILED")


def _expired() -> Unauthenticated:
    return Unauthenticated("the session has ended: sign in again at /v1/auth/login", reason="SESSION_EXPIRED")
