"""Callers of one gateway, each with a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from api_keys import bearer, key_for
from gateway_process import Gateway

if TYPE_CHECKING:
    from databases import Database


class People:
    """Callers of one gateway, each with a key."""

    def __init__(self, gateway: Gateway, database: Database) -> None:
        self.gateway = gateway
        self._database = database
        self._headers: dict[str, dict[str, str]] = {}

    async def add(self, org: str, user: str) -> None:
        self._headers[user] = bearer((await key_for(self._database, org, user))["key"])

    def headers(self, user: str) -> dict[str, str]:
        """The headers of a user's requests."""
        return self._headers[user]

    async def call(self, user: str, method: str, path: str, **options: Any) -> Any:  # noqa: ANN401 # a response, read loosely
        headers = self._headers[user] | options.pop("headers", {})
        return await self.gateway.http.request(method, path, headers=headers, **options)

    async def ask(self, user: str, question: str = "How much?", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 # a request's
        response = await self.call(user, "POST", "/v1/chat", json={"question": question, "stream": False, **fields})
        assert response.status_code == 200, response.text
        return response.json()
