"""For whom and for what a call works: tenant, request id and occasion, as context variables and as gRPC metadata.

Only this module knows the metadata keys. A tenant is set once, at the edge (the gateway's auth, a server's tenant
stage, the worker after its claim), and read wherever it is needed with `current_tenant()`.
"""

import re
import uuid
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeGuard
from urllib.parse import quote, unquote

from citewire_kit.errors import FieldViolation, InvalidArgument, Unauthenticated

Plan = Literal["free", "basic", "pro"]

INPUT_TOKENS: Final[Mapping[Plan, int]] = MappingProxyType({"free": 30_000, "basic": 30_000, "pro": 150_000})
"""Maximum prompt tokens by tenant plan."""

RESERVED_TOKENS: Final = 1_500
"""Portion of these for the system prompt and the history; the rest is for the context."""

ORG_KEY = "cw-org"
USER_KEY = "cw-user"
PLAN_KEY = "cw-plan"
ROLES_KEY = "cw-roles"
GROUPS_KEY = "cw-groups"
API_KEY_KEY = "cw-key"
PROFILE_KEY = "cw-profile"
EXCHANGE_KEY = "cw-exchange"
CONVERSATION_KEY = "cw-conversation"
REQUEST_ID_KEY = "x-request-id"

_TOKEN = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")
_MAX_ROLES = 32

MAX_GROUP_CHARS: Final = 200
"""Maximum length of a group's name."""

MAX_GROUPS: Final = 200
"""Maximum number of groups per user; more are rejected, never truncated."""

ROLES: Final = ("reader", "editor", "admin", "owner")
"""Roles in an organisation, in ascending order: each includes all rights of the previous one."""

Role = Literal["reader", "editor", "admin", "owner"]

_ROLE_ALIASES: Final[Mapping[str, Role]] = MappingProxyType({"member": "editor"})
"""Former names of roles, which older rows and callers still have."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """The organisation and user that a call works for."""

    org_id: str
    user_id: str
    plan: Plan
    roles: tuple[str, ...] = ()
    key_id: str = ""
    """Id of the request's API key, never the key itself; "" without one. Keys may have their own budgets."""
    groups: tuple[str, ...] = ()
    """Names of the user's groups, according to the identity provider or key; at most `MAX_GROUPS`."""

    def is_at_least(self, role: Role) -> bool:
        """Whether the user's highest role is `role` or a higher one. Unknown roles grant nothing."""
        names: set[str] = {_ROLE_ALIASES.get(name, name) for name in self.roles}
        return not names.isdisjoint(ROLES[ROLES.index(role) :])

    @property
    def role(self) -> Role:
        """The user's highest role, which determines rights on content.

        A caller without roles is an editor, as all callers were before roles existed; one with only unknown roles is a
        reader, the lowest role.
        """
        if not self.roles:
            return "editor"
        highest_first: tuple[Role, ...] = ("owner", "admin", "editor", "reader")
        return next(role for role in highest_first if self.is_at_least(role) or role == "reader")


LOCAL_TENANT = Tenant("local", "local", "pro", ("owner",))
"""The caller if authentication is off."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """The context of a call. It affects only accounting."""

    profile: str = ""
    """Name of the chat's profile; "" outside of a chat."""
    exchange_id: str = ""
    """UUID of the chat's exchange; "" outside of one."""
    conversation_id: str = ""
    """UUID of its conversation; "" outside of one."""


NO_CONTEXT = CallContext()
_CONTEXT_KEYS = (PROFILE_KEY, EXCHANGE_KEY, CONVERSATION_KEY)
"""Metadata of a call context, in the order of its fields."""

_tenant: ContextVar[Tenant | None] = ContextVar("citewire_tenant", default=None)
_context: ContextVar[CallContext] = ContextVar("citewire_call_context", default=NO_CONTEXT)
_request_id: ContextVar[str] = ContextVar("citewire_request_id", default="")


def current_tenant() -> Tenant:
    """Returns the tenant of the running call.

    Raises:
        Unauthenticated: No tenant is set (reason `TENANT_MISSING`).
    """
    tenant = _tenant.get()
    if tenant is None:
        raise Unauthenticated("the call has no tenant", reason="TENANT_MISSING")
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


def current_call_context() -> CallContext:
    """Returns what the running call is part of; empty if it isn't set."""
    return _context.get()


@contextmanager
def use_call_context(context: CallContext) -> Generator[CallContext]:
    """Makes `context` the current one inside the block."""
    token = _context.set(context)
    try:
        yield context
    finally:
        _context.reset(token)


def enter_call_context(context: CallContext) -> None:
    """Makes `context` the current one for the rest of the running task: for generators closed by other tasks."""
    _context.set(context)


def current_request_id() -> str:
    """Returns the id of the running request, or "" outside of one."""
    return _request_id.get()


