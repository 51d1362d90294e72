"""Signing in to the MCP server: the protocol's own client, the certified `oidc-provider`, and a person at a browser."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from gateway_fake_servers import Fakes, running_fakes
from gateway_fakes import result
from local_ports import free_port
from mcp_process import listening, start
from oidc import Browser, OidcProvider, gateway_with_provider

if TYPE_CHECKING:
    from databases import Database

pytestmark = pytest.mark.system(program="npm", package="npm")

CALLBACK = "http://127.0.0.1:1/callback"


class ClientStorage(TokenStorage):
    """The data that a client stores between runs."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.registration: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.registration

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.registration = client_info


class Person:
    """A person who signs in when the client opens a browser."""

    def __init__(self, http: httpx.AsyncClient, account: str) -> None:
        self._browser = Browser(http)
        self._account = account
        self._back = ""
        self.signed_in = 0

    async def open(self, url: str) -> None:
        """Opens the provider's page and signs in."""
        form = await self._browser.follow(await self._browser.go(url))
        answer = await self._browser.go(str(form.url), method="POST", form={"account": self._account})
        self._back = (await self._browser.follow(answer, until=CALLBACK)).headers["location"]
        self.signed_in += 1

    async def come_back(self) -> AuthorizationCodeResult:
        """Returns the code and state with which the provider redirects the browser back."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(self._back).query).items()}
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))


@asynccontextmanager
async def signed_in(url: str, storage: ClientStorage, person: Person) -> AsyncGenerator[Client]:
    """The protocol's own client: it registers itself and sends the person to the provider's sign-in page."""
    metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(CALLBACK)], client_name="An editor")
    auth = OAuthClientProvider(url, metadata, storage, person.open, person.come_back)
    async with (
        httpx2.AsyncClient(auth=auth, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


@asynccontextmanager
async def serving(database: Database) -> AsyncGenerator[tuple[str, Fakes, OidcProvider]]:
    """An MCP server whose URL is its tokens' audience, and a gateway that accepts the provider's tokens."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    async with (
        running_fakes() as fakes,
        gateway_with_provider(database, fakes, audience=url) as (gateway, provider),
    ):
        fakes.retriever.results = [result(1)]
        process = start(gateway.url, port, "--issuer", provider.issuer, "--public-url", url)
        try:
            await listening(port)
            yield url, fakes, provider
        finally:
            process.terminate()
            process.wait(10)


@pytest.mark.client("mcp", "OAuth sign-in, given only the address: discovery, registration, PKCE, resource")
async def test_the_address_is_enough_to_sign_in(database: Database) -> None:
    storage = ClientStorage()
    async with serving(database) as (url, fakes, provider), httpx.AsyncClient(trust_env=False) as http:
        ada = Person(http, "ada")
        async with signed_in(url, storage, ada) as client:
            answer = await client.call_tool("search", {"query": "growth"})
            assert not answer.is_error, answer
        tenant = fakes.embedder.tenants[-1]
        assert tenant is not None
        assert (tenant.org_id, tenant.user_id, ada.signed_in) == ("acme", "ada", 1)
        async with signed_in(url, storage, ada) as client:
            assert (await client.list_tools()).tools
        assert ada.signed_in == 1, "the stored tokens are enough"

        foreign = await provider.service_token()  # from the same provider, for another audience
        refused = await http.post(url, json={}, headers={"Authorization": f"Bearer {foreign}"})
        assert refused.status_code == 401
        assert "resource_metadata=" in refused.headers["www-authenticate"]
