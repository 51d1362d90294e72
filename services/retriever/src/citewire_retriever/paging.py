"""Page tokens as in AIP-158: opaque, and valid only for the query that they come from.

A token is the position at which the last page ended, with a fingerprint of the query. It is neither a secret nor a
permission: what a page shows depends on the tenant of its own call.
"""

import base64
import binascii
import hashlib
import json
from typing import Final

from citewire_kit.errors import FieldViolation, InvalidArgument

MAX_PAGE_SIZE: Final = 1000
DEFAULT_PAGE_SIZE: Final = 50
_FINGERPRINT_BYTES: Final = 16
_MAX_TOKEN: Final = 2048


def fingerprint(*query: object) -> bytes:
    """Returns the fingerprint that binds a token to a query; the parts must have a complete `repr`."""
    return hashlib.sha256(repr(query).encode("utf-8", "surrogatepass")).digest()[:_FINGERPRINT_BYTES]


def encode(query: bytes, position: list[str | int]) -> str:
    """Creates a token.

    Args:
        query: The query's `fingerprint`.
        position: The end of the page.
    """
    body = query + json.dumps(position, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_checksum(body) + body).rstrip(b"=").decode()


def decode(token: str, query: bytes) -> list[str | int]:
    """Returns the position in a token.

    Raises:
        InvalidArgument: The token isn't one of ours, or comes from another query (reason `INVALID_PAGE_TOKEN`).
    """
    try:
        raw = base64.b64decode(token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise _invalid("isn't a page token from this call") from None
    checksum, body = raw[:8], raw[8:]
    if len(token) > _MAX_TOKEN or len(body) <= _FINGERPRINT_BYTES or checksum != _checksum(body):
        raise _invalid("isn't a page token from this call")
    if body[:_FINGERPRINT_BYTES] != query:
        raise _invalid("belongs to a different query: only page_size may change between pages")
    position: list[str | int] = json.loads(body[_FINGERPRINT_BYTES:])
    return position


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(b"citewire page token 1" + body).digest()[:8]


def _invalid(message: str) -> InvalidArgument:
    return InvalidArgument(
        f"page_token {message}", reason="INVALID_PAGE_TOKEN", violations=[FieldViolation("page_token", message)]
    )
