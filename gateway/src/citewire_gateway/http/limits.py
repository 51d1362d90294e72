"""How long a request may take and how large its body may be, by its address; how many uploads are received at once."""

from collections.abc import Generator
from contextlib import contextmanager

from citewire_gateway.http.middleware import BodyLimit, Limit, Seconds
from citewire_gateway.settings import MIB, GatewaySettings
from citewire_kit.errors import ResourceExhausted

_CHATS = ("/v1/chat", "/api/chat", "/api/rag-chat")
_DOCUMENTS = "/v1/documents"
_TRANSFERS = ("/content", "/events")
_FORM_OVERHEAD = MIB  # a form's other fields and boundaries


def time_budget(settings: GatewaySettings) -> Seconds:
    """Returns the time budgets: chats, transfers, and all the rest."""

    def seconds(method: str, path: str) -> float:
        if path.startswith(_CHATS):
            return settings.chat_seconds
        if path.startswith(_DOCUMENTS) and (method in ("POST", "PUT") or path.endswith(_TRANSFERS)):
            return settings.transfer_seconds
        return settings.request_seconds

    return seconds


def body_limit(settings: GatewaySettings) -> BodyLimit:
    """Returns the limits of bodies: forms of documents, and all the rest."""

    def limit(path: str, content_type: str) -> Limit:
        if path.startswith(_DOCUMENTS) and content_type.lower().startswith("multipart/form-data"):
            return Limit("the upload", settings.max_upload_bytes, settings.max_upload_bytes + _FORM_OVERHEAD)
        return Limit("the body", settings.max_json_bytes, settings.max_json_bytes)

    return limit


class UploadSlots:
    """Admission by permit: each upload has a spool file, and disks are finite.

    One too many is refused at once, instead of waiting with its body half-sent.
    """

    def __init__(self, most: int) -> None:
        self._free = most

    @contextmanager
    def take(self) -> Generator[None]:
        """Holds a slot during the block.

        Raises:
            ResourceExhausted: All are taken (`OVERLOADED`).
        """
        if self._free <= 0:
            raise ResourceExhausted("too many uploads at once", reason="OVERLOADED", retry_after=2.0)
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1
