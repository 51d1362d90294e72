"""Verifies who calls, before anything is done for them."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import jwt

from citewire_kit.audit_rpcs import vouch
from citewire_kit.callers.issuers import ALGORITHMS, ANY, Issuer, IssuerKey, Issuers
from citewire_kit.callers.remote_keys import RemoteKeys
from citewire_kit.callers.token import LEEWAY_SECONDS, TOKEN_TYPE, audience_of, forbidden, from_claims, refused
from citewire_kit.errors import StartupError, Unauthenticated
from citewire_kit.tenant import Tenant
from citewire_kit.watched import Watched

MAX_TOKEN_CHARS: Final = 240 * 1024
"""Maximum length of a token: enough for 200 groups with names of 200 characters in any script."""

_MAX_HEADER_CHARS: Final = 4096
_MAX_TOKENS: Final = 8192
"""Cached verified tokens; the oldest is evicted first."""

_AGAIN_SECONDS: Final = 300.0
"""How long a token is cached before it is verified again."""

_REQUIRED: Final = ["iss", "aud", "sub", "iat", "exp"]

_REASONS: Final[Mapping[type[Exception], str]] = {
    jwt.ExpiredSignatureError: "it has expired",
    jwt.ImmatureSignatureError: "it isn't valid yet; do the clocks agree?",
    jwt.InvalidAudienceError: "it is for another service",
    jwt.InvalidIssuerError: "its issuer isn't the key's",
    jwt.InvalidSignatureError: "its signature is wrong",
    jwt.InvalidAlgorithmError: "its algorithm isn't the key's",
}


@dataclass(frozen=True, slots=True)
class Peer:
    """The certificate of a call's connection."""

    thumbprint: str
    """Its `x5t#S256`."""

    names: frozenset[str]
    """Its names (SAN)."""


@dataclass(slots=True)
class _Proof:
    """A verified token."""

    tenant: Tenant
    name: str
    """The issuer's name."""

    issuer: Issuer
    methods: tuple[str, ...]
    """The methods that it may call."""

    bound: str
    """The thumbprint that the token is bound to; "" without."""

    expires: float
    """When it expires: seconds of the wall clock, with the leeway."""

    admitted: set[tuple[str, Peer | None]] = field(default_factory=set[tuple[str, "Peer | None"]])
    """Methods and certificates for which it was accepted."""


class Verifier:
    """Verifies the tokens of one service's callers, and caches the result.

    Args:
        service: The process's name, as in `telemetry.setup`.
        path: The file of issuers, which may be replaced at any time, as may those that it names.
        tls: Whether callers have certificates.

    Raises:
        StartupError: The file can't be read, or isn't valid.
    """

    def __init__(self, service: str, path: Path, *, tls: bool) -> None:
        self._audience, self._tls = audience_of(service), tls
        try:
            self._issuers = Watched(lambda: Issuers.read(path, tls=tls), "caller_issuers")
        except (OSError, ValueError) as exc:
            raise StartupError(f"cannot read the issuers of callers (CITEWIRE_CALLER_ISSUERS, {path}): {exc}") from exc
        self._remote = RemoteKeys()
        self._verified: dict[bytes, _Proof] = {}

    async def verify(self, token: str, path: str, peer: Peer | None) -> Tenant:
        """Returns the tenant for which the bearer of `token` calls.

        Args:
            token: The token.
            path: The method that is called: `/package.Service/Method`.
            peer: The certificate of the call's connection; None without TLS.

        Raises:
            Unauthenticated: The token is invalid (reason `CALLER_INVALID`).
            PermissionDenied: Its issuer may not do this (reason `CALLER_FORBIDDEN`).
        """
        if self._issuers.changed():
            self._verified.clear()
        if len(token) > MAX_TOKEN_CHARS:
            raise refused(f"it is longer than {MAX_TOKEN_CHARS} characters")
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        verified = self._verified.get(digest)
        if verified is None or verified.expires <= time.time():
            self._verified.pop(digest, None)
            verified = await self._verify(token)
            while len(self._verified) >= _MAX_TOKENS:
                self._verified.pop(next(iter(self._verified)))
            self._verified[digest] = verified
        if (path, peer) not in verified.admitted:
            _admit(verified, path, peer, tls=self._tls)
            verified.admitted.add((path, peer))
        vouch(verified.name)
        return verified.tenant

    async def _verify(self, token: str) -> _Proof:
        issuers, key_id = self._issuers.value, _key_id(token)
        item = issuers.keys.get(key_id)
        if item is not None:
            return _checked(item.issuer, issuers.by_name[item.issuer], self._decode(token, item), self._audience)
        error = refused("its key isn't one that this service knows")
        for remote in await self._remote.find(issuers.by_name, key_id):  # two platforms may use the same key id
            try:
                decoded = self._decode(token, remote)
            except Unauthenticated as exc:
                error = exc
            else:
                return _checked(remote.issuer, issuers.by_name[remote.issuer], decoded, self._audience)
        raise error

    def _decode(self, token: str, item: IssuerKey) -> dict[str, Any]:
        """Returns header and claims after the checks that every JWT needs."""
        try:
            return jwt.decode_complete(
                token,
                item.key,
                algorithms=[item.key.algorithm_name],
                audience=self._audience,
                issuer=item.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": _REQUIRED},
            )
        except (jwt.PyJWTError, ValueError, OverflowError, RecursionError) as exc:
            why = _REASONS.get(type(exc), "it is malformed, or a claim is missing")
            raise refused(why) from exc


