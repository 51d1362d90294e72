"""Embeddings by the models that a gateway has."""

from typing import Any

from langchain_core.embeddings import Embeddings
from pydantic import ConfigDict

from citewire_client.adapters import batches, embedding_choice, vectors
from langchain_citewire.connection import GatewayConnection


class CitewireEmbeddings(GatewayConnection, Embeddings):
    """Embeds by the gateway's model, or by one that the caller's organisation has brought.

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
    """Numbers of a vector, where the model can be shortened; none: all of them."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Returns a vector for each text."""
        answers = [
            self.gateway.blocking.embed(batch, input_type="document", **self._choice()) for batch in batches(texts)
        ]
        return [vector for answer in answers for vector in vectors(answer)]

    def embed_query(self, text: str) -> list[float]:
        """Returns the vector of a question."""
        return vectors(self.gateway.blocking.embed([text], input_type="query", **self._choice()))[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Returns a vector for each text."""
        async with self.gateway.awaiting() as client:
            answers = [await client.embed(batch, input_type="document", **self._choice()) for batch in batches(texts)]
        return [vector for answer in answers for vector in vectors(answer)]

    async def aembed_query(self, text: str) -> list[float]:
        """Returns the vector of a question."""
        async with self.gateway.awaiting() as client:
            return vectors(await client.embed([text], input_type="query", **self._choice()))[0]

    def _choice(self) -> dict[str, Any]:
        return embedding_choice(self.model, self.dimensions)
