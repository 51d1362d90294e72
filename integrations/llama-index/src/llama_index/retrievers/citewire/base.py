"""A retriever over the caller's documents."""
# LlamaIndex's constructor isn't fully typed:
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence
from typing import Any, Literal

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import (
    BaseNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)

from citewire_client import AsyncCitewire, Citewire, models
from citewire_client.adapters import GatewayConnection, document_fields, passage_metadata, require_readable

_FOR_PROGRAMS = (
    "chunk_id",
    "chunk_index",
    "document_id",
    "version",
    "rank_score",
    "lexical_score",
    "rerank_score",
    "score",
)
"""Metadata that is of no use to a model."""


class CitewireRetriever(BaseRetriever):
    """Searches the caller's documents. Each node is a passage with its place, its scores and its document's metadata.

    Example:
        ```python
        from llama_index.retrievers.citewire import CitewireRetriever

        for node in CitewireRetriever(collection="physics", similarity_top_k=3).retrieve("boiling point"):
            print(node.metadata["title"], node.score)
        ```
    """

    def __init__(
        self,
        *,
        collection: str | None = None,
        similarity_top_k: int = 4,
        document_ids: Sequence[int] | None = None,
        filter: Any = None,
        mode: Literal["dense", "lexical", "hybrid"] = "hybrid",
        rerank: bool = False,
        min_score: float | None = None,
        search_options: dict[str, Any] | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        max_retries: int = 2,
        client: Citewire | None = None,
        async_client: AsyncCitewire | None = None,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        """Prepares a retriever; no request is sent.

        Args:
            collection: Search only this collection; None: all documents that the caller may read.
            similarity_top_k: Maximum number of passages in a result: 1–200.
            document_ids: Search only these documents.
            filter: Conditions on the documents' metadata, in the format of `POST /v1/search`.
            mode: Search by meaning, by words, or by both.
            rerank: Whether a rerank model orders the results.
            min_score: Lowest cosine similarity of a passage.
            search_options: Other fields of `POST /v1/search`, such as `max_per_document` or `as_of`.
            base_url: The gateway's address; None: `CITEWIRE_URL`, or `http://127.0.0.1:8080`.
            api_key: An API key or token; None: `CITEWIRE_API_KEY` if it is set.
            timeout: Seconds without data after which a connection counts as lost; None: 60.
            max_retries: Number of retries after the first try.
            client: Your own client, which you close.
            async_client: Your own client, which you close; None: a new one for each call.
            callback_manager: LlamaIndex's option.
            verbose: LlamaIndex's option.
        """
        self._gateway = GatewayConnection(
            base_url, api_key, timeout=timeout, retries=max_retries, client=client, async_client=async_client
        )
        self._collection = collection
        narrowing: dict[str, Any] = {
            "collection": collection,
            "document_ids": document_ids,
            "filter": filter,
            "min_score": min_score,
        }
        self._search: dict[str, Any] = {
            "top_k": similarity_top_k,
            "mode": mode,
            "rerank": rerank,
            "include": ["metadata"],
            **{name: value for name, value in narrowing.items() if value is not None},
            **(search_options or {}),
        }
        super().__init__(callback_manager=callback_manager, verbose=verbose)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self._gateway.blocking.search(query_bundle.query_str, **self._search))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        async with self._gateway.awaiting() as client:
            return _nodes(await client.search(query_bundle.query_str, **self._search))

    def add(
        self, documents: Sequence[BaseNode], *, tags: Sequence[str] = (), wait: bool = True, timeout: float = 300.0
    ) -> list[str]:
        """Stores the documents of a reader, with their metadata, in this retriever's collection; returns the ids.

        Args:
            documents: Each is stored as a separate document, which Citewire splits into passages.
            tags: Tags for all of them.
            wait: Whether to wait until they can be found.
            timeout: Maximum wait for each document, in seconds.

        Raises:
            CitewireError: A document was rejected, wasn't ready in time, or couldn't be read; earlier ones are stored.
        """
        client = self._gateway.blocking
        stored = [client.add_document(**fields) for fields in self._uploads(documents, tags)]
        if wait:
            stored = [client.wait_for_document(document.id, timeout=timeout) for document in stored]
        return [str(require_readable(document).id) for document in stored]

    async def async_add(
        self, documents: Sequence[BaseNode], *, tags: Sequence[str] = (), wait: bool = True, timeout: float = 300.0
    ) -> list[str]:
        """The asynchronous form of `add`."""
        async with self._gateway.awaiting() as client:
            stored = [await client.add_document(**fields) for fields in self._uploads(documents, tags)]
            if wait:
                stored = [await client.wait_for_document(document.id, timeout=timeout) for document in stored]
        return [str(require_readable(document).id) for document in stored]

    def _uploads(self, documents: Sequence[BaseNode], tags: Sequence[str]) -> list[dict[str, Any]]:
        more = {name: value for name, value in (("collection", self._collection), ("tags", list(tags))) if value}
        return [
            document_fields(document.get_content(MetadataMode.NONE), document.metadata) | more for document in documents
        ]


def _nodes(results: models.SearchResults) -> list[NodeWithScore]:
    return [NodeWithScore(node=_node(result), score=_score(result)) for result in results.results]


def _node(result: models.SearchResult) -> TextNode:
    metadata = passage_metadata(result)
    internal = [name for name in metadata if name.removeprefix("citewire_") in _FOR_PROGRAMS]
    return TextNode(
        id_=str(result.chunk_id),
        text=result.content,
        metadata=metadata,
        excluded_llm_metadata_keys=internal,
        excluded_embed_metadata_keys=internal,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=str(result.document_id))},
    )


def _score(result: models.SearchResult) -> float:
    """The score that orders the results."""
    return result.rank_score if result.rerank_score is None else result.rerank_score
