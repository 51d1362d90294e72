"""What every connection to a gateway has, whoever opens it: patience, trust, and how long it asks to wait."""

import math
import ssl
from collections.abc import Mapping
from typing import Final

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 60.0
"""Longest wait for the next bytes; as streams send a heartbeat every 15 s, the connection is lost then."""


def trust(url: str) -> ssl.SSLContext:
    """The system's certificates for https. Without TLS none: loading them takes longer than a request."""
    return ssl.create_default_context() if url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait before another try makes sense; None: the answer doesn't say."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
