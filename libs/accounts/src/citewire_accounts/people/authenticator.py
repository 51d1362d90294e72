"""Authentication of requests by API keys, identity providers' tokens, and browser sessions."""

import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar

from cachetools import TTLCache

from citewire_accounts.people.claims import read_person
from citewire_accounts.people.provider import Provider, issuer_of
from citewire_accounts.people.sessions import SessionStore, disabled, suspended
from citewire_accounts.people.sign_in import FRESH, SignIn
from citewire_accounts.tenants.failed_keys import FailedKeys
from citewire_accounts.tenants.identity import Caller, IdentityStore, KeyOwner, KeyState, hash_key, is_key
from citewire_accounts.tenants.operators import Operator, OperatorMatch, OperatorStore, is_operator_key
from citewire_kit.arrivals import overloaded
from citewire_kit.errors import CitewireError, PermissionDenied, Unauthenticated
from citewire_kit.fair import FairShares
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import LOCAL_TENANT

log = get_logger(__name__)

_MAX_NOTED = 10_000
_KNOWN_SECONDS = 600.0
_LOOKUPS = 4  # at once; a lookup is a millisecond of one connection
_LAST_TIME = 32_503_680_000  # the year 3000: a token may name any number
_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_REFUSALS: Mapping[KeyState, tuple[str, str]] = {
    "revoked": ("the API key was revoked", "API_KEY_REVOKED"),
    "expired": ("the API key has expired: make a new one", "API_KEY_EXPIRED"),
    "rotated": ("the API key was rotated: use the one that took its place", "API_KEY_EXPIRED"),
}

M = TypeVar("M", KeyOwner, OperatorMatch)
M_co = TypeVar("M_co", bound=KeyOwner | OperatorMatch, covariant=True)


class _KeyStore(Protocol[M_co]):
    """Looks up keys by hash."""

    async def find(self, key_hash: bytes) -> M_co | None: ...
    async def touch(self, used: Mapping[bytes, datetime]) -> None: ...


class _Keys(Generic[M]):
    """Keys of one kind, and their uses since the last write."""

    def __init__(self, store: _KeyStore[M]) -> None:
        self.store = store
        self._used: dict[bytes, datetime] = {}

    def note_use(self, hashed: bytes) -> None:
        """Records a key's use in memory."""
        if len(self._used) < _MAX_NOTED or hashed in self._used:
            self._used[hashed] = datetime.now(UTC)

    async def flush(self) -> None:
        """Writes recorded uses; if that fails, they are kept for the next time."""
        used, self._used = self._used, {}
        try:
            if used:
                await self.store.touch(used)
        except CitewireError as exc:
            self._used = {**used, **self._used}
            log.warning("key_usage_not_written", keys=len(used), reason=exc.reason)


