"""Signs who calls, for the channels of a process."""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from citewire_kit.callers.token import (
    CALLER_KEY,
    LIFETIME_SECONDS,
    TOKEN_TYPE,
    audience_of_method,
    base64url,
    thumbprint,
    to_claims,
)
from citewire_kit.errors import StartupError, Unauthenticated
from citewire_kit.tenant import LOCAL_TENANT, Tenant, find_tenant, to_metadata
from citewire_kit.tls_files import Stamp, stamp_of
from citewire_kit.watched import Watched

_REUSE_SECONDS: Final = 15.0
"""How long a token is reused, so that a call waiting for its connection still arrives in time."""

_MAX_TOKENS: Final = 4096
"""Cached tokens; the oldest is evicted first."""

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key and its id."""

    private: Ed25519PrivateKey
    key_id: str

    @classmethod
    def from_pem(cls, pem: bytes) -> "SigningKey":
        """Reads a private key.

        Raises:
            ValueError: It isn't an Ed25519 key in PEM, without a password.
        """
        try:
            private = load_pem_private_key(pem, None)
        except (ValueError, TypeError) as exc:
            raise ValueError("isn't a private key in PEM without a password") from exc
        if not isinstance(private, Ed25519PrivateKey):
            raise ValueError("isn't an Ed25519 key: make one with `python -m citewire_kit.callers make`")  # noqa: TRY004 # of a file, not an argument
        return cls(private, str(to_jwk(private.public_key())["kid"]))


def to_jwk(key: Ed25519PublicKey) -> dict[str, Any]:
    """Returns the JWK of a public key; its `kid` is the key's thumbprint (RFC 7638)."""
    jwk = {"crv": "Ed25519", "kty": "OKP", "x": base64url(key.public_bytes_raw())}
    canonical = json.dumps(jwk, separators=(",", ":"), sort_keys=True).encode()
    return jwk | {"kid": base64url(hashlib.sha256(canonical).digest())}


def sign(key: SigningKey, claims: Mapping[str, object]) -> str:
    """Signs claims; non-ASCII names aren't escaped."""
    payload = json.dumps(claims, ensure_ascii=False, separators=(",", ":")).encode()
    return jwt.PyJWS().encode(payload, key.private, algorithm="EdDSA", headers={"typ": TOKEN_TYPE, "kid": key.key_id})


class Signer:
    """Signs the running call's tenant, and reuses a token while it is fresh.

    Args:
        issuer: The tokens' `iss`.
        key: File with the private key (Ed25519, PEM), which may be replaced at any time. None: nothing is signed, and
            only calls for the local tenant are possible.
        plain: Whether to send the tenant unsigned as well, for services of the previous version.

    Raises:
        StartupError: The key can't be read.
    """

    def __init__(self, issuer: str, key: Path | None, *, plain: bool = False) -> None:
        self._issuer, self._plain = issuer, plain
        self._key = None if key is None else _watch(key)
        self._tokens: dict[tuple[Tenant, str, str], tuple[str, float]] = {}

    def metadata(self, path: str, certificate: bytes = b"") -> Metadata:
        """Returns the metadata that identifies the caller, for one call of the method `path`; empty without a tenant.

        Args:
            path: `/package.Service/Method`.
            certificate: The channel's own, in PEM; the token is bound to it.

        Raises:
            InvalidArgument: The tenant contains a value that can't be sent.
            Unauthenticated: There is no key, and the tenant isn't the local one (reason `TENANT_MISSING`).
        """
        tenant = find_tenant()
        if tenant is None or path.startswith("/grpc."):
            return ()
        plain = to_metadata(tenant) if self._plain else ()
        if self._key is None:
            if not plain:
                check_local(tenant)
            return plain
        return (*plain, (CALLER_KEY, self._token(tenant, audience_of_method(path), certificate)))

    def _token(self, tenant: Tenant, audience: str, certificate: bytes) -> str:
        key = self._key
        assert key is not None  # noqa: S101 # for the type checker: the caller has checked
        if key.changed():
            self._tokens.clear()
        now = time.time()
        bound = thumbprint(certificate) if certificate else ""
        entry = (tenant, audience, bound)
        known = self._tokens.get(entry)
        if known is not None and now < known[1]:
            return known[0]
        self._tokens.pop(entry, None)
        if len(self._tokens) >= _MAX_TOKENS:
            self._tokens.pop(next(iter(self._tokens)))
        start = int(now)
        claims = {"iss": self._issuer, "aud": audience, "iat": start, "exp": start + LIFETIME_SECONDS}
        confirmation = {"cnf": {"x5t#S256": bound}} if bound else {}
        token = sign(key.value, claims | to_claims(tenant) | confirmation)
        self._tokens[entry] = (token, now + _REUSE_SECONDS)
        return token


def check_local(tenant: Tenant) -> None:
    """Rejects calls for anybody but the local tenant, because nothing can be signed.

    Raises:
        Unauthenticated: Reason `TENANT_MISSING`.
    """
    if tenant.org_id != LOCAL_TENANT.org_id:
        raise Unauthenticated(
            "this process has no key to sign its calls; set CITEWIRE_CALLER_KEY", reason="TENANT_MISSING"
        )


def _watch(path: Path) -> Watched[SigningKey]:
    def read() -> tuple[Stamp, SigningKey]:
        before = stamp_of((path,))
        return before, SigningKey.from_pem(path.read_bytes())

    try:
        return Watched(read, "caller_key")
    except (OSError, ValueError) as exc:
        raise StartupError(f"cannot read the caller key (CITEWIRE_CALLER_KEY, {path}): {exc}") from exc
