"""The connection to a gateway that the retriever, the chat model and the embeddings share."""

from langchain_core.utils import from_env, secret_from_env
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr

from citewire_client import AsyncCitewire, Citewire, adapters


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
    _connection: adapters.GatewayConnection | None = PrivateAttr(default=None)

    @property
    def gateway(self) -> adapters.GatewayConnection:
        """The clients; made when they are needed, and kept."""
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
