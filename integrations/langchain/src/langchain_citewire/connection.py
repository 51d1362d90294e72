"""The connection to a gateway that the retriever, the chat model and the embeddings share."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from langchain_core.utils import from_env, secret_from_env
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr

from citewire_client import AsyncCitewire, Citewire


class GatewayConnection(BaseModel):
    """Where the gateway is, and who asks."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", populate_by_name=True)

    base_url: str | None = Field(default_factory=from_env("CITEWIRE_URL", default=None))
    """The gateway's address; none: `CITEWIRE_URL`, or `http://127.0.0.1:8080`."""
    api_key: SecretStr | None = Field(default_factory=secret_from_env("CITEWIRE_API_KEY", default=None))
    """A key or token; none: `CITEWIRE_API_KEY`, or none."""
    timeout: float | None = Field(default=None, gt=0)
    """Seconds without a byte after which a connection counts as lost; none: 60."""
    max_retries: int = Field(default=2, ge=0)
    """Tries after the first."""
    client: Citewire | None = Field(default=None, exclude=True, repr=False)
    """A client of your own, which you close; none: one that is kept as long as this object."""
    async_client: AsyncCitewire | None = Field(default=None, exclude=True, repr=False)
    """A client of your own, which you close; none: one for each call, as it belongs to one event loop."""
    _client: Citewire | None = PrivateAttr(default=None)

    @property
    def gateway(self) -> Citewire:
        """The client for calls that block."""
        if self.client is not None:
            return self.client
        if self._client is None:
            self._client = Citewire(**self._arguments())
        return self._client

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[AsyncCitewire]:
        """The client for calls that await."""
        if self.async_client is not None:
            yield self.async_client
            return
        async with AsyncCitewire(**self._arguments()) as client:
            yield client

    def _arguments(self) -> dict[str, Any]:
        key = None if self.api_key is None else self.api_key.get_secret_value()
        return {"url": self.base_url, "api_key": key, "retries": self.max_retries, "timeout": self.timeout}
