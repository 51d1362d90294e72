"""With auth off, only this machine's own programs and pages may call.

Listening on loopback keeps other machines out, but not web pages: a browser sends what any page asks for to
`localhost`, and a name that a stranger points at 127.0.0.1 makes it look like the same site.
"""

from starlette.types import ASGIApp, Receive, Scope, Send

from citewire_gateway.api.problems import problem_response
from citewire_gateway.http.middleware import header
from citewire_kit.errors import PermissionDenied
from citewire_kit.settings import is_loopback


class LocalOnly:
    """Refuses requests whose Host or Origin isn't this machine."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or answers 403."""
        if scope["type"] != "http" or (_is_local(header(scope, b"host")) and _from_here(header(scope, b"origin"))):
            await self._app(scope, receive, send)
            return
        error = PermissionDenied(
            "while authentication is off, only addresses of this machine may be used (localhost, 127.0.0.1)",
            reason="PERMISSION_DENIED",
        )
        await problem_response(error)(scope, receive, send)


def _from_here(origin: str) -> bool:
    """An Origin is sent by browsers only; a page of another site can't leave it out of a POST (it may be `null`)."""
    _, scheme_end, authority = origin.partition("://")
    return not origin or (bool(scheme_end) and _is_local(authority))


def _is_local(authority: str) -> bool:
    """Whether `host`, `host:port` or `[address]:port` is this machine; HTTP/1.0 clients may send none."""
    host, bracket, _ = authority.removeprefix("[").partition("]")
    return not authority or is_loopback(host if bracket else authority.rpartition(":")[0] or authority)
