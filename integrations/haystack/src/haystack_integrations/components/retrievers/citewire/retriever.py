"""A retriever over the caller's documents."""

from typing import Any, Literal

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret, deserialize_secrets_inplace

from citewire_client import models
from citewire_client.adapters import GatewayConnection, passage_metadata
from haystack_integrations.components.retrievers.citewire.filters import translate_filters


@component
class CitewireRetriever:
    """Searches the caller's documents. Each result is a passage with its place, its scores and its document's metadata.

    Example:
        ```python
        from haystack_integrations.components.retrievers.citewire import CitewireRetriever

        for document in CitewireRetriever(collection="physics", top_k=3).run("boiling point")["documents"]:
            print(document.meta["title"], document.score)
        ```
    """

    def __init__(
        self,
        collection: str | None = None,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
        mode: Literal["dense", "lexical", "hybrid"] = "hybrid",
        rerank: bool = False,
        min_score: float | None = None,
        search_options: dict[str, Any] | None = None,
        base_url: str | None = None,
        api_key: Secret | None = Secret.from_env_var("CITEWIRE_API_KEY", strict=False),  # noqa: B008 # it is immutable
        timeout: float | None = None,
        max_retries: int = 2,
    ) -> None:
        """Prepares a retriever; no request is sent.

        Args:
            collection: Search only this collection; None: all documents that the caller may read.
            top_k: Maximum number of passages in a result: 1–200.
            filters: Conditions on the documents' metadata, in Haystack's format.
            mode: Search by meaning, by words, or by both.
            rerank: Whether a rerank model orders the results.
            min_score: Lowest cosine similarity of a passage.
            search_options: Other fields of `POST /v1/search`, such as `max_per_document` or `as_of`.
            base_url: The gateway's address; None: `CITEWIRE_URL`, or `http://127.0.0.1:8080`.
            api_key: An API key or token.
            timeout: Seconds without data after which a connection counts as lost; None: 60.
            max_retries: Number of retries after the first try.

        Raises:
            FilterError: The filters aren't in Haystack's format.
        """
        self.collection = collection
        self.top_k = top_k
        self.filters = filters
        self.mode = mode
        self.rerank = rerank
        self.min_score = min_score
        self.search_options = search_options or {}
        self.base_url = base_url
        self.api_key = api_key
        self.timeout = timeout
        self.max_retries = max_retries
        if filters:
            translate_filters(filters)
        key = None if api_key is None else api_key.resolve_value()
        self._gateway = GatewayConnection(base_url, key, timeout=timeout, retries=max_retries)

    def to_dict(self) -> dict[str, Any]:
        """Serialises the component, as Haystack does when it saves a pipeline."""
        names = ("collection", "top_k", "filters", "mode", "rerank", "min_score", "search_options")
        fields = {name: getattr(self, name) for name in (*names, "base_url", "timeout", "max_retries")}
        return default_to_dict(self, **fields, api_key=None if self.api_key is None else self.api_key.to_dict())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "CitewireRetriever":
        """Restores the component from a saved pipeline."""
        deserialize_secrets_inplace(data["init_parameters"], keys=["api_key"])
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Searches the documents.

        Args:
            query: The text to search for.
            filters: Replaces this retriever's filters.
            top_k: Replaces this retriever's `top_k`.

        Returns:
            `documents`, best first.
        """
        return {"documents": _documents(self._gateway.blocking.search(query, **self._arguments(filters, top_k)))}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """The asynchronous form of `run`."""
        async with self._gateway.awaiting() as client:
            return {"documents": _documents(await client.search(query, **self._arguments(filters, top_k)))}

    def _arguments(self, filters: dict[str, Any] | None, top_k: int | None) -> dict[str, Any]:
        condition = self.filters if filters is None else filters
        narrowing: dict[str, Any] = {
            "collection": self.collection,
            "filter": translate_filters(condition) if condition else None,
            "min_score": self.min_score,
        }
        return {
            "top_k": self.top_k if top_k is None else top_k,
            "mode": self.mode,
            "rerank": self.rerank,
            "include": ["metadata"],
            **{name: value for name, value in narrowing.items() if value is not None},
            **self.search_options,
        }


def _documents(results: models.SearchResults) -> list[Document]:
    return [
        Document(
            id=str(result.chunk_id),
            content=result.content,
            meta=passage_metadata(result),
            score=result.rank_score if result.rerank_score is None else result.rerank_score,
        )
        for result in results.results
    ]
