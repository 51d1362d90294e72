"""Embeddings with the models of a gateway."""

from typing import Any

from langchain_core.embeddings import Embeddings
from pydantic import ConfigDict

from citewire_client.adapters import batches, embedding_choice, vectors
from langchain_citewire.connection import GatewayConnection


class CitewireEmbeddings(GatewayConnection, Embeddings):
    """Embeds with the gateway's model or with one that the caller's organisation has configured.

    Example:
        ```python
        from langchain_citewire import CitewireEmbeddings

        vector = CitewireEmbeddings().embed_query("boiling point")
        ```
    """

    model_config = ConfigDict(extra="forbid")

    model: str | None = None
    """The embedding model; none: the caller's default."""
    dimensions: int | None = None
    """Length of the vectors, if the model supports shorter ones; none: full length."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embeds the texts and returns a vector for each."""
        answers = [
            self.gateway.blocking.embed(batch, input_type="document", **self._choice()) for batch in batches(texts)
        ]
        return [vector for answer in answers for vector in vectors(answer)]

    def embed_query(self, text: str) -> list[float]:
        """Embeds a question and returns its vector."""
        return vectors(self.gateway.blocking.embed([text], input_type="query", **self._choice()))[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embeds the texts and returns a vector for each."""
        async with self.gateway.awaiting() as client:
            answers = [await client.embed(batch, input_type="document", **self._choice()) for batch in batches(texts)]
        return [vector for answer in answers for vector in vectors(answer)]

    async def aembed_query(self, text: str) -> list[float]:
        """Embeds a question and returns its vector."""
        async with self.gateway.awaiting() as client:
            return vectors(await client.embed([text], input_type="query", **self._choice()))[0]

    def _choice(self) -> dict[str, Any]:
        return embedding_choice(self.model, self.dimensions)