def new_request_id() -> str:
    """Generates a request id: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def is_token(text: str) -> bool:
    """Whether `text` is a valid org, user, role or request id: 1-128 of A-Z a-z 0-9 _ . : @ -."""
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


def checked_tenant(tenant: Tenant) -> Tenant:
    """Returns the tenant if it can be sent.

    Raises:
        InvalidArgument: A value contains invalid characters or is too long; the error names it.
    """
    if not _is_plan(tenant.plan):
        raise _invalid(PLAN_KEY, "must be free, basic or pro")
    _check_all({ORG_KEY: tenant.org_id, USER_KEY: tenant.user_id}, tenant.roles, tenant.key_id)
    _check_groups(tenant.groups)
    return tenant


def to_metadata(tenant: Tenant) -> tuple[tuple[str, str], ...]:
    """Writes a tenant as gRPC metadata.

    Raises:
        InvalidArgument: A value contains an invalid character.
    """
    checked_tenant(tenant)
    return (
        (ORG_KEY, tenant.org_id),
        (USER_KEY, tenant.user_id),
        (PLAN_KEY, tenant.plan),
        (ROLES_KEY, ",".join(tenant.roles)),
        *(((API_KEY_KEY, tenant.key_id),) if tenant.key_id else ()),
        # Group names may be in any script, so they are percent-encoded.
        *(((GROUPS_KEY, ",".join(quote(group, safe="") for group in tenant.groups)),) if tenant.groups else ()),
    )


def context_to_metadata(context: CallContext) -> tuple[tuple[str, str], ...]:
    """Writes what a call is part of as gRPC metadata; invalid values are left out."""
    values = (context.profile, context.exchange_id, context.conversation_id)
    return tuple((key, value) for key, value in zip(_CONTEXT_KEYS, values, strict=True) if is_token(value))


def context_from_metadata(metadata: Mapping[str, str]) -> CallContext:
    """Reads what a call is part of; missing or malformed values are empty."""
    values = (metadata.get(key, "") for key in _CONTEXT_KEYS)
    return CallContext(*(value if is_token(value) else "" for value in values))


def from_metadata(metadata: Iterable[tuple[str, str | bytes]]) -> Tenant | None:
    """Reads the tenant from gRPC metadata; None if it carries none of the tenant's keys.

    Raises:
        InvalidArgument: A key is missing or repeated, or a value is malformed.
    """
    values: dict[str, str] = {}
    for key, value in metadata:
        if key in _KEYS and isinstance(value, str):
            if key in values:
                raise _invalid(key, "is given more than once")
            values[key] = value
    if not values:
        return None
    for key in (ORG_KEY, USER_KEY, PLAN_KEY):
        if key not in values:
            raise _invalid(key, "is missing")
    plan = values[PLAN_KEY]
    if not _is_plan(plan):
        raise _invalid(PLAN_KEY, "must be free, basic or pro")
    roles = tuple(role for role in values.get(ROLES_KEY, "").split(",") if role)
    key_id = values.get(API_KEY_KEY, "")
    groups = tuple(unquote(group) for group in values.get(GROUPS_KEY, "").split(",") if group)
    return checked_tenant(Tenant(values[ORG_KEY], values[USER_KEY], plan, roles, key_id, groups))


def is_group(name: str) -> bool:
    """Whether a text is a valid group name."""
    return 0 < len(name) <= MAX_GROUP_CHARS and name.isprintable()


_KEYS = frozenset({ORG_KEY, USER_KEY, PLAN_KEY, ROLES_KEY, GROUPS_KEY, API_KEY_KEY})


def _is_plan(text: str) -> TypeGuard[Plan]:
    return text in ("free", "basic", "pro")


def _check_all(ids: dict[str, str], roles: tuple[str, ...], key_id: str) -> None:
    for key, value in (*ids.items(), *(((API_KEY_KEY, key_id),) if key_id else ())):
        if not is_token(value):
            raise _invalid(key, "must be 1-128 characters of A-Z a-z 0-9 _ . : @ -")
    if len(roles) > _MAX_ROLES or not all(is_token(role) for role in roles):
        raise _invalid(ROLES_KEY, f"must be at most {_MAX_ROLES} names of A-Z a-z 0-9 _ . : @ -, separated by commas")


def _check_groups(groups: tuple[str, ...]) -> None:
    if len(groups) > MAX_GROUPS:
        raise _invalid(GROUPS_KEY, f"names {len(groups)} groups; at most {MAX_GROUPS} are allowed")
    if not all(is_group(group) for group in groups):
        raise _invalid(GROUPS_KEY, f"must be names of 1-{MAX_GROUP_CHARS} printable characters")


def _invalid(key: str, message: str) -> InvalidArgument:
    return InvalidArgument(
        f"tenant metadata {key} {message}", reason="INVALID_FIELD", violations=[FieldViolation(key, message)]
    )
