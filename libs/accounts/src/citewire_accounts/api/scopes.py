"""The scope that a request needs. A route not listed here needs `read` to read and `write` to change."""

from collections.abc import Collection
from typing import Final

from citewire_accounts.tenants.identity import Caller, Scope
from citewire_kit.errors import PermissionDenied

_READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_BY_TAG: Final[dict[str, Scope]] = {
    "compatible": "chat",
    "search": "read",
    "accounting": "admin",
    "erasures": "admin",
    "profiles": "admin",
    "spaces": "admin",
}
"""The scope that a route with this tag needs, except for reading."""
_ALWAYS: Final[dict[str, Scope]] = {"keys": "admin", "admin": "admin", "chat": "chat"}
"""The scope that a route with this tag always needs."""


def scope_for(method: str, tags: Collection[object]) -> Scope:
    """Returns the scope that a route with these tags needs."""
    for tag, scope in _ALWAYS.items():
        if tag in tags:
            return scope
    if method in _READING_METHODS:
        return "read"
    for tag, scope in _BY_TAG.items():
        if tag in tags:
            return scope
    return "write"


def check_scope(caller: Caller, needed: Scope) -> None:
    """Rejects a caller whose key or token lacks the scope.

    Raises:
        PermissionDenied: Reason `SCOPE_MISSING`, metadata `scope`.
    """
    if needed not in caller.scopes:
        raise PermissionDenied(
            f"this needs the scope {needed}; the request's key or token has {', '.join(caller.scopes)}",
            reason="SCOPE_MISSING",
            metadata={"scope": needed},
        )
