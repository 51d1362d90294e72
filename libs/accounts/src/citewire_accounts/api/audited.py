"""What each route about accounts is in the audit trail. A test finds a route that is missing."""

from collections.abc import Mapping
from typing import Final

from citewire_kit.audit_events import Action

AUDITED_ACCOUNTS: Final[Mapping[tuple[str, str], tuple[Action, str]]] = {
    ("GET", "/v1/keys"): (Action.KEY_LIST, ""),
    ("POST", "/v1/keys"): (Action.KEY_CREATE, ""),
    ("GET", "/v1/keys/{key_id}"): (Action.KEY_READ, "key:{key_id}"),
    ("POST", "/v1/keys/{key_id}:rotate"): (Action.KEY_ROTATE, "key:{key_id}"),
    ("DELETE", "/v1/keys/{key_id}"): (Action.KEY_REVOKE, "key:{key_id}"),
    ("GET", "/v1/auth/callback"): (Action.SESSION_BEGIN, ""),
    ("GET", "/v1/auth/callback/{issuer}"): (Action.SESSION_BEGIN, "issuer:{issuer}"),
    ("POST", "/v1/auth/refresh"): (Action.SESSION_REFRESH, ""),
    ("POST", "/v1/auth/logout"): (Action.SESSION_END, ""),
    ("GET", "/v1/providers"): (Action.PROVIDER_READ, ""),
    ("PATCH", "/v1/providers"): (Action.PROVIDER_RULES, ""),
    ("GET", "/v1/providers/{type}"): (Action.PROVIDER_READ, "provider:{type}"),
    ("PUT", "/v1/providers/{type}"): (Action.PROVIDER_SET, "provider:{type}"),
    ("DELETE", "/v1/providers/{type}"): (Action.PROVIDER_DELETE, "provider:{type}"),
    ("GET", "/v1/providers/{type}/{name}"): (Action.PROVIDER_READ, "provider:{type}/{name}"),
    ("PUT", "/v1/providers/{type}/{name}"): (Action.PROVIDER_SET, "provider:{type}/{name}"),
    ("POST", "/v1/providers/{type}/{name}:activate"): (Action.PROVIDER_SET, "provider:{type}/{name}"),
    ("POST", "/v1/providers/{type}:deactivate"): (Action.PROVIDER_SET, "provider:{type}"),
    ("DELETE", "/v1/providers/{type}/{name}"): (Action.PROVIDER_DELETE, "provider:{type}/{name}"),
    ("GET", "/v1/usage"): (Action.USAGE_READ, ""),
    ("GET", "/v1/budgets"): (Action.BUDGET_LIST, ""),
    ("PUT", "/v1/budgets"): (Action.BUDGET_SET, ""),
    ("DELETE", "/v1/budgets"): (Action.BUDGET_DELETE, ""),
    ("GET", "/v1/erasures"): (Action.ERASURE_READ, ""),
    ("POST", "/v1/erasures"): (Action.ERASURE_CREATE, ""),
    ("GET", "/v1/erasures/{erasure_id}"): (Action.ERASURE_READ, "erasure:{erasure_id}"),
    ("GET", "/v1/users/{user}/export"): (Action.USER_EXPORT, "user:{user}"),
    ("GET", "/v1/admin/audit"): (Action.AUDIT_EXPORT, ""),
    ("GET", "/v1/admin/retention"): (Action.RETENTION_READ, ""),
    ("PUT", "/v1/admin/retention"): (Action.RETENTION_SET, ""),
    ("GET", "/v1/admin/organisation"): (Action.ORGANISATION_READ, ""),
    ("GET", "/v1/admin/users"): (Action.USER_LIST, ""),
    ("POST", "/v1/admin/users"): (Action.USER_CREATE, ""),
    ("GET", "/v1/admin/users/{user}"): (Action.USER_READ, "user:{user}"),
    ("POST", "/v1/admin/users/{user}:disable"): (Action.USER_DISABLE, "user:{user}"),
    ("POST", "/v1/admin/users/{user}:enable"): (Action.USER_ENABLE, "user:{user}"),
    ("PUT", "/v1/admin/users/{user}/role"): (Action.USER_ROLE, "user:{user}"),
    ("GET", "/v1/admin/limits"): (Action.LIMIT_LIST, ""),
    ("PUT", "/v1/admin/limits"): (Action.LIMIT_SET, ""),
    ("DELETE", "/v1/admin/limits"): (Action.LIMIT_DELETE, ""),
    ("PUT", "/v1/conversations/{conversation_id}/answers/{exchange_id}/feedback"): (
        Action.FEEDBACK_SET,
        "answer:{conversation_id}/{exchange_id}",
    ),
    ("DELETE", "/v1/conversations/{conversation_id}/answers/{exchange_id}/feedback"): (
        Action.FEEDBACK_DELETE,
        "answer:{conversation_id}/{exchange_id}",
    ),
    ("GET", "/v1/admin/groups"): (Action.GROUP_LIST, ""),
    ("POST", "/v1/admin/groups"): (Action.GROUP_CREATE, ""),
    ("DELETE", "/v1/admin/groups/{name}"): (Action.GROUP_DELETE, "group:{name}"),
    ("GET", "/v1/admin/groups/{name}/members"): (Action.GROUP_READ, "group:{name}"),
    ("PUT", "/v1/admin/groups/{name}/members/{user}"): (Action.GROUP_ADD, "group:{name}/{user}"),
    ("DELETE", "/v1/admin/groups/{name}/members/{user}"): (Action.GROUP_REMOVE, "group:{name}/{user}"),
}
"""Action and object, with the parameters of the address. Routes name further objects with `audit.touch`."""
