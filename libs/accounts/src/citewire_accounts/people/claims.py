"""Reads users from a provider's claims."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

from citewire_accounts.people.issuers import Issuer
from citewire_kit.errors import PermissionDenied
from citewire_kit.tenant import MAX_GROUP_CHARS, MAX_GROUPS, ROLES, Plan, is_token

Claims = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Person:
    """A user as a provider names it."""

    org_id: str
    user_id: str
    groups: tuple[str, ...]
    roles: tuple[str, ...] | None
    """None for the roles assigned by the organisation."""
    plan: Plan | None
    """None for the organisation's present plan."""


def read_person(issuer: Issuer, claims: Claims) -> Person:
    """Reads the user from a token's claims.

    Raises:
        PermissionDenied: Reason `CLAIM_INVALID`, metadata `claim`: a claim is missing, or names what it may not.
    """
    return Person(
        org_id=_org(issuer, claims),
        user_id=_user(issuer, claims),
        groups=_groups(issuer, claims),
        roles=_roles(issuer, claims) if issuer.roles_claim else None,
        plan=_plan(issuer, claims) if issuer.plan_claim else None,
    )


def _org(issuer: Issuer, claims: Claims) -> str:
    if issuer.org:
        return issuer.org
    org = _value(claims, issuer.org_claim)
    if not isinstance(org, str) or org not in issuer.orgs:
        raise _refused(issuer.org_claim, "must name one of the organisations that this provider may sign in to")
    return org


def _user(issuer: Issuer, claims: Claims) -> str:
    user = _value(claims, issuer.user_claim)
    if not isinstance(user, str) or not user:
        raise _refused(issuer.user_claim, "must name the user")
    name = issuer.user_prefix + user
    # Subjects may contain anything (`auth0|123`, lone surrogates); invalid names become equally unique valid ones.
    digest = hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()
    return name if is_token(name) else f"{issuer.user_prefix}sub_{digest[:40]}"


def _groups(issuer: Issuer, claims: Claims) -> tuple[str, ...]:
    if not issuer.groups_claim:
        return ()
    elsewhere = claims.get("_claim_names")
    if isinstance(elsewhere, Mapping) and issuer.groups_claim in elsewhere:
        raise _refused(
            issuer.groups_claim, "is missing because there are too many groups: let the identity provider name fewer"
        )
    groups = _texts(issuer.groups_claim, _value(claims, issuer.groups_claim))
    if len(groups) > MAX_GROUPS:
        raise _refused(
            issuer.groups_claim,
            f"names {len(groups)} groups; at most {MAX_GROUPS} are allowed: let the identity provider name fewer",
        )
    for group in groups:
        if not 0 < len(group) <= MAX_GROUP_CHARS or not group.isprintable():
            raise _refused(issuer.groups_claim, f"must have groups of 1-{MAX_GROUP_CHARS} printable characters")
    return groups


def _roles(issuer: Issuer, claims: Claims) -> tuple[str, ...]:
    """The highest of the claim's roles."""
    given = {issuer.roles.get(text) for text in _texts(issuer.roles_claim, _value(claims, issuer.roles_claim))}
    return (next((role for role in reversed(ROLES) if role in given), issuer.default_role),)


def _plan(issuer: Issuer, claims: Claims) -> Plan:
    plan = _value(claims, issuer.plan_claim)
    if plan not in get_args(Plan):
        raise _refused(issuer.plan_claim, f"must be one of {', '.join(get_args(Plan))}")
    return cast("Plan", plan)


def _texts(claim: str, value: object) -> tuple[str, ...]:
    """A claim's texts, each once: a list, a single one, or none."""
    values = [] if value is None else cast("list[object]", value) if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in values):
        raise _refused(claim, "must be a list of texts")
    return tuple(dict.fromkeys(cast("list[str]", values)))


def _value(claims: Claims, name: str) -> object:
    """A claim by its name or path."""
    if name in claims:
        return claims[name]
    *parents, last = name.split(".")
    members: Claims = claims
    for parent in parents:
        inner = members.get(parent)
        members = cast("Claims", inner) if isinstance(inner, Mapping) else {}
    return members.get(last)


def _refused(claim: str, message: str) -> PermissionDenied:
    return PermissionDenied(f"the claim {claim} {message}", reason="CLAIM_INVALID", metadata={"claim": claim})
