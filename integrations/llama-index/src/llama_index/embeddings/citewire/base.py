"""Embeddings with the models of a gateway."""

from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr

from citewire_client import AsyncCitewire, Citewire
from citewire_client.adapters import GatewayConnection, embedding_choice, vectors


class CitewireEmbedding(BaseEmbedding):
    """Embeds with the gateway's model or with one that the caller's organisation has configured.

    Example:
        ```python
        from llama_index.embeddings.citewire import CitewireEmbedding

        vector = CitewireEmbedding().get_query_embedding("boiling point")
        ```
    """

    model_name: str = Field(default="", description="The embedding model; empty: the caller's default.")
    dimensions: int | None = Field(
        default=None, description="Length of the vectors, if the model supports shorter ones."
    )
    _gateway: GatewayConnection = PrivateAttr()

    def __init__(
        self,
        *,
        model_name: str = "",
        dimensions: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        max_retries: int = 2,
        client: Citewire | None = None,
        async_client: AsyncCitewire | None = None,
        **kwargs: Any,
    ) -> None:
        """Prepares the embeddings; no request is sent.

        Args:
            model_name: The embedding model; empty: the caller's default.
            dimensions: Length of the vectors, if the model supports shorter ones; None: full length.
            base_url: The gateway's address; None: `CITEWIRE_URL`, or `http://127.0.0.1:8080`.
            api_key: An API key or token; None: `CITEWIRE_API_KEY` if it is set.
            timeout: Seconds without data after which a connection counts as lost; None: 60.
            max_retries: Number of retries after the first try.
            client: Your own client, which you close.
            async_client: Your own client, which you close; None: a new one for each call.
            **kwargs: LlamaIndex's, such as `embed_batch_size` and `callback_manager`.
        """
        fields: dict[str, Any] = {"model_name": model_name, "dimensions": dimensions, **kwargs}
        super().__init__(**fields)
        self._gateway = GatewayConnection(
            base_url, api_key, timeout=timeout, retries=max_retries, client=client, async_client=async_client
        )

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex identifies the class."""
        return "CitewireEmbedding"

    def _get_query_embedding(self, query: str) -> Embedding:
        return vectors(self._gateway.blocking.embed([query], input_type="query", **self._choice()))[0]

    async def _aget_query_embedding(self, query: str) -> Embedding:
        async with self._gateway.awaiting() as client:
            return vectors(await client.embed([query], input_type="query", **self._choice()))[0]

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._get_text_embeddings([text])[0]

    async def _aget_text_embedding(self, text: str) -> Embedding:
        return (await self._aget_text_embeddings([text]))[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return vectors(self._gateway.blocking.embed(texts, input_type="document", **self._choice()))

    async def _aget_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        async with self._gateway.awaiting() as client:
            return vectors(await client.embed(texts, input_type="document", **self._choice()))

    def _choice(self) -> dict[str, Any]:
        return embedding_choice(self.model_name or None, self.dimensions)