class Authenticator:
    """Finds the tenant of a request.

    Every request looks its key up, so a revocation counts from the next request on, on every gateway. When a key was
    last used is noted in memory and written now and then by `flush`: a read doesn't become a write.
    """

    def __init__(
        self,
        store: IdentityStore,
        operators: OperatorStore,
        *,
        off: bool,
        sessions: SessionStore | None = None,
        sign_in: SignIn | None = None,
        providers: Iterable[Provider] = (),
    ) -> None:
        self._keys = _Keys[KeyOwner](store)
        self._operators = _Keys[OperatorMatch](operators)
        self.off = off
        self._sessions = sessions
        self._sign_in = sign_in
        self._bearers = {provider.issuer.issuer: provider for provider in providers if provider.issuer.audience}
        self._verified = TTLCache[bytes, Caller](_MAX_NOTED, FRESH.total_seconds())
        self._failed = FailedKeys()
        self._known = TTLCache[bytes, bool](_MAX_NOTED, _KNOWN_SECONDS)
        self._turns = FairShares(_LOOKUPS, lambda _: overloaded())

    async def caller_of(self, authorization: str | None, site: str = "") -> Caller:
        """Returns the caller; with auth off that is always the local tenant, whatever the header says.

        Args:
            authorization: The header.
            site: Where the request comes from, as wrong keys are counted.

        Raises:
            Unauthenticated: Reason `API_KEY_MISSING`, `API_KEY_INVALID`, `API_KEY_REVOKED` or `API_KEY_EXPIRED`.
            PermissionDenied: The user is disabled (`USER_DISABLED`), or is in too many groups (`CLAIM_INVALID`).
            ResourceExhausted: Too many wrong keys came from there (`RATE_LIMITED`); keys that were valid lately may.
        """
        if self.off:
            return Caller(LOCAL_TENANT)
        token = _jwt_in(authorization) if self._bearers else None
        if token is not None:
            return await self._bearer_of(token, site)
        return (await self._match(self._keys, _key_in(authorization), site)).caller

    def is_operator(self, authorization: str | None) -> bool:
        """Whether a header has the form of an operator's key; there are none with auth off."""
        return not self.off and is_operator_key(_bearer_in(authorization))

    async def operator_of(self, authorization: str | None, site: str = "") -> Operator:
        """Returns the operator of the key in a header.

        Raises:
            Unauthenticated: Reason `API_KEY_INVALID`, `API_KEY_REVOKED` or `API_KEY_EXPIRED`.
            ResourceExhausted: Too many wrong keys came from there.
        """
        return (await self._match(self._operators, _bearer_in(authorization), site)).operator

    async def caller_of_session(self, cookie: str, site: str = "", *, renew: bool = False) -> Caller:
        """Returns the user signed in with this browser.

        Args:
            cookie: Its session's.
            site: Where the request comes from.
            renew: Whether to query the provider first.

        Raises:
            Unauthenticated: Reason `SESSION_EXPIRED`.
            Unavailable: The identity provider can't be asked.
            ResourceExhausted: Too many wrong cookies came from there.
        """
        if self._sign_in is None:
            raise Unauthenticated("this server has no sessions: send an API key", reason="API_KEY_MISSING")
        async with self._looking_up(hash_key(cookie), site):
            session = await self._sign_in.session_of(cookie, renew=renew)
        return Caller(session.tenant, expires_at=session.expires_at, kind="session")

    async def _match(self, keys: _Keys[M], key: str, site: str) -> M:
        """Returns a key's holder, and records its use."""
        hashed = hash_key(key)
        async with self._looking_up(hashed, site):
            match = await keys.store.find(hashed)
            if match is None or match.state != "active":
                raise _refused(match)
        keys.note_use(hashed)
        return match

    @asynccontextmanager
    async def _looking_up(self, hashed: bytes, site: str) -> AsyncGenerator[None]:
        """Looks up a secret, serialised per secret; a refused one counts against its address.

        A recently valid one is looked up even if its address sent too many wrong ones.
        """
        if hashed not in self._known:
            self._failed.check(site)
        try:
            async with self._turns.hold(hashed.hex()):  # concurrent requests with one secret wait for each other
                yield
        except (Unauthenticated, PermissionDenied):
            self._known.pop(hashed, None)
            self._failed.note(site)
            raise
        self._known[hashed] = True

    async def _bearer_of(self, token: str, site: str) -> Caller:
        """Verifies a JWT, caching the result for a while."""
        hashed = hash_key(token)
        caller = self._verified.get(hashed)
        if caller is not None and caller.expires_at is not None and caller.expires_at > datetime.now(UTC):
            return caller
        self._failed.check(site)
        try:
            provider = self._provider_of(token)
            async with self._turns.hold(hashed.hex()):
                claims = await provider.verify(token, provider.issuer.audience)
                person = read_person(provider.issuer, claims)
                if self._sessions is None:
                    raise RuntimeError("identity providers are configured without a store for their users")
                tenant = await self._sessions.make_known(person, provider.issuer)
        except Unauthenticated:
            self._failed.note(site)
            raise
        expires_at = datetime.fromtimestamp(min(claims["exp"], _LAST_TIME), UTC)
        caller = Caller(tenant, provider.issuer.bearer_scopes, expires_at, "token")
        self._verified[hashed] = caller
        return caller

    def _provider_of(self, token: str) -> Provider:
        provider = self._bearers.get(issuer_of(token))
        if provider is None:
            raise Unauthenticated("the token is of an issuer that isn't known here", reason="TOKEN_INVALID")
        return provider

    def check_site(self, site: str) -> None:
        """Refuses addresses with too many wrong keys, tokens or sign-ins (reason `RATE_LIMITED`)."""
        self._failed.check(site)

    def note_failure(self, site: str) -> None:
        """Counts a wrong sign-in as a wrong key."""
        self._failed.note(site)

    async def flush(self) -> None:
        """Writes when keys were last used. If that fails, it is kept for the next time."""
        await self._keys.flush()
        await self._operators.flush()


def _key_in(authorization: str | None) -> str:
    if not authorization:
        raise Unauthenticated(
            "this server needs an API key: send the header 'Authorization: Bearer cw_…'", reason="API_KEY_MISSING"
        )
    key = _bearer_in(authorization)
    if not is_key(key):
        raise Unauthenticated("the Authorization header must have the form 'Bearer cw_…'",
                              reason="API_KEY_INVALID")  # fmt: skip
    return key


def _jwt_in(authorization: str | None) -> str | None:
    """The token in an Authorization header, if it looks like one."""
    token = _bearer_in(authorization)
    return token if _JWT.fullmatch(token) else None


def _bearer_in(authorization: str | None) -> str:
    """The credentials of an Authorization header with the scheme Bearer; "" for any other."""
    scheme, _, text = (authorization or "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def _refused(match: KeyOwner | OperatorMatch | None) -> CitewireError:
    if isinstance(match, KeyOwner) and match.state == "disabled":
        return disabled(match.caller.tenant.user_id)
    if isinstance(match, KeyOwner) and match.state == "suspended":
        return suspended(match.caller.tenant.org_id)
    state = None if match is None else match.state
    message, reason = _REFUSALS[state] if state is not None else ("the API key is unknown", "API_KEY_INVALID")
    return Unauthenticated(message, reason=reason)
