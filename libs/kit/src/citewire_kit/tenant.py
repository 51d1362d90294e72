"""For whom a call works: the tenant and the request id, as context variables and as gRPC metadata.

Only this module knows the metadata keys. A tenant is set once, at the edge (the gateway's auth, a server's tenant
stage, the worker after its claim), and read wherever it is needed with `current_tenant()`.
"""

import re
import uuid
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeGuard

from citewire_kit.errors import FieldViolation, InvalidArgument, Unauthenticated

Plan = Literal["free", "basic", "pro"]

ORG_KEY = "cw-org"
USER_KEY = "cw-user"
PLAN_KEY = "cw-plan"
ROLES_KEY = "cw-roles"
REQUEST_ID_KEY = "x-request-id"

_TOKEN = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")
_MAX_ROLES = 32


@dataclass(frozen=True, slots=True)
class Tenant:
    """The organisation and user that a call works for."""

    org_id: str
    user_id: str
    plan: Plan
    roles: tuple[str, ...] = ()


LOCAL_TENANT = Tenant("local", "local", "pro", ("owner",))
"""Who calls when auth is off."""

_tenant: ContextVar[Tenant | None] = ContextVar("citewire_tenant", default=None)
_request_id: ContextVar[str] = ContextVar("citewire_request_id", default="")


def current_tenant() -> Tenant:
    """Returns the tenant of the running call.

    Raises:
        Unauthenticated: No tenant is set (reason `TENANT_MISSING`).
    """
    tenant = _tenant.get()
    if tenant is None:
        raise Unauthenticated("the call carries no tenant", reason="TENANT_MISSING")
    return tenant


def find_tenant() -> Tenant | None:
    """Returns the tenant of the running call, or None."""
    return _tenant.get()


@contextmanager
def use_tenant(tenant: Tenant) -> Generator[Tenant]:
    """Makes `tenant` the current one inside the block."""
    token = _tenant.set(tenant)
    try:
        yield tenant
    finally:
        _tenant.reset(token)


def current_request_id() -> str:
    """Returns the id of the running request, or "" outside of one."""
    return _request_id.get()


def new_request_id() -> str:
    """Makes a request id: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def is_token(text: str) -> bool:
    """Says whether `text` may travel as an org, user, role or request id: 1-128 of A-Z a-z 0-9 _ . : @ -."""
    return _TOKEN.fullmatch(text) is not None


@contextmanager
def use_request_id(request_id: str) -> Generator[str]:
    """Makes `request_id` the current one inside the block; an empty or malformed one is replaced by a new one."""
    value = request_id if is_token(request_id) else new_request_id()
    token = _request_id.set(value)
    try:
        yield value
    finally:
        _request_id.reset(token)


def to_metadata(tenant: Tenant) -> tuple[tuple[str, str], ...]:
    """Writes a tenant as gRPC metadata.

    Raises:
        InvalidArgument: A value holds a character that may not travel.
    """
    _check_all({ORG_KEY: tenant.org_id, USER_KEY: tenant.user_id}, tenant.roles)
    return (
        (ORG_KEY, tenant.org_id),
        (USER_KEY, tenant.user_id),
        (PLAN_KEY, tenant.plan),
        (ROLES_KEY, ",".join(tenant.roles)),
    )


def from_metadata(metadata: Iterable[tuple[str, str | bytes]]) -> Tenant | None:
    """Reads the tenant from gRPC metadata; None if it carries none of the tenant's keys.

    Raises:
        InvalidArgument: A key is missing or repeated, or a value is malformed.
    """
    found: dict[str, str] = {}
    for key, value in metadata:
        if key in _KEYS and isinstance(value, str):
            if key in found:
                raise _invalid(key, "is given more than once")
            found[key] = value
    if not found:
        return None
    for key in (ORG_KEY, USER_KEY, PLAN_KEY):
        if key not in found:
            raise _invalid(key, "is missing")
    plan = found[PLAN_KEY]
    if not _is_plan(plan):
        raise _invalid(PLAN_KEY, "must be free, basic or pro")
    roles = tuple(role for role in found.get(ROLES_KEY, "").split(",") if role)
    _check_all({ORG_KEY: found[ORG_KEY], USER_KEY: found[USER_KEY]}, roles)
    return Tenant(found[ORG_KEY], found[USER_KEY], plan, roles)


_KEYS = frozenset({ORG_KEY, USER_KEY, PLAN_KEY, ROLES_KEY})


def _is_plan(text: str) -> TypeGuard[Plan]:
    return text in ("free", "basic", "pro")


def _check_all(ids: dict[str, str], roles: tuple[str, ...]) -> None:
    for key, value in ids.items():
        if not is_token(value):
            raise _invalid(key, "must be 1-128 characters of A-Z a-z 0-9 _ . : @ -")
    if len(roles) > _MAX_ROLES or not all(is_token(role) for role in roles):
        raise _invalid(ROLES_KEY, f"must be at most {_MAX_ROLES} names of A-Z a-z 0-9 _ . : @ -, separated by commas")


def _invalid(key: str, message: str) -> InvalidArgument:
    return InvalidArgument(
        f"tenant metadata {key} {message}", reason="INVALID_FIELD", violations=[FieldViolation(key, message)]
    )
