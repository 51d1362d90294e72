"""Embedders for texts and documents."""

from dataclasses import replace
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret, deserialize_secrets_inplace

from citewire_client.adapters import GatewayConnection, batches, embedding_choice, vectors


class _Embedder:
    """Base of both embedders: the model and the connection."""

    def __init__(
        self,
        model: str | None = None,
        dimensions: int | None = None,
        base_url: str | None = None,
        api_key: Secret | None = Secret.from_env_var("CITEWIRE_API_KEY", strict=False),  # noqa: B008 # it is immutable
        timeout: float | None = None,
        max_retries: int = 2,
    ) -> None:
        """Prepares an embedder; no request is sent.

        Args:
            model: The embedding model; None: the caller's default.
            dimensions: Length of the vectors, if the model supports shorter ones; None: full length.
            base_url: The gateway's address; None: `CITEWIRE_URL`, or `http://127.0.0.1:8080`.
            api_key: An API key or token.
            timeout: Seconds without data after which a connection counts as lost; None: 60.
            max_retries: Number of retries after the first try.
        """
        self.model = model
        self.dimensions = dimensions
        self.base_url = base_url
        self.api_key = api_key
        self.timeout = timeout
        self.max_retries = max_retries
        key = None if api_key is None else api_key.resolve_value()
        self._gateway = GatewayConnection(base_url, key, timeout=timeout, retries=max_retries)
        self._choice = embedding_choice(model, dimensions)

    def to_dict(self) -> dict[str, Any]:
        """Serialises the component, as Haystack does when it saves a pipeline."""
        fields = {name: getattr(self, name) for name in ("model", "dimensions", "base_url", "timeout", "max_retries")}
        return default_to_dict(self, **fields, api_key=None if self.api_key is None else self.api_key.to_dict())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """Restores the component from a saved pipeline."""
        deserialize_secrets_inplace(data["init_parameters"], keys=["api_key"])
        return default_from_dict(cls, data)


@component
class CitewireTextEmbedder(_Embedder):
    """Embeds a question with the gateway's model or with one that the caller's organisation has configured.

    Example:
        ```python
        from haystack_integrations.components.embedders.citewire import CitewireTextEmbedder

        vector = CitewireTextEmbedder().run("boiling point")["embedding"]
        ```
    """

    @component.output_types(embedding=list[float], meta=dict[str, Any])
    def run(self, text: str) -> dict[str, Any]:
        """Embeds a text.

        Returns:
            `embedding`, and `meta` with the model and the number of tokens.
        """
        answer = self._gateway.blocking.embed([text], input_type="query", **self._choice)
        return {"embedding": vectors(answer)[0], "meta": {"model": answer.model, "usage": answer.usage.model_dump()}}

    @component.output_types(embedding=list[float], meta=dict[str, Any])
    async def run_async(self, text: str) -> dict[str, Any]:
        """The asynchronous form of `run`."""
        async with self._gateway.awaiting() as client:
            answer = await client.embed([text], input_type="query", **self._choice)
        return {"embedding": vectors(answer)[0], "meta": {"model": answer.model, "usage": answer.usage.model_dump()}}


@component
class CitewireDocumentEmbedder(_Embedder):
    """Embeds the texts of documents with the same models as `CitewireTextEmbedder`."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Embeds documents and returns copies with their vectors as `documents`."""
        client = self._gateway.blocking
        answers = [client.embed(batch, input_type="document", **self._choice) for batch in batches(_texts(documents))]
        return {"documents": _embedded(documents, [vector for answer in answers for vector in vectors(answer)])}

    @component.output_types(documents=list[Document])
    async def run_async(self, documents: list[Document]) -> dict[str, list[Document]]:
        """The asynchronous form of `run`."""
        async with self._gateway.awaiting() as client:
            answers = [
                await client.embed(batch, input_type="document", **self._choice) for batch in batches(_texts(documents))
            ]
        return {"documents": _embedded(documents, [vector for answer in answers for vector in vectors(answer)])}


def _texts(documents: list[Document]) -> list[str]:
    empty = [at for at, document in enumerate(documents) if not document.content]
    if empty:
        raise ValueError(f"documents.{empty[0]}.content: must not be empty")
    return [document.content or "" for document in documents]


def _embedded(documents: list[Document], embeddings: list[list[float]]) -> list[Document]:
    return [replace(document, embedding=vector) for document, vector in zip(documents, embeddings, strict=True)]
