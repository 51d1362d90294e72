"""A retriever over an organisation's documents."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from citewire_client import models
from citewire_client.adapters import document_fields, passage_metadata, require_readable
from langchain_citewire.connection import GatewayConnection


class CitewireRetriever(GatewayConnection, BaseRetriever):
    """Searches the caller's documents. Each result is a passage with its place, its scores and its document's metadata.

    Example:
        ```python
        from langchain_citewire import CitewireRetriever

        retriever = CitewireRetriever(collection="physics", k=3)
        for document in retriever.invoke("boiling point"):
            print(document.metadata["title"], document.metadata["score"])
        ```
    """

    model_config = ConfigDict(extra="forbid")

    k: int = Field(default=4, ge=1, le=200)
    """Maximum number of passages in a result."""
    collection: str | None = None
    """Search only this collection; none: all documents that the caller may read."""
    document_ids: list[int] | None = None
    """Search only these documents."""
    filter: Any = None
    """Conditions on the documents' metadata, in the format of `POST /v1/search`."""
    mode: Literal["dense", "lexical", "hybrid"] = "hybrid"
    """Search by meaning, by words, or by both."""
    rerank: bool = False
    """Whether a rerank model orders the results."""
    min_score: float | None = None
    """Lowest cosine similarity of a passage."""
    search_options: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Other fields of `POST /v1/search`, such as `max_per_document` or `as_of`."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return _documents(self.gateway.blocking.search(query, **self._arguments_of_search(kwargs)))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        async with self.gateway.awaiting() as client:
            return _documents(await client.search(query, **self._arguments_of_search(kwargs)))

    def add_documents(
        self, documents: Sequence[Document], *, tags: Sequence[str] = (), wait: bool = True, timeout: float = 300.0
    ) -> list[str]:
        """Stores the documents of a loader, with their metadata, in this retriever's collection; returns their ids.

        Args:
            documents: Each is stored as a separate document, which Citewire splits into passages.
            tags: Tags for all of them.
            wait: Whether to wait until they can be found.
            timeout: Maximum wait for each document, in seconds.

        Raises:
            CitewireError: A document was rejected, wasn't ready in time, or couldn't be read; earlier ones are stored.
        """
        client = self.gateway.blocking
        stored = [client.add_document(**fields) for fields in self._uploads(documents, tags)]
        if wait:
            stored = [client.wait_for_document(document.id, timeout=timeout) for document in stored]
        return [str(require_readable(document).id) for document in stored]

    async def aadd_documents(
        self, documents: Sequence[Document], *, tags: Sequence[str] = (), wait: bool = True, timeout: float = 300.0
    ) -> list[str]:
        """The asynchronous form of `add_documents`."""
        async with self.gateway.awaiting() as client:
            stored = [await client.add_document(**fields) for fields in self._uploads(documents, tags)]
            if wait:
                stored = [await client.wait_for_document(document.id, timeout=timeout) for document in stored]
        return [str(require_readable(document).id) for document in stored]

    def _uploads(self, documents: Sequence[Document], tags: Sequence[str]) -> Iterable[dict[str, Any]]:
        more = {"collection": self.collection, "tags": list(tags)}
        given = {name: value for name, value in more.items() if value}
        return [document_fields(document.page_content, document.metadata) | given for document in documents]

    def _arguments_of_search(self, told: dict[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "collection": self.collection,
            "document_ids": self.document_ids,
            "filter": self.filter,
            "min_score": self.min_score,
        }
        told = dict(told)
        return {
            "top_k": told.pop("k", self.k),
            "mode": self.mode,
            "rerank": self.rerank,
            "include": ["metadata"],
            **{name: value for name, value in fields.items() if value is not None},
            **self.search_options,
            **told,
        }


def _documents(results: models.SearchResults) -> list[Document]:
    return [
        Document(page_content=result.content, metadata=passage_metadata(result), id=str(result.chunk_id))
        for result in results.results
    ]
