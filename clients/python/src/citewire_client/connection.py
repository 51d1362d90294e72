"""Common to all connections to a gateway: timeouts, trusted certificates, and the wait that a response asks for."""

import math
import ssl
from collections.abc import Mapping
from typing import Final

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 60.0
"""Maximum wait for the next bytes; streams send a heartbeat every 15 s, so the connection is lost after that."""


def trust(url: str) -> ssl.SSLContext:
    """The system's certificates for https. None are loaded without TLS: loading them takes longer than a request."""
    return ssl.create_default_context() if url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait before retrying; None: the response doesn't specify it."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
