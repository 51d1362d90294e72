"""The audit action of each route. A test compares the two tables with the routes: none may be missing."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.types import Scope

from citewire_accounts.api.audited import AUDITED_ACCOUNTS
from citewire_http.middleware import route_of
from citewire_kit.audit_events import Action

AUDITED: Final[Mapping[tuple[str, str], tuple[Action, str]]] = {
    **AUDITED_ACCOUNTS,
    ("POST", "/v1/chat"): (Action.CHAT, ""),
    ("POST", "/api/chat"): (Action.CHAT, ""),
    ("POST", "/api/chat/"): (Action.CHAT, ""),
    ("POST", "/api/chat/query"): (Action.CHAT, ""),
    ("POST", "/api/rag-chat"): (Action.CHAT, ""),
    ("POST", "/api/rag-chat/stream"): (Action.CHAT, ""),
    ("POST", "/v1/chat/completions"): (Action.CHAT, ""),
    ("POST", "/anthropic/v1/messages"): (Action.CHAT, ""),
    ("POST", "/v1/responses"): (Action.CHAT, ""),
    ("GET", "/v1/responses/{response_id}"): (Action.CONVERSATION_READ, "response:{response_id}"),
    ("GET", "/v1/responses/{response_id}/input_items"): (Action.CONVERSATION_READ, "response:{response_id}"),
    ("POST", "/v1/responses/{response_id}/cancel"): (Action.CHAT_CANCEL, "response:{response_id}"),
    ("DELETE", "/v1/responses/{response_id}"): (Action.CONVERSATION_UPDATE, "response:{response_id}"),
    ("GET", "/v1/chat/{run_id}/events"): (Action.CHAT_READ, "exchange:{run_id}"),
    ("GET", "/v1/chat/{chat_id}/stream"): (Action.CHAT_READ, "chat:{chat_id}"),
    ("POST", "/v1/chat/{run_id}/cancel"): (Action.CHAT_CANCEL, "exchange:{run_id}"),
    ("POST", "/v1/embeddings"): (Action.MODEL_CALL, ""),
    ("POST", "/v1/rerank"): (Action.MODEL_CALL, ""),
    ("POST", "/v2/rerank"): (Action.MODEL_CALL, ""),
    ("POST", "/v1/search"): (Action.SEARCH, ""),
    ("GET", "/v1/chunks/{chunk_id}"): (Action.CHUNK_READ, "chunk:{chunk_id}"),
    ("POST", "/v1/verify"): (Action.VERIFY, ""),
    ("POST", "/v1/documents"): (Action.DOCUMENT_CREATE, ""),
    ("POST", "/v1/documents:batch"): (Action.DOCUMENT_BATCH, ""),
    ("PUT", "/v1/documents/{document_id}"): (Action.DOCUMENT_REPLACE, "document:{document_id}"),
    ("GET", "/v1/documents"): (Action.DOCUMENT_LIST, ""),
    ("GET", "/v1/documents/{document_id}"): (Action.DOCUMENT_READ, "document:{document_id}"),
    ("PATCH", "/v1/documents/{document_id}"): (Action.DOCUMENT_UPDATE, "document:{document_id}"),
    ("DELETE", "/v1/documents/{document_id}"): (Action.DOCUMENT_DELETE, "document:{document_id}"),
    ("POST", "/v1/documents/{document_id}:retry"): (Action.DOCUMENT_RETRY, "document:{document_id}"),
    ("GET", "/v1/documents/{document_id}/content"): (Action.DOCUMENT_READ, "document:{document_id}"),
    ("GET", "/v1/documents/{document_id}/text"): (Action.DOCUMENT_READ, "document:{document_id}"),
    ("GET", "/v1/documents/{document_id}/locate"): (Action.DOCUMENT_READ, "document:{document_id}"),
    ("GET", "/v1/documents/{document_id}/events"): (Action.DOCUMENT_READ, "document:{document_id}"),
    ("GET", "/v1/documents/{document_id}/tables"): (Action.DOCUMENT_READ, "document:{document_id}"),
    ("POST", "/v1/documents/{document_id}/tables:query"): (Action.DOCUMENT_READ, "document:{document_id}"),
    ("GET", "/v1/collections"): (Action.COLLECTION_LIST, ""),
    ("POST", "/v1/collections"): (Action.COLLECTION_CREATE, ""),
    ("PATCH", "/v1/collections/{name:path}"): (Action.COLLECTION_UPDATE, "collection:{name}"),
    ("DELETE", "/v1/collections/{name:path}"): (Action.COLLECTION_DELETE, "collection:{name}"),
    ("GET", "/v1/collections/{name:path}/grants"): (Action.COLLECTION_GRANTS, "collection:{name}"),
    ("PUT", "/v1/collections/{name:path}/grants"): (Action.COLLECTION_GRANT, "collection:{name}"),
    ("GET", "/v1/vector_stores"): (Action.COLLECTION_LIST, ""),
    ("POST", "/v1/vector_stores"): (Action.COLLECTION_CREATE, ""),
    ("GET", "/v1/vector_stores/{name:path}"): (Action.COLLECTION_LIST, "collection:{name}"),
    ("DELETE", "/v1/vector_stores/{name:path}"): (Action.COLLECTION_DELETE, "collection:{name}"),
    ("POST", "/v1/vector_stores/{name:path}/search"): (Action.SEARCH, "collection:{name}"),
    ("GET", "/v1/vector_stores/{name:path}/files"): (Action.DOCUMENT_LIST, "collection:{name}"),
    ("POST", "/v1/vector_stores/{name:path}/files"): (Action.DOCUMENT_UPDATE, "collection:{name}"),
    ("GET", "/v1/vector_stores/{name:path}/files/{file_id}"): (Action.DOCUMENT_READ, "file:{name}/{file_id}"),
    ("DELETE", "/v1/vector_stores/{name:path}/files/{file_id}"): (Action.DOCUMENT_UPDATE, "file:{name}/{file_id}"),
    ("POST", "/v1/files"): (Action.DOCUMENT_CREATE, ""),
    ("GET", "/v1/files"): (Action.DOCUMENT_LIST, ""),
    ("GET", "/v1/files/{file_id}"): (Action.DOCUMENT_READ, "document:{file_id}"),
    ("DELETE", "/v1/files/{file_id}"): (Action.DOCUMENT_DELETE, "document:{file_id}"),
    ("GET", "/v1/files/{file_id}/content"): (Action.DOCUMENT_READ, "document:{file_id}"),
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
    ("GET", "/v1/feedback"): (Action.FEEDBACK_LIST, ""),
    ("GET", "/v1/profiles/{name}"): (Action.PROFILE_READ, "profile:{name}"),
    ("PUT", "/v1/profiles/{name}"): (Action.PROFILE_SET, "profile:{name}"),
    ("DELETE", "/v1/profiles/{name}"): (Action.PROFILE_DELETE, "profile:{name}"),
}
"""Action and object, with path parameters. Routes name further objects with `audit.touch`."""

UNAUDITED: Final[frozenset[tuple[str, str]]] = frozenset(
    {
        # What the server offers, the same for everyone in an organisation.
        ("GET", "/v1/models"),
        ("GET", "/v1/models/{name}"),
        ("GET", "/anthropic/v1/models"),
        ("GET", "/anthropic/v1/models/{name}"),
        ("POST", "/anthropic/v1/messages/count_tokens"),
        ("GET", "/v1/profiles"),
        ("GET", "/v1/limits"),
        ("GET", "/v1/operator/plans"),
        # Redirects to the identity provider, and who the caller is.
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
            for path in ("/", "/assets/{name:path}", "/icon.svg", "/licences.txt")
        ),
    }
)


def audited(scope: Scope) -> tuple[Action, str] | None:
    """Returns a request's action and object in the audit trail; None if it isn't recorded."""
    entry = AUDITED.get((scope["method"], route_of(scope)))
    if entry is None:
        return None
    action, name = entry
    parameters: dict[str, Any] = scope.get("path_params", {})
    return action, name.format_map(parameters)
