"""An identity provider as a client sees it: discovery, its keys, its tokens (OpenID Connect Core and Discovery 1.0)."""

import asyncio
import json
import math
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast
from urllib.parse import quote

import httpx
import jwt

from citewire_accounts.people.claims import Claims
from citewire_accounts.people.issuers import Issuer, is_safe_url
from citewire_kit.errors import Unauthenticated, Unavailable
from citewire_kit.telemetry import get_logger

T = TypeVar("T")

MAX_TOKEN_CHARS: Final = 16 * 1024
_MAX_BYTES: Final = 256 * 1024  # of an answer; real discovery documents and key sets have a few KiB
_MAX_KEYS: Final = 100
_SECONDS: Final = 5.0
_FRESH_SECONDS: Final = 3600.0
_AGAIN_SECONDS: Final = 10.0
"""Least seconds between fetches of a document, whatever keys tokens name, and even if the provider is down."""
_LEEWAY_SECONDS: Final = 30
_HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity"}
_DISCOVERY: Final = "/.well-known/openid-configuration"
ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""Allowed signature algorithms. None uses a secret shared with clients."""

log = get_logger(__name__)


def open_http() -> httpx.AsyncClient:
    """Returns a client for identity providers; it follows no redirect, and trusts the system's authorities."""
    return httpx.AsyncClient(
        timeout=_SECONDS,
        trust_env=False,
        verify=ssl.create_default_context(),
        limits=httpx.Limits(max_connections=20),
        headers={"User-Agent": "citewire-gateway"},
    )


class RejectedGrantError(Exception):
    """The provider rejected a code or a refresh token."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The used parts of its discovery document."""

    authorization_endpoint: str
    token_endpoint: str
    """Both "" without sign-in."""
    jwks_uri: str
    userinfo_endpoint: str | None
    end_session_endpoint: str | None
    revocation_endpoint: str | None
    basic: bool
    """Whether the client's secret is sent in the Authorization header rather than the form."""
    names_issuer: bool
    """Whether an answer to a sign-in must name the issuer (RFC 9207)."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The provider's response to a code or a refresh token."""

    id_token: str
    access_token: str
    refresh_token: str


