"""The connection to a gateway that the retriever, the chat model and the embeddings share."""

from langchain_core.utils import from_env, secret_from_env
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr

from citewire_client import AsyncCitewire, Citewire, adapters


class GatewayConnection(BaseModel):
    """The address of the gateway and the caller's credentials."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", populate_by_name=True)

    base_url: str | None = Field(default_factory=from_env("CITEWIRE_URL", default=None))
    """The gateway's address; none: `CITEWIRE_URL`, or `http://127.0.0.1:8080`."""
    api_key: SecretStr | None = Field(default_factory=secret_from_env("CITEWIRE_API_KEY", default=None))
    """An API key or token; none: `CITEWIRE_API_KEY` if it is set."""
    timeout: float | None = Field(default=None, gt=0)
    """Seconds without data after which a connection counts as lost; none: 60."""
    max_retries: int = Field(default=2, ge=0)
    """Number of retries after the first try."""
    client: Citewire | None = Field(default=None, exclude=True, repr=False)
    """Your own client, which you close; none: a client that lives as long as this object."""
    async_client: AsyncCitewire | None = Field(default=None, exclude=True, repr=False)
    """Your own client, which you close; none: a new one for each call, as a client belongs to one event loop."""
    _connection: adapters.GatewayConnection | None = PrivateAttr(default=None)

    @property
    def gateway(self) -> adapters.GatewayConnection:
        """The clients, created on first use and reused."""
        if self._connection is None:
            self._connection = adapters.GatewayConnection(
                self.base_url,
                None if self.api_key is None else self.api_key.get_secret_value(),
                timeout=self.timeout,
                retries=self.max_retries,
                client=self.client,
                async_client=self.async_client,
            )
        return self._connection