def _key_id(token: str) -> str:
    """Reads the header's `kid`, which only selects the key to try.

    Raises:
        Unauthenticated: There is none.
    """
    head, dot, _ = token.partition(".")
    if not dot or len(head) > _MAX_HEADER_CHARS:
        raise refused("it isn't a JWS")
    try:
        # With an empty payload, so that no unverified one is read.
        header = jwt.get_unverified_header(f"{head}..")
    except (jwt.PyJWTError, UnicodeError) as exc:
        raise refused("it isn't a JWS") from exc
    key_id, algorithm = header.get("kid"), header.get("alg")
    if not isinstance(key_id, str) or algorithm not in ALGORITHMS:
        raise refused("its header needs a kid and an asymmetric algorithm")
    return key_id


def _checked(name: str, issuer: Issuer, decoded: Mapping[str, Any], audience: str) -> _Proof:
    """Checks our own claims in a token whose signature, issuer, audience and times are valid."""
    header, claims = cast("dict[str, Any]", decoded["header"]), cast("dict[str, Any]", decoded["payload"])
    if claims["aud"] not in (audience, [audience]):
        raise refused("it is for several services; ask for one audience")
    end = int(claims["exp"])
    lifetime = end - int(claims["iat"])
    if not 0 < lifetime <= issuer.lifetime_seconds:
        raise refused(
            f"it is valid for {lifetime} s, but the issuer {name} may allow at most {issuer.lifetime_seconds} s"
        )
    bound = _bound_to(claims)
    # A platform's token may live for hours: it is verified again, because its key may have been withdrawn.
    expires = min(end + LEEWAY_SECONDS, time.time() + _AGAIN_SECONDS)
    if issuer.subjects:
        subject = issuer.subjects.get(claims["sub"])
        if subject is None:
            raise forbidden("its subject isn't one that this service admits")
        return _Proof(subject.tenant(), name, issuer, subject.methods, bound, expires)
    if header.get("typ") != TOKEN_TYPE:
        raise refused(f"its typ must be {TOKEN_TYPE}")
    tenant = from_claims(claims)
    if ANY not in issuer.organisations and tenant.org_id not in issuer.organisations:
        raise forbidden(f"the issuer {name} may not sign for this organisation")
    return _Proof(tenant, name, issuer, (), bound, expires)


def _bound_to(claims: Mapping[str, Any]) -> str:
    confirmation: object = claims.get("cnf", {})
    bound = cast("dict[str, object]", confirmation).get("x5t#S256", "") if isinstance(confirmation, dict) else None
    if not isinstance(bound, str):
        raise refused("its claim cnf is malformed")
    return bound


def _admit(verified: _Proof, path: str, peer: Peer | None, *, tls: bool) -> None:
    """Checks the method, and under TLS the certificate.

    Raises:
        Unauthenticated: The token was sent with a certificate to which it isn't bound.
        PermissionDenied: The method isn't allowed, or the certificate isn't one of the issuer's.
    """
    allowed = [verified.issuer.methods, *([verified.methods] if verified.methods else [])]
    method = path.removeprefix("/")
    every = f"{method.partition('/')[0]}/{ANY}"
    if not all({ANY, method, every} & set(methods) for methods in allowed):
        raise forbidden("its issuer may not call this method")
    # A bound token is also rejected over plaintext, where there is no certificate to compare.
    if verified.bound and (peer is None or peer.thumbprint != verified.bound):
        raise refused("it is bound to another certificate")
    if not tls:
        return
    if peer is None:
        raise refused("it came without a certificate")
    if not verified.bound and not verified.issuer.subjects:
        raise refused("it needs the claim cnf, the thumbprint of the certificate with which it is sent")
    if peer.names.isdisjoint(verified.issuer.certificates):
        raise forbidden("the certificate isn't one that may send its issuer's tokens")
