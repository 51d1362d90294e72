"""Limits on the duration of a request and the size of its body."""

from citewire_gateway.settings import MIB, GatewaySettings
from citewire_http.middleware import BodyLimit, Limit, Seconds

_CHATS = ("/v1/chat", "/v1/responses", "/anthropic/", "/api/chat", "/api/rag-chat")
_DOCUMENTS = ("/v1/documents", "/v1/files")
_TRANSFERS = ("/content", "/events", "/tables")
_USERS = "/v1/users"
_FORM_OVERHEAD = MIB  # a form's other fields and boundaries


def time_budget(settings: GatewaySettings) -> Seconds:
    """Returns the time budgets of chats, transfers and other requests."""

    def seconds(method: str, path: str) -> float:
        if path.startswith(_CHATS):
            return settings.chat_seconds
        if path.startswith(_DOCUMENTS) and (method in ("POST", "PUT") or path.endswith(_TRANSFERS)):
            return settings.transfer_seconds
        return settings.transfer_seconds if path.startswith(_USERS) else settings.request_seconds

    return seconds


def is_upload(path: str, content_type: str) -> bool:
    """Whether a request's body is a form with a document."""
    return path.startswith(_DOCUMENTS) and content_type.lower().startswith("multipart/form-data")


def body_limit(settings: GatewaySettings) -> BodyLimit:
    """Returns the size limits of document forms and of other bodies."""

    def limit(path: str, content_type: str) -> Limit:
        if is_upload(path, content_type):
            return Limit("the upload", settings.max_upload_bytes, settings.max_upload_bytes + _FORM_OVERHEAD)
        return Limit("the body", settings.max_json_bytes, settings.max_json_bytes)

    return limit
