"""The vector store: LangChain's standard tests, its indexing, and further tests."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from citewire_client import Citewire, NotFoundError
from langchain_citewire import CitewireEmbeddings, CitewireRetriever, CitewireVectorStore

WATER = "At sea level water boils at 100 degrees."
QUESTION = "At how many degrees does water boil?"


@pytest.fixture
def store() -> Iterator[CitewireVectorStore]:
    """An empty store in the gateway at `CITEWIRE_URL`."""
    name = f"langchain-store-{uuid4().hex[:8]}"
    with Citewire() as client:
        client.create_collection(name)
        yield CitewireVectorStore(collection=name)
        client.delete_collection(name, force=True)


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, store: CitewireVectorStore) -> VectorStore:  # pyright: ignore[reportIncompatibleMethodOverride] # pytest passes fixtures as arguments
        return store


def test_its_index_follows_its_loader(store: CitewireVectorStore) -> None:
    records = InMemoryRecordManager("test")
    records.create_schema()
    loaded = [Document(WATER, metadata={"source": "water.md"}), Document("Ice melts.", metadata={"source": "ice.md"})]

    def update(documents: list[Document]) -> list[int]:
        done = index(documents, records, store, cleanup="full", source_id_key="source", key_encoder="sha256")
        return [done[name] for name in ("num_added", "num_updated", "num_skipped", "num_deleted")]

    assert update(loaded) == [2, 0, 0, 0]
    assert update(loaded) == [0, 0, 2, 0]
    assert update([loaded[0], Document("Ice melts at 0 degrees.", metadata={"source": "ice.md"})]) == [1, 0, 1, 1]
    assert {document.page_content for document in store.similarity_search("ice and water", k=9)} == {
        WATER,
        "Ice melts at 0 degrees.",
    }


async def test_its_retrievers_narrow_as_they_are_told(store: CitewireVectorStore) -> None:
    texts = [WATER, "At sea level water boils at about 100 degrees.", "The committee met on Tuesday."]
    store.add_texts(texts, [{"page": 1, "kind": "a"}, {"page": 2, "kind": "b"}, {"page": 3, "kind": "a"}])
    near = store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.5})
    assert {document.metadata["page"] for document in await near.ainvoke(QUESTION)} == {1, 2}
    unlike = store.as_retriever(search_type="mmr", search_kwargs={"k": 2, "lambda_mult": 0.1})
    assert 3 in {document.metadata["page"] for document in unlike.invoke(QUESTION)}
    for condition, pages in (
        ({"kind": "a"}, {1, 3}),
        ({"page": [2, 3], "kind": "a"}, {3}),
        ({"not": {"field": "metadata.page", "op": "gt", "value": 1}}, {1}),
    ):
        results = store.similarity_search_with_score(QUESTION, k=9, filter=condition)
        assert {document.metadata["page"] for document, _ in results} == pages
        assert all(-1 <= similarity <= 1 for _, similarity in results)


def test_a_long_text_is_found_in_passages_and_read_whole(store: CitewireVectorStore) -> None:
    long = "\n\n".join(f"# Part {part}\n\n" + f"Paragraph {part} is about matter {part}. " * 40 for part in range(5))
    store.add_texts([long], ids=["long"])
    results = store.similarity_search("matter", k=9)
    assert len(results) > 1
    assert {document.id for document in results} == {"long"}
    assert all(document.page_content in long and document.page_content != long for document in results)
    (whole,) = store.get_by_ids(["long", "other"])
    assert (whole.page_content, whole.id, whole.metadata) == (long, "long", {})


def test_what_was_stored_otherwise_is_found_and_never_deleted(store: CitewireVectorStore) -> None:
    CitewireRetriever(collection=store.collection).add_documents([Document(WATER, metadata={"source": "water.md"})])
    (passage,) = store.similarity_search(QUESTION)
    assert passage.id is None
    assert (passage.metadata["title"], passage.metadata["source"]) == ("water.md", "water.md")
    document = str(passage.metadata["document_id"])
    assert store.get_by_ids([document]) == []
    store.delete([document])
    assert len(store.similarity_search(QUESTION)) == 1


def test_it_is_made_with_texts_and_says_what_it_cannot_do(store: CitewireVectorStore) -> None:
    name = f"{store.collection}-made"
    loaded = [Document(WATER, id="water")]
    made = CitewireVectorStore.from_documents(loaded, CitewireEmbeddings(), collection=name)
    assert [document.id for document in made.similarity_search(QUESTION)] == ["water"]
    with Citewire() as client:
        client.delete_collection(name, force=True)
    with pytest.raises(ValueError, match="embedding: DeterministicFakeEmbedding can't be used"):
        CitewireVectorStore.from_documents(loaded, DeterministicFakeEmbedding(size=3), collection=name)
    with pytest.raises(ValueError, match="ids: must be given"):
        store.delete()
    with pytest.raises(ValueError, match="ids: must be as many as the 1 texts, not 2"):
        store.add_texts([WATER], ids=["a", "b"])
    with pytest.raises(ValueError, match="namespace: not an argument"):
        store.add_texts([WATER], namespace="a")
    with pytest.raises(NotFoundError, match="there is no collection"):
        made.similarity_search(QUESTION)