class Provider:
    """One identity provider. Its responses are limited in time and size, and cached."""

    def __init__(self, issuer: Issuer, http: httpx.AsyncClient) -> None:
        self.issuer = issuer
        self._http = http
        self._metadata = _Document(self._discover)
        self._keys = _Document(self._fetch_keys)

    async def metadata(self) -> Metadata:
        """Returns its discovery document.

        Raises:
            Unavailable: It can't be fetched.
        """
        return await self._metadata.get()

    async def verify(self, token: str, audience: str, *, id_token: bool = False, nonce: str | None = None) -> Claims:
        """Returns the claims of a token that this provider signed for an audience, and that hasn't expired.

        Args:
            token: A JWT.
            audience: Whom it must be for.
            id_token: Whether it is an ID token: then one for several audiences must have been made for our client
                (OpenID Connect Core 3.1.3.7). An access token is another client's by nature, which its `azp` names (in
                RFC 9068 `client_id`); whom it is for is what counts.
            nonce: The nonce of an ID token; None to skip the check.

        Raises:
            Unauthenticated: Reason `TOKEN_INVALID`; the message says what is wrong with it.
            Unavailable: The keys can't be fetched.
        """
        key = await self._key_of(token)
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=audience,
                issuer=self.issuer.issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.ExpiredSignatureError as exc:
            raise _invalid("has expired") from exc
        except jwt.InvalidAudienceError as exc:
            raise _invalid(f"is not for the audience {audience}") from exc
        except jwt.InvalidIssuerError as exc:
            raise _invalid(f"is not from the issuer {self.issuer.issuer}") from exc
        except jwt.MissingRequiredClaimError as exc:
            raise _invalid(f"lacks the claim {exc.claim}") from exc
        except jwt.ImmatureSignatureError as exc:
            raise _invalid("was issued in the future: check the clocks") from exc
        except jwt.PyJWTError as exc:
            raise _invalid("has no valid signature") from exc
        if isinstance(claims["aud"], list):
            self._check_client(claims, id_token=id_token)
        if nonce is not None and claims.get("nonce") != nonce:
            raise _invalid("is for a different sign-in (nonce)")
        return claims

    def _check_client(self, claims: Claims, *, id_token: bool) -> None:
        """Checks whom a token for several audiences was made for."""
        client = self.issuer.client_id
        made_for_us = claims.get("azp", client) == client
        if id_token and not made_for_us:
            raise _invalid("was issued to another client")
        if not id_token and made_for_us and client in claims["aud"]:
            raise _invalid("is an ID token, which gives no access to this API")

    async def exchange(self, code: str, verifier: str, redirect_uri: str) -> Grant:
        """Exchanges the code of a sign-in for tokens.

        Raises:
            RejectedGrantError: The provider rejected it: it was used before, or belongs to another sign-in.
            Unavailable: It doesn't answer.
        """
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        return await self._grant(form | {"code_verifier": verifier})

    async def refresh(self, refresh_token: str) -> Grant:
        """Returns new tokens; raises as `exchange`."""
        return await self._grant({"grant_type": "refresh_token", "refresh_token": refresh_token})

    async def userinfo(self, access_token: str) -> Claims:
        """Returns the userinfo endpoint's claims; empty if there is no such endpoint.

        Raises:
            RejectedGrantError: It rejected the token.
            Unavailable: It doesn't answer.
        """
        address = (await self.metadata()).userinfo_endpoint
        if address is None:
            return {}
        status, answer = await self._send("GET", address, headers={"Authorization": f"Bearer {access_token}"})
        if status in (401, 403):
            raise RejectedGrantError
        if status != 200 or not answer:
            raise _away(self.issuer)
        return answer

    async def revoke(self, refresh_token: str) -> None:
        """Revokes a refresh token at the provider (RFC 7009), if supported."""
        address = (await self.metadata()).revocation_endpoint
        if address is not None:
            await self._post(address, {"token": refresh_token, "token_type_hint": "refresh_token"})

    async def _grant(self, form: Mapping[str, str]) -> Grant:
        status, answer = await self._post((await self.metadata()).token_endpoint, form)
        if status == 200:
            texts = (answer.get(name, "") for name in ("id_token", "access_token", "refresh_token"))
            return Grant(*(text if isinstance(text, str) else "" for text in texts))
        if answer.get("error") in ("invalid_grant", "access_denied"):
            raise RejectedGrantError
        log.warning("identity_provider_refused", issuer=self.issuer.name, status=status, error=str(answer.get("error")))
        raise _away(self.issuer)

    async def _post(self, address: str, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        secret, client = self.issuer.client_secret, self.issuer.client_id
        if secret is None:
            return await self._send("POST", address, form={**form, "client_id": client})
        if (await self.metadata()).basic:
            auth = httpx.BasicAuth(quote(client, safe=""), quote(secret.get_secret_value(), safe=""))
            return await self._send("POST", address, form=form, auth=auth)
        return await self._send(
            "POST", address, form={**form, "client_id": client, "client_secret": secret.get_secret_value()}
        )

    async def _send(
        self,
        method: str,
        address: str,
        *,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        auth: httpx.Auth | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """One request; status, and JSON object ({} for anything else)."""
        raw = bytearray()
        try:
            async with (
                asyncio.timeout(_SECONDS),
                self._http.stream(
                    method, address, data=form, headers={**_HEADERS, **(headers or {})}, auth=auth
                ) as response,
            ):
                async for part in response.aiter_raw():  # undecoded: compressed data could expand to any size
                    raw += part
                    if len(raw) > _MAX_BYTES:
                        raise _away(self.issuer)
        except (httpx.HTTPError, TimeoutError) as exc:
            log.warning("identity_provider_unreachable", issuer=self.issuer.name, error=type(exc).__name__)
            raise _away(self.issuer) from exc
        try:
            value: object = json.loads(raw)
        except (ValueError, RecursionError):
            value = None
        return response.status_code, cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    async def _discover(self) -> Metadata:
        status, answer = await self._send("GET", self.issuer.issuer.rstrip("/") + _DISCOVERY)
        if status != 200 or answer.get("issuer") != self.issuer.issuer:
            log.warning("identity_provider_unusable", issuer=self.issuer.name, status=status, says=answer.get("issuer"))
            raise _away(self.issuer)
        methods = answer.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        signs_in = bool(self.issuer.client_id)  # Kubernetes signs tokens, and has no such endpoints
        return Metadata(
            authorization_endpoint=self._endpoint(answer, "authorization_endpoint") if signs_in else "",
            token_endpoint=self._endpoint(answer, "token_endpoint") if signs_in else "",
            jwks_uri=self._endpoint(answer, "jwks_uri"),
            userinfo_endpoint=self._optional(answer, "userinfo_endpoint"),
            end_session_endpoint=self._optional(answer, "end_session_endpoint"),
            revocation_endpoint=self._optional(answer, "revocation_endpoint"),
            basic=isinstance(methods, list) and "client_secret_basic" in methods,
            names_issuer=answer.get("authorization_response_iss_parameter_supported") is True,
        )

    def _optional(self, answer: Claims, name: str) -> str | None:
        return self._endpoint(answer, name) if answer.get(name) else None

    def _endpoint(self, answer: Claims, name: str) -> str:
        address = answer.get(name)
        if not isinstance(address, str) or not is_safe_url(address):
            log.warning("identity_provider_unusable", issuer=self.issuer.name, endpoint=name)
            raise _away(self.issuer)
        return address

    async def _fetch_keys(self) -> dict[str, jwt.PyJWK]:
        status, answer = await self._send("GET", (await self.metadata()).jwks_uri)
        keys = answer.get("keys")
        if status != 200 or not isinstance(keys, list):
            raise _away(self.issuer)
        return _public_keys(cast("list[object]", keys))

    async def _key_of(self, token: str) -> jwt.PyJWK:
        if len(token) > MAX_TOKEN_CHARS:
            raise _invalid(f"is longer than {MAX_TOKEN_CHARS} characters")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError as exc:
            raise _invalid("is no JWT") from exc
        key_id = header.get("kid", "")
        keys = await self._keys.get()
        if key_id not in keys:
            keys = await self._keys.get(again=True)  # it may have been rotated
        key = keys.get(key_id)
        if key is None:
            raise _invalid("is signed with a key that its issuer doesn't have")
        if header.get("alg") != key.algorithm_name:
            raise _invalid("is signed with a different algorithm than its key's")
        return key


def issuer_of(token: str) -> str:
    """Returns a token's claimed issuer, unverified; "" if it isn't a token."""
    if len(token) > MAX_TOKEN_CHARS:
        return ""
    try:
        issuer: object = jwt.decode(token, options={"verify_signature": False}).get("iss")
    except jwt.PyJWTError:
        return ""
    return issuer if isinstance(issuer, str) else ""


class _Document(Generic[T]):
    """Something fetched on demand, by one caller at a time, and cached."""

    def __init__(self, fetch: Callable[[], Awaitable[T]]) -> None:
        self._fetch = fetch
        self._lock = asyncio.Lock()
        self._value: T | None = None
        self._tried = -math.inf
        self._error: Unavailable | None = None

    async def get(self, *, again: bool = False) -> T:
        """Returns it; fetches it again if it is old or lacks what is needed (`again`), but not too often."""
        async with self._lock:
            age = time.monotonic() - self._tried
            missing = self._value is None or again
            if age > (_AGAIN_SECONDS if missing else _FRESH_SECONDS):
                self._tried, self._error = time.monotonic(), None
                try:
                    self._value = await self._fetch()
                except Unavailable as exc:
                    self._error = exc
            if self._value is None:
                raise self._error or Unavailable(
                    "the identity provider is still being asked", reason="SERVICE_UNAVAILABLE", retry_after=1
                )
            return self._value


def _public_keys(keys: list[object]) -> dict[str, jwt.PyJWK]:
    """The signing keys by id, without unreadable ones and those for other uses."""
    known: dict[str, jwt.PyJWK] = {}
    for item in keys[:_MAX_KEYS]:
        jwk = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        if jwk.get("use", "sig") != "sig" or jwk.get("kty") == "oct":
            continue
        try:
            key = jwt.PyJWK(jwk)
        except jwt.PyJWTError:
            continue
        if key.algorithm_name in ALGORITHMS:
            known[jwk["kid"] if isinstance(jwk.get("kid"), str) else ""] = key
    return known


def _invalid(what: str) -> Unauthenticated:
    return Unauthenticated(f"the token {what}", reason="TOKEN_INVALID")


def _away(issuer: Issuer) -> Unavailable:
    return Unavailable(
        f"the identity provider {issuer.name} can't be reached at the moment",
        reason="SERVICE_UNAVAILABLE",
        retry_after=5,
    )
