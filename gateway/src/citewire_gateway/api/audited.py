"""What each route is in the audit trail. A test compares the two tables with the routes: none may be missing."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.types import Scope

from citewire_http.middleware import route_of
from citewire_kit.audit_events import Action

AUDITED: Final[Mapping[tuple[str, str], tuple[Action, str]]] = {
    ("POST", "/v1/chat"): (Action.CHAT, ""),
    ("POST", "/api/chat"): (Action.CHAT, ""),
    ("POST", "/api/chat/"): (Action.CHAT, ""),
    ("POST", "/api/chat/query"): (Action.CHAT, ""),
    ("POST", "/api/rag-chat"): (Action.CHAT, ""),
    ("POST", "/api/rag-chat/stream"): (Action.CHAT, ""),
    ("POST", "/v1/chat/completions"): (Action.CHAT, ""),
    ("POST", "/v1/embeddings"): (Action.MODEL_CALL, ""),
    ("POST", "/v1/rerank"): (Action.MODEL_CALL, ""),
    ("POST", "/v2/rerank"): (Action.MODEL_CALL, ""),
    ("POST", "/v1/search"): (Action.SEARCH, ""),
    ("GET", "/v1/chunks/{chunk_id}"): (Action.CHUNK_READ, "chunk:{chunk_id}"),
    ("POST", "/v1/verify"): (Action.VERIFY, ""),
    ("POST", "/v1/documents"): (Action.DOCUMENT_CREATE, ""),
    ("PUT", "/v1/documents/{document_id}"): (Action.DOCUMENT_REPLACE, "document:{document_id}"),
    ("GET", "/v1/documents"): (Action.DOCUMENT_LIST, ""),
    ("GET", "/v1/documents/{document_id}"): (Action.DOCUMENT_READ, "document:{document_id}"),
    ("PATCH", "/v1/documents/{document_id}"): (Action.DOCUMENT_UPDATE, "document:{document_id}"),
    ("DELETE", "/v1/documents/{document_id}"): (Action.DOCUMENT_DELETE, "document:{document_id}"),
    ("POST", "/v1/documents/{document_id}:retry"): (Action.DOCUMENT_RETRY, "document:{document_id}"),
    ("GET", "/v1/documents/{document_id}/content"): (Action.DOCUMENT_READ, "document:{document_id}"),
    ("GET", "/v1/documents/{document_id}/text"): (Action.DOCUMENT_READ, "document:{document_id}"),
    ("GET", "/v1/documents/{document_id}/events"): (Action.DOCUMENT_READ, "document:{document_id}"),
    ("GET", "/v1/collections"): (Action.COLLECTION_LIST, ""),
    ("POST", "/v1/collections"): (Action.COLLECTION_CREATE, ""),
    ("PATCH", "/v1/collections/{name:path}"): (Action.COLLECTION_UPDATE, "collection:{name}"),
    ("DELETE", "/v1/collections/{name:path}"): (Action.COLLECTION_DELETE, "collection:{name}"),
    ("GET", "/v1/collections/{name:path}/grants"): (Action.COLLECTION_GRANTS, "collection:{name}"),
    ("PUT", "/v1/collections/{name:path}/grants"): (Action.COLLECTION_GRANT, "collection:{name}"),
    ("GET", "/v1/spaces"): (Action.SPACE_LIST, ""),
    ("POST", "/v1/spaces:prepare"): (Action.SPACE_PREPARE, ""),
    ("POST", "/v1/spaces:switch"): (Action.SPACE_SWITCH, ""),
    ("PUT", "/v1/spaces/calibration"): (Action.SPACE_CALIBRATE, ""),
    ("GET", "/v1/conversations"): (Action.CONVERSATION_LIST, ""),
    ("GET", "/v1/conversations/{conversation_id}"): (Action.CONVERSATION_READ, "conversation:{conversation_id}"),
    ("GET", "/v1/conversations/{conversation_id}/export"): (
        Action.CONVERSATION_EXPORT,
        "conversation:{conversation_id}",
    ),
    ("PATCH", "/v1/conversations/{conversation_id}"): (Action.CONVERSATION_UPDATE, "conversation:{conversation_id}"),
    ("DELETE", "/v1/conversations/{conversation_id}"): (Action.CONVERSATION_DELETE, "conversation:{conversation_id}"),
    ("GET", "/v1/conversations/{conversation_id}/sharing"): (
        Action.CONVERSATION_READ,
        "conversation:{conversation_id}",
    ),
    ("PUT", "/v1/conversations/{conversation_id}/sharing"): (
        Action.CONVERSATION_SHARE,
        "conversation:{conversation_id}",
    ),
    ("GET", "/v1/keys"): (Action.KEY_LIST, ""),
    ("POST", "/v1/keys"): (Action.KEY_CREATE, ""),
    ("GET", "/v1/keys/{key_id}"): (Action.KEY_READ, "key:{key_id}"),
    ("POST", "/v1/keys/{key_id}:rotate"): (Action.KEY_ROTATE, "key:{key_id}"),
    ("DELETE", "/v1/keys/{key_id}"): (Action.KEY_REVOKE, "key:{key_id}"),
    ("GET", "/v1/auth/callback"): (Action.SESSION_BEGIN, ""),
    ("POST", "/v1/auth/refresh"): (Action.SESSION_REFRESH, ""),
    ("POST", "/v1/auth/logout"): (Action.SESSION_END, ""),
    ("GET", "/v1/profiles/{name}"): (Action.PROFILE_READ, "profile:{name}"),
    ("PUT", "/v1/profiles/{name}"): (Action.PROFILE_SET, "profile:{name}"),
    ("DELETE", "/v1/profiles/{name}"): (Action.PROFILE_DELETE, "profile:{name}"),
    ("GET", "/v1/providers"): (Action.PROVIDER_READ, ""),
    ("PATCH", "/v1/providers"): (Action.PROVIDER_RULES, ""),
    ("GET", "/v1/providers/{type}"): (Action.PROVIDER_READ, "provider:{type}"),
    ("PUT", "/v1/providers/{type}"): (Action.PROVIDER_SET, "provider:{type}"),
    ("DELETE", "/v1/providers/{type}"): (Action.PROVIDER_DELETE, "provider:{type}"),
    ("GET", "/v1/providers/{type}/{name}"): (Action.PROVIDER_READ, "provider:{type}/{name}"),
    ("PUT", "/v1/providers/{type}/{name}"): (Action.PROVIDER_SET, "provider:{type}/{name}"),
    ("POST", "/v1/providers/{type}/{name}:activate"): (Action.PROVIDER_SET, "provider:{type}/{name}"),
    ("DELETE", "/v1/providers/{type}/{name}"): (Action.PROVIDER_DELETE, "provider:{type}/{name}"),
    ("GET", "/v1/usage"): (Action.USAGE_READ, ""),
    ("GET", "/v1/budgets"): (Action.BUDGET_LIST, ""),
    ("PUT", "/v1/budgets"): (Action.BUDGET_SET, ""),
    ("DELETE", "/v1/budgets"): (Action.BUDGET_DELETE, ""),
    ("GET", "/v1/erasures"): (Action.ERASURE_READ, ""),
    ("POST", "/v1/erasures"): (Action.ERASURE_CREATE, ""),
    ("GET", "/v1/erasures/{erasure_id}"): (Action.ERASURE_READ, "erasure:{erasure_id}"),
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
    ("GET", "/v1/admin/groups"): (Action.GROUP_LIST, ""),
    ("POST", "/v1/admin/groups"): (Action.GROUP_CREATE, ""),
    ("DELETE", "/v1/admin/groups/{name}"): (Action.GROUP_DELETE, "group:{name}"),
    ("GET", "/v1/admin/groups/{name}/members"): (Action.GROUP_READ, "group:{name}"),
    ("PUT", "/v1/admin/groups/{name}/members/{user}"): (Action.GROUP_ADD, "group:{name}/{user}"),
    ("DELETE", "/v1/admin/groups/{name}/members/{user}"): (Action.GROUP_REMOVE, "group:{name}/{user}"),
}
"""Action and object, with the parameters of the address. Routes name further objects with `audit.touch`."""

UNAUDITED: Final[frozenset[tuple[str, str]]] = frozenset(
    {
        # What the server offers, the same for everyone of an organisation.
        ("GET", "/v1/models"),
        ("GET", "/v1/models/{name}"),
        ("GET", "/v1/profiles"),
        ("GET", "/v1/limits"),
        # The way to the identity provider, and who the caller is.
        ("GET", "/v1/auth/login"),
        ("GET", "/v1/auth/session"),
        # Probes and documentation, which need no caller.
        ("GET", "/livez"),
        ("GET", "/readyz"),
        ("GET", "/docs"),
        ("GET", "/docs/{name}"),
        # The page and its files.
        *(
            (method, path)
            for method in ("GET", "HEAD")
            for path in ("/", "/assets/{name}", "/icon.svg", "/licences.txt")
        ),
    }
)


def audited(scope: Scope) -> tuple[Action, str] | None:
    """Returns what a request is in the audit trail; None: nothing."""
    entry = AUDITED.get((scope["method"], route_of(scope)))
    if entry is None:
        return None
    action, name = entry
    parameters: dict[str, Any] = scope.get("path_params", {})
    return action, name.format_map(parameters)
