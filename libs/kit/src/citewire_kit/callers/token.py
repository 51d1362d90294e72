"""The claims of a caller's token, and their conversion from and to a tenant."""

import base64
import hashlib
import ssl
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, cast

from citewire_kit.errors import CitewireError, PermissionDenied, Unauthenticated
from citewire_kit.methods import parse_method
from citewire_kit.tenant import Tenant, checked_tenant

CALLER_KEY: Final = "cw-caller"
"""The metadata entry of the token."""

TOKEN_TYPE: Final = "cw-caller+jwt"  # noqa: S105 # a media type
"""The header's `typ`, so that no other token signed with the same key is accepted."""

LIFETIME_SECONDS: Final = 25
"""Lifetime of a token."""

LEEWAY_SECONDS: Final = 5
"""Allowed clock difference. A token is rejected 30 s after it was signed, whichever clock is ahead."""

_TENANT_CLAIMS: Final = ("sub", "org", "plan", "roles", "groups", "key")


def audience_of(service: str) -> str:
    """Returns the `aud` of a process named as in `telemetry.setup`: one service, never several."""
    return f"citewire-{service}"


@lru_cache(maxsize=1024)
def audience_of_method(path: str) -> str:
    """Returns the `aud` of the service that implements `/citewire.<service>.v1.<Service>/<Method>`."""
    return audience_of(parse_method(path).service.split(".")[1])


def to_claims(tenant: Tenant) -> dict[str, object]:
    """Writes a tenant as claims.

    Raises:
        InvalidArgument: A value can't be sent, such as a 201st group.
    """
    checked_tenant(tenant)
    optional = {"roles": list(tenant.roles), "groups": list(tenant.groups), "key": tenant.key_id}
    claims: dict[str, object] = {"sub": tenant.user_id, "org": tenant.org_id, "plan": tenant.plan}
    return claims | {name: value for name, value in optional.items() if value}


def from_claims(claims: Mapping[str, object]) -> Tenant:
    """Reads the tenant from verified claims.

    Raises:
        Unauthenticated: A claim is missing or malformed.
    """
    user, org, plan, key = (claims.get(name, "") for name in ("sub", "org", "plan", "key"))
    roles, groups = _names(claims, "roles"), _names(claims, "groups")
    if not (isinstance(user, str) and isinstance(org, str) and isinstance(plan, str) and isinstance(key, str)):
        raise refused("its claims sub, org, plan and key must be strings")
    try:
        return checked_tenant(Tenant(org, user, plan, roles, key, groups))  # pyright: ignore[reportArgumentType] # the plan is checked as well
    except CitewireError as exc:
        raise refused(exc.message) from exc


def _names(claims: Mapping[str, object], claim: str) -> tuple[str, ...]:
    values = claims.get(claim, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in cast("list[object]", values)):
        raise refused(f"its claim {claim} must be a list of strings")
    return tuple(cast("list[str]", values))


def refused(why: str) -> Unauthenticated:
    """Returns the error for an invalid token; `why` is shown to the caller."""
    return Unauthenticated(f"the caller's token is refused: {why}", reason="CALLER_INVALID")


def forbidden(why: str) -> PermissionDenied:
    """Returns the error for a valid token of a caller that may not do this."""
    return PermissionDenied(f"the caller may not do this: {why}", reason="CALLER_FORBIDDEN")


@lru_cache(maxsize=256)
def thumbprint(certificates: bytes) -> str:
    """Returns `x5t#S256` (RFC 8705) of the first certificate of a PEM chain.

    Raises:
        ValueError: There is none.
    """
    end = "-----END CERTIFICATE-----"
    first, separator, _ = certificates.decode("ascii").partition(end)
    start = first.find("-----BEGIN CERTIFICATE-----")
    if not separator or start < 0:
        raise ValueError("contains no certificate in PEM")
    return base64url(hashlib.sha256(ssl.PEM_cert_to_DER_cert(first[start:] + end)).digest())


def base64url(raw: bytes) -> str:
    """Encodes as JWS does: without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def names_of(values: Iterable[bytes]) -> frozenset[str]:
    """Returns the names of a certificate (its SAN), as gRPC gives them."""
    return frozenset(value.decode("utf-8", "replace") for value in values)
