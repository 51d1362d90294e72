"""Bearer tokens over HTTP, which the gateway validates."""

import hashlib

import httpx
from cachetools import TTLCache
from mcp.server.auth.provider import AccessToken, TokenVerifier

from citewire_client import AsyncCitewire, AuthenticationError

_SECONDS = 30.0
"""How long a valid token isn't validated again; the gateway still checks each call."""
_MANY = 10_000


class GatewayTokenVerifier(TokenVerifier):
    """Accepts the gateway's tokens: their audience is Citewire, and this server is another way into it."""

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        """`url` is the gateway's URL; `http` connects to it."""
        self._url = url
        self._http = http
        self._known = TTLCache[bytes, AccessToken](_MANY, _SECONDS)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Returns the caller that a token identifies; None if it isn't valid.

        Raises:
            CitewireError: The gateway can't validate it now.
        """
        digest = hashlib.sha256(token.encode()).digest()
        access = self._known.get(digest)
        if access is None:
            try:
                caller = await AsyncCitewire(self._url, api_key=token, http=self._http).get_caller()
            except AuthenticationError:
                return None
            # The protocol's sessions belong to the caller who opened them.
            who = f"{caller.org}/{caller.user}"
            access = AccessToken(token=token, client_id=who, scopes=[], subject=caller.user)
            self._known[digest] = access
        return access
