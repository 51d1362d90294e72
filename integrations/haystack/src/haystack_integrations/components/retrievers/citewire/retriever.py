"""The retriever."""

from typing import Any, Literal

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret, deserialize_secrets_inplace

from citewire_client import models
from citewire_client.adapters import GatewayConnection, passage_metadata
from haystack_integrations.components.retrievers.citewire.filters import translate_filters


@component
class CitewireRetriever:
    """Searches the caller's documents. A result is a passage with its place, scores and its document's metadata.

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
        api_key: Secret | None = Secret.from_env_var("CITEWIRE_API_KEY", strict=False),  # noqa: B008 # it can't change
        timeout: float | None = None,
        max_retries: int = 2,
    ) -> None:
        """Prepares a retriever; nothing is sent.

        Args:
            collection: Searched alone; None: all documents that the caller may read.
            top_k: Passages of a result, at most: 1–200.
            filters: On the documents' metadata, in Haystack's form.
            mode: By meaning, by words, or by both.
            rerank: Puts the results into the order of a rerank model.
            min_score: Lowest cosine similarity of a passage.
            search_options: Further fields of `POST /v1/search`, such as `max_per_document` or `as_of`.
            base_url: The gateway's address; None: `CITEWIRE_URL`, or `http://127.0.0.1:8080`.
            api_key: A key or token.
            timeout: Seconds without a byte after which a connection counts as lost; None: 60.
            max_retries: Tries after the first.

        Raises:
            FilterError: The filters aren't of Haystack's form.
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
        """As pipelines are saved."""
        names = ("collection", "top_k", "filters", "mode", "rerank", "min_score", "search_options")
        fields = {name: getattr(self, name) for name in (*names, "base_url", "timeout", "max_retries")}
        return default_to_dict(self, **fields, api_key=None if self.api_key is None else self.api_key.to_dict())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "CitewireRetriever":
        """From a saved pipeline."""
        deserialize_secrets_inplace(data["init_parameters"], keys=["api_key"])
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Searches.

        Args:
            query: What for.
            filters: Instead of this retriever's.
            top_k: Instead of this retriever's.

        Returns:
            `documents`, best first.
        """
        return {"documents": _documents(self._gateway.blocking.search(query, **self._arguments(filters, top_k)))}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Like `run`."""
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
