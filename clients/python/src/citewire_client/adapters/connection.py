"""The connection to a gateway, shared by the classes of a framework."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from citewire_client._async.client import AsyncCitewire
from citewire_client._sync.client import Citewire


class GatewayConnection:
    """Clients for synchronous and asynchronous calls."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float | None = None,
        retries: int = 2,
        client: Citewire | None = None,
        async_client: AsyncCitewire | None = None,
    ) -> None:
        """Prepares the clients; no request is sent.

        Args:
            url: As for `Citewire`.
            api_key: As for `Citewire`.
            timeout: As for `Citewire`.
            retries: Number of retries after the first try.
            client: The caller's own client, which the caller closes.
            async_client: The caller's own client, which the caller closes; None: a new one for each call, as a client
                belongs to one event loop.
        """
        self._url = url
        self._api_key = api_key
        self._timeout = timeout
        self._retries = retries
        self._client = client
        self._async_client = async_client

    @property
    def blocking(self) -> Citewire:
        """The client for synchronous calls, created on first use and reused."""
        if self._client is None:
            self._client = Citewire(self._url, api_key=self._api_key, timeout=self._timeout, retries=self._retries)
        return self._client

    @asynccontextmanager
    async def awaiting(self) -> AsyncGenerator[AsyncCitewire]:
        """The client for asynchronous calls."""
        if self._async_client is not None:
            yield self._async_client
            return
        async with AsyncCitewire(
            self._url, api_key=self._api_key, timeout=self._timeout, retries=self._retries
        ) as client:
            yield client
