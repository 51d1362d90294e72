"""A collection of documents as a vector store, for code written for other vector stores."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal, cast
from uuid import uuid4

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict, Field

from citewire_client import NotFoundError, models
from citewire_client.adapters import document_fields, passage_metadata, require_readable
from langchain_citewire.connection import GatewayConnection
from langchain_citewire.embeddings import CitewireEmbeddings

_AT_ONCE = 50
"""Maximum number of ids per request, as they are part of its URL."""
_OF_FILTERS = frozenset({"field", "op", "all", "any", "not"})
_WITHOUT_MEANING = frozenset({"batch_size"})
"""Arguments that LangChain passes to every store."""


class CitewireVectorStore(GatewayConnection, VectorStore):
    """Stores texts in a collection, and searches the whole collection.

    Each text is stored as a separate document, which Citewire splits into passages and embeds with the gateway's model.
    A search returns passages: parts of a longer text, each with the text's id. `CitewireRetriever` is simpler if this
    program stores nothing.

    Example:
        ```python
        from langchain_citewire import CitewireVectorStore

        store = CitewireVectorStore(collection="notes")
        store.add_texts(["Water boils at 100 degrees."], [{"page": 3}], ids=["boiling"])
        store.similarity_search("boiling point", k=1, filter={"page": 3})
        ```
    """

    model_config = ConfigDict(extra="forbid")

    ID: ClassVar[str] = "langchain_id"
    """The key in a document's metadata for the id that a text was stored under."""

    collection: str
    """The collection. All of it is searched; only texts stored with an id can be read and deleted by it."""
    mode: Literal["dense", "lexical", "hybrid"] = "hybrid"
    """Search by meaning, by words, or by both."""
    rerank: bool = False
    """Whether a rerank model orders the results."""
    search_options: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Other fields of `POST /v1/search`, such as `max_per_document` or `as_of`."""
    wait_seconds: float = 300.0
    """Maximum wait until a text can be found."""

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Stores texts, and returns their ids once they can be found.

        Args:
            texts: The texts; none may be empty.
            metadatas: One for each text.
            ids: One for each text. A text replaces an earlier one with the same id; missing ids are generated.
            **kwargs: Only LangChain's own arguments, which are ignored.

        Raises:
            ValueError: There are fewer or more metadatas or ids than texts, or an unknown argument.
            CitewireError: A document was rejected, wasn't ready in time, or couldn't be read; earlier ones are stored.
        """
        if unknown := sorted(kwargs.keys() - _WITHOUT_MEANING):
            raise ValueError(f"{', '.join(unknown)}: not an argument for storing texts; use ids and metadatas")
        stored = list(texts)
        for name, values in (("metadatas", metadatas), ("ids", ids)):
            if values and len(values) != len(stored):
                raise ValueError(f"{name}: must be as many as the {len(stored)} texts, not {len(values)}")
        names = [given or uuid4().hex for given in ids or [None] * len(stored)]
        present = {name: document.id for name, document in self._find(ids or ())}
        client = self.gateway.blocking
        written: list[int] = []
        described: list[dict[str, Any]] = metadatas or [{} for _ in stored]
        for name, text, metadata in zip(names, stored, described, strict=True):
            fields: dict[str, Any] = document_fields(text, metadata) | {"collection": self.collection}
            fields["metadata"] = {**metadata, self.ID: name}
            if (document := present.get(name)) is None:
                present[name] = client.add_document(**fields).id
            else:
                client.replace_document(document, **fields)
            written.append(present[name])
        for document in written:
            require_readable(client.wait_for_document(document, timeout=self.wait_seconds))
        return names

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:
        """Deletes the texts stored under these ids; unknown ids are ignored.

        Raises:
            ValueError: No ids are given. `Citewire.delete_collection` deletes a whole collection.
        """
        if ids is None:
            raise ValueError("ids: must be given; Citewire.delete_collection deletes a whole collection")
        for _, document in self._find(ids):
            try:
                self.gateway.blocking.delete_document(document.id)
            except NotFoundError:  # already deleted by someone else
                continue
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Returns the complete texts stored under these ids, without unknown ids."""
        return [
            Document(page_content=self._content(document), metadata=self._own(document.metadata), id=name)
            for name, document in self._find(ids)
        ]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Searches the collection.

        Args:
            query: The text to search for.
            k: Maximum number of passages in a result: 1–200.
            **kwargs: `filter`, a dictionary of metadata or a filter in the format of `POST /v1/search`, and other
                fields of that request.
        """
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(  # pyright: ignore[reportIncompatibleMethodOverride] # LangChain's method takes anything
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Like `similarity_search`, with each passage's cosine similarity, which need not determine the order."""
        told = dict(kwargs)
        if told.get("filter") is not None:
            told["filter"] = _condition(told["filter"])
        fields: dict[str, Any] = {
            "collection": self.collection,
            "top_k": k,
            "mode": self.mode,
            "rerank": self.rerank,
            "keep_duplicates": True,
            "include": ["metadata"],
            **self.search_options,
            **told,
        }
        results = self.gateway.blocking.search(query, **fields).results
        return [(self._document(result), result.score or 0.0) for result in results]

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """Not supported: passages have the vectors of the gateway's model."""
        raise NotImplementedError("Citewire searches by text, not by vector: use similarity_search")

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Searches for passages that are relevant and differ from each other.

        Args:
            query: The text to search for.
            k: Maximum number of passages in a result: 1–200.
            fetch_k: Ignored: Citewire determines the number of candidates.
            lambda_mult: 1: only relevance counts; 0: only diversity counts.
            **kwargs: As for `similarity_search`.
        """
        return self.similarity_search(query, k, diversity=1 - lambda_mult, **kwargs)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> "CitewireVectorStore":
        """Creates a store with texts; the other arguments are its fields.

        Raises:
            ValueError: `embedding` isn't Citewire's. Citewire embeds texts itself and never calls it.
        """
        if embedding is not None and not isinstance(embedding, CitewireEmbeddings):
            raise ValueError(
                f"embedding: {type(embedding).__name__} can't be used, as Citewire embeds with the gateway's model; "
                "give None"
            )
        store = cls(**kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda similarity: min(max(similarity, 0.0), 1.0)

    def _find(self, ids: Iterable[str | None]) -> Iterator[tuple[str, models.Document]]:
        """Yields the documents stored under these ids, each with its id."""
        named = list(dict.fromkeys(name for name in ids if name))
        for start in range(0, len(named), _AT_ONCE):
            condition = {"field": f"metadata.{self.ID}", "op": "in", "value": named[start : start + _AT_ONCE]}
            for document in self._list(condition):
                yield str(document.metadata[self.ID]), document

    def _list(self, condition: dict[str, Any]) -> list[models.Document]:
        """The collection's documents that match a condition; none if nothing has been stored in it yet."""
        listed = self.gateway.blocking.iter_documents(
            collection=self.collection, filter=json.dumps(condition), any_validity=True
        )
        try:
            return list(listed)
        except NotFoundError as exc:
            if exc.reason != "COLLECTION_NOT_FOUND":
                raise
            return []

    def _content(self, document: models.Document) -> str:
        with self.gateway.blocking.download(document.id) as pieces:
            return b"".join(pieces).decode()

    def _document(self, result: models.SearchResult) -> Document:
        """Converts a passage; if it wasn't stored by this class, its metadata has everything known about its place."""
        own = result.metadata or {}
        if self.ID not in own:
            return Document(page_content=result.content, metadata=passage_metadata(result))
        return Document(page_content=result.content, metadata=self._own(own), id=str(own[self.ID]))

    def _own(self, metadata: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in metadata.items() if name != self.ID}


def _condition(told: object) -> object:
    """Converts a filter, in the gateway's format or a dictionary of required metadata, to the gateway's format."""
    if not isinstance(told, dict):
        return told
    values = cast("dict[str, Any]", told)
    if _OF_FILTERS & values.keys():
        return values
    conditions: list[dict[str, Any]] = [
        {"field": f"metadata.{name}", "op": "in" if isinstance(value, list) else "eq", "value": value}
        for name, value in values.items()
    ]
    return {"all": conditions}
