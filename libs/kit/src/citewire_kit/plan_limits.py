"""The limits of a tenant plan for keys, users and organisations: data that the operator may partly change."""

import json
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast, get_args

from pydantic import AliasChoices, Field, field_validator
from pydantic_settings import BaseSettings

from citewire_kit.settings import settings_config
from citewire_kit.tenant import Plan

GIB = 1024**3


class Measure(StrEnum):
    """The measure of a limit."""

    REQUESTS = "requests"
    """Requests of any kind per minute."""
    TOKENS = "tokens"
    """Prompt and completion tokens of chats, and input tokens of `/v1/embeddings`, per minute."""
    STREAMS = "streams"
    """Concurrent chats, streamed or not."""
    UPLOADS = "uploads"
    """Stored documents per hour."""
    UPLOAD_BYTES = "upload-bytes"
    """Their bytes per hour."""
    STORED_BYTES = "stored-bytes"
    """Bytes of all stored originals, including superseded versions. They count for the document's owner."""


class LimitScope(StrEnum):
    """The counter's owner."""

    KEY = "key"
    USER = "user"
    ORG = "org"


WINDOW_SECONDS: Final[Mapping[Measure, int]] = MappingProxyType(
    {Measure.REQUESTS: 60, Measure.TOKENS: 60, Measure.UPLOADS: 3600, Measure.UPLOAD_BYTES: 3600}
)
"""Window lengths; the other measures have no window."""

ScopeLimits: TypeAlias = Mapping[LimitScope, int]
PlanLimits: TypeAlias = Mapping[Plan, Mapping[Measure, ScopeLimits]]
OwnLimits: TypeAlias = Mapping[tuple[Measure, LimitScope], int]
"""Limits of one organisation, user or key in addition to the plan's."""


def _scopes(user: int, org: int) -> ScopeLimits:
    """A key has the same limits as its user, shared by all of the user's keys."""
    return MappingProxyType({LimitScope.KEY: user, LimitScope.USER: user, LimitScope.ORG: org})


def _stored(user: int, org: int) -> ScopeLimits:
    """In GiB. API keys have no storage of their own."""
    return MappingProxyType({LimitScope.USER: user * GIB, LimitScope.ORG: org * GIB})


DEFAULT_LIMITS: Final[PlanLimits] = MappingProxyType(
    {
        "free": {
            Measure.REQUESTS: _scopes(600, 1_200),
            Measure.TOKENS: _scopes(400_000, 1_000_000),
            Measure.STREAMS: _scopes(16, 32),
            Measure.UPLOADS: _scopes(4_000, 8_000),
            Measure.UPLOAD_BYTES: _scopes(4 * GIB, 8 * GIB),
            Measure.STORED_BYTES: _stored(16, 32),
        },
        "basic": {
            Measure.REQUESTS: _scopes(1_200, 6_000),
            Measure.TOKENS: _scopes(1_000_000, 4_000_000),
            Measure.STREAMS: _scopes(32, 128),
            Measure.UPLOADS: _scopes(10_000, 40_000),
            Measure.UPLOAD_BYTES: _scopes(16 * GIB, 64 * GIB),
            Measure.STORED_BYTES: _stored(128, 512),
        },
        "pro": {
            Measure.REQUESTS: _scopes(6_000, 60_000),
            Measure.TOKENS: _scopes(6_000_000, 60_000_000),
            Measure.STREAMS: _scopes(256, 1_024),
            Measure.UPLOADS: _scopes(40_000, 200_000),
            Measure.UPLOAD_BYTES: _scopes(128 * GIB, 512 * GIB),
            Measure.STORED_BYTES: _stored(1_024, 8_192),
        },
    }
)
"""Far more than people need, but reached within seconds by a runaway script."""


def effective(plan: ScopeLimits, own: OwnLimits, measure: Measure) -> dict[LimitScope, int]:
    """Returns the effective limits: an organisation's own replace the plan's, a user's or key's apply if lower."""
    limits = dict(plan)
    for scope in LimitScope:
        most = own.get((measure, scope))
        if most is not None:
            limits[scope] = most if scope is LimitScope.ORG else min(most, plan.get(scope, most))
    return limits


class PlanLimitSettings(BaseSettings):
    """Mixed into the settings of processes that enforce limits."""

    model_config = settings_config("CITEWIRE_")

    plan_limits: str = Field(default="", validation_alias=AliasChoices("CITEWIRE_PLAN_LIMITS"))
    """Replacements for built-in limits, as JSON by plan, measure and scope, such as `{"free": {"requests": {"org":
    300}}}`; null is no limit."""

    @field_validator("plan_limits")
    @classmethod
    def _are_limits(cls, value: str) -> str:
        read_limits(value)
        return value

    def limits_by_plan(self) -> PlanLimits:
        """Returns the limits of every plan."""
        return read_limits(self.plan_limits)


def read_limits(text: str) -> PlanLimits:
    """Returns the built-in limits with the replacements in `text`.

    Raises:
        ValueError: It isn't such an object; the message says where.
    """
    if not text.strip():
        return DEFAULT_LIMITS
    limits: dict[Plan, dict[Measure, dict[LimitScope, int]]] = {
        plan: {measure: dict(DEFAULT_LIMITS[plan][measure]) for measure in Measure} for plan in _plans()
    }
    for plan, measures in _members(json.loads(text), "plans", _plans()):
        for measure, scopes in _members(measures, f"{plan}", list(Measure)):
            allowed = list(DEFAULT_LIMITS[plan][Measure(measure)])
            for scope, limit in _members(scopes, f"{plan}.{measure}", allowed):
                if limit is None:
                    limits[plan][Measure(measure)].pop(LimitScope(scope), None)
                elif isinstance(limit, int) and not isinstance(limit, bool) and 0 <= limit < 2**53:
                    limits[plan][Measure(measure)][LimitScope(scope)] = limit
                else:
                    raise ValueError(f"{plan}.{measure}.{scope} must be a whole number from 0, or null for no limit")
    return limits


def _plans() -> tuple[Plan, ...]:
    return get_args(Plan)


def _members(value: object, at: str, names: "list[Any] | tuple[Any, ...]") -> list[tuple[Any, Any]]:
    if not isinstance(value, dict):
        raise ValueError(f"{at} must be an object")  # noqa: TRY004 # pydantic turns a ValueError into a settings error
    members = cast("dict[str, object]", value)
    for name in members:
        if name not in names:
            raise ValueError(f"{at} has no {name!r}; there are: {', '.join(names)}")
    return list(members.items())
