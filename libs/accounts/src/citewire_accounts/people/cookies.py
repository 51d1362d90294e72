"""The two browser cookies, and which requests may use them."""

from collections.abc import Collection
from typing import Final

SESSION_COOKIE: Final = "__Host-citewire-session"
PENDING_COOKIE: Final = "__Host-citewire-sign-in"
"""The cookie with sealed data while the browser is on the provider's pages."""

_READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def set_cookie(name: str, value: str, seconds: float) -> str:
    """Returns the header that sets a cookie; 0 seconds deletes it.

    `__Host-` lets a browser take it only from this host, over TLS or on this machine, and for every path, so that no
    neighbour under the same domain can plant one. Lax, as the sign-in comes back from another site.
    """
    return f"{name}={value}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={int(seconds)}"


def may_use_session(
    method: str, *, origin: str, site: str, mode: str, own_origin: str, allowed: Collection[str]
) -> bool:
    """Whether a request with a session cookie comes from a page that may act for its user.

    Browsers send `Origin` with modifying requests, and `Sec-Fetch-Site` with all; pages can't set them.

    Args:
        method: The request's.
        origin: Its `Origin`, or "".
        site: Its `Sec-Fetch-Site`, or "".
        mode: Its `Sec-Fetch-Mode`, or "".
        own_origin: This server's origin for browsers.
        allowed: Other origins whose pages may act with cookies.
    """
    if origin:
        return origin == own_origin or origin in allowed
    if method in _READING_METHODS:  # other origins can't read the response, and links may lead here
        return site in ("", "same-origin", "none") or mode == "navigate"
    return site == "same-origin"
