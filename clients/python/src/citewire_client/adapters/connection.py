"""The connection to a gateway that the classes of a framework share."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from citewire_client._async.client import AsyncCitewire
from citewire_client._sync.client import Citewire


class GatewayConnection:
    """Clients for calls that block and for calls that await."""

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
        """Nothing is sent yet.

        Args:
            url: As `Citewire` takes it.
            api_key: As `Citewire` takes it.
            timeout: As `Citewire` takes it.
            retries: Tries after the first.
            client: A client of the caller's own, who closes it.
            async_client: A client of the caller's own, who closes it; None: one for each call, as a client belongs to
                one event loop.
        """
        self._url = url
        self._api_key = api_key
        self._timeout = timeout
        self._retries = retries
        self._client = client
        self._async_client = async_client

    @property
    def blocking(self) -> Citewire:
        """The client for calls that block; made when it is needed, and kept."""
        if self._client is None:
            self._client = Citewire(self._url, api_key=self._api_key, timeout=self._timeout, retries=self._retries)
        return self._client

    @asynccontextmanager
    async def awaiting(self) -> AsyncGenerator[AsyncCitewire]:
        """The client for calls that await."""
        if self._async_client is not None:
            yield self._async_client
            return
        async with AsyncCitewire(
            self._url, api_key=self._api_key, timeout=self._timeout, retries=self._retries
        ) as client:
            yield client
