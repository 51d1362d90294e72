"""Bearer tokens over HTTP, which the gateway validates."""

import hashlib

import httpx
from cachetools import TTLCache
from mcp.server.auth.provider import AccessToken, TokenVerifier

from citewire_client import AsyncCitewire, AuthenticationError

_SECONDS = 30.0
"""How long a good token isn't asked for again; what a call does is checked with each call."""
_MANY = 10_000


class GatewayTokenVerifier(TokenVerifier):
    """Takes the tokens that the gateway takes: they are made for Citewire, of which this server is one more door."""

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        """`url` is the gateway's, which `http` reaches."""
        self._url = url
        self._http = http
        self._known = TTLCache[bytes, AccessToken](_MANY, _SECONDS)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Returns who brings a token; None: it isn't good.

        Raises:
            CitewireError: The gateway can't say.
        """
        digest = hashlib.sha256(token.encode()).digest()
        access = self._known.get(digest)
        if access is None:
            try:
                caller = await AsyncCitewire(self._url, api_key=token, http=self._http).get_caller()
            except AuthenticationError:
                return None
            # Sessions of this protocol belong to whom they were opened by.
            who = f"{caller.org}/{caller.user}"
            access = AccessToken(token=token, client_id=who, scopes=[], subject=caller.user)
            self._known[digest] = access
        return access
