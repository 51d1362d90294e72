"""Beyond the standard tests: citations, metadata, conversations, and rejected requests."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from pydantic import ValidationError

from citewire_client import Citewire, InvalidRequestError
from conftest import METADATA, WATER
from langchain_citewire import ChatCitewire, CitewireEmbeddings, CitewireRetriever

QUESTION = "At how many degrees does water boil?"
QUOTE = "At sea level water boils at 100 degrees."


def test_what_a_loader_said_of_a_document_comes_back_with_its_passages(collection: str) -> None:
    best = CitewireRetriever(collection=collection, k=2).invoke(QUESTION)[0]
    assert QUOTE in best.page_content
    assert {name: best.metadata[name] for name in METADATA} == METADATA
    assert best.metadata["tags"] == ["example"]
    assert best.metadata["title"] == "water.md"
    assert best.metadata["url"] == METADATA["source"]
    assert best.metadata["start_line"] == 1
    assert 0.5 < best.metadata["score"] <= 1
    assert best.id == str(best.metadata["chunk_id"])
    with Citewire() as client:
        assert client.get_document(best.metadata["document_id"]).metadata == METADATA


async def test_names_that_are_ours_too_keep_the_loaders_value(collection: str) -> None:
    own = {"title": "Boiling", "score": "A+", "chunk_id": 7}
    retriever = CitewireRetriever(collection=f"{collection}-own", k=1)
    (stored,) = await retriever.aadd_documents([Document(page_content=WATER, metadata=own)])
    try:
        (best,) = await retriever.ainvoke(QUESTION)
        assert {name: best.metadata[name] for name in own} == own
        assert (best.metadata["citewire_title"], str(best.metadata["document_id"])) == ("Boiling", stored)
        assert str(best.metadata["citewire_chunk_id"]) == best.id
        assert isinstance(best.metadata["citewire_score"], float)
    finally:
        with Citewire() as client:
            client.delete_collection(f"{collection}-own", force=True)


def test_a_filter_on_metadata_narrows(collection: str) -> None:
    condition = {"field": "metadata.page", "op": "eq", "value": 3}
    retriever = CitewireRetriever(collection=collection, filter=condition)
    assert {document.metadata["page"] for document in retriever.invoke("greetings")} == {3}
    assert CitewireRetriever(collection=collection, filter=condition | {"value": 4}).invoke(QUESTION) == []


def test_an_answer_carries_its_verified_citations(collection: str) -> None:
    answer = ChatCitewire(collection=collection).invoke(QUESTION)
    assert isinstance(answer, AIMessage)
    (citation,) = answer.additional_kwargs["citations"]
    assert (citation["cited_text"], citation["title"], citation["url"]) == (QUOTE, "water.md", METADATA["source"])
    assert citation["extras"]["verdict"] == "supported"
    assert answer.text[citation["start_index"] : citation["end_index"]].startswith(QUOTE[:-1])
    assert [passage["index"] for passage in answer.additional_kwargs["passages"]][:1] == [citation["extras"]["number"]]
    (block,) = answer.content_blocks
    assert (block["type"], block.get("annotations")) == ("text", [citation])
    assert answer.response_metadata["finish_reason"] == "stop"
    assert answer.response_metadata["not_found"] is False
    assert "conversation_id" not in answer.response_metadata  # nothing is stored


@pytest.mark.parametrize("output_version", ["v0", "v1"])
async def test_a_streamed_answer_adds_up_to_the_whole_one(collection: str, output_version: str) -> None:
    model = ChatCitewire(collection=collection, output_version=output_version)
    whole = ChatCitewire(collection=collection).invoke(QUESTION)
    chunks = [chunk async for chunk in model.astream(QUESTION)]
    full = sum(chunks[1:], chunks[0])
    assert isinstance(full, AIMessageChunk)
    assert sum(bool(chunk.text) for chunk in chunks) > 3
    assert full.text == whole.text
    assert full.additional_kwargs["citations"] == whole.additional_kwargs["citations"]
    # A second ranking orders them, as far as its time allows.
    given = [{passage["chunk_id"] for passage in answer.additional_kwargs["passages"]} for answer in (full, whole)]
    assert given[0] == given[1]
    (block,) = full.content_blocks
    assert block.get("annotations") == whole.additional_kwargs["citations"]


def test_a_chain_of_retriever_prompt_and_model(collection: str) -> None:
    prompt = ChatPromptTemplate.from_messages([("system", "Be brief."), ("human", "{question}")])
    chain = {"question": RunnablePassthrough()} | prompt | ChatCitewire(collection=collection) | StrOutputParser()
    assert QUOTE[:-1] in chain.invoke(QUESTION)


def test_an_answer_ends_at_a_stop_sequence(collection: str) -> None:
    model = ChatCitewire(collection=collection)
    assert model.invoke(QUESTION, stop=[" boils", "never"]).text == "At sea level water"
    streamed = "".join(chunk.text for chunk in model.stream(QUESTION, stop=["100 deg"]))
    assert streamed == "At sea level water boils at "


def test_a_conversation_is_continued_by_its_id(collection: str) -> None:
    first = ChatCitewire(collection=collection, keep=True).invoke(QUESTION)
    conversation = first.response_metadata["conversation_id"]
    second = ChatCitewire(collection=collection).invoke("And ice, when does it melt?", conversation_id=conversation)
    assert second.response_metadata["conversation_id"] == conversation
    with Citewire() as client:
        assert len(client.get_conversation(conversation).messages) == 4
        client.delete_conversation(conversation)


def test_what_cannot_be_sent_is_refused_by_name(collection: str) -> None:
    model = ChatCitewire(collection=collection)
    sound = HumanMessage([{"type": "audio", "url": "https://example.org/a.mp3"}, {"type": "text", "text": "What?"}])
    with pytest.raises(ValueError, match=r"messages\.0\.content: a block of type 'audio'"):
        model.invoke([sound])
    with pytest.raises(InvalidRequestError, match="messages"):
        model.invoke([HumanMessage("Hi"), ToolMessage("42", tool_call_id="1")])
    with pytest.raises(InvalidRequestError, match=r"tools: .*extractive"):
        model.bind_tools([{"name": "f", "description": "d", "parameters": {}}]).invoke("Hi")
    with pytest.raises(ValueError, match="there is no tool 'g'"):
        model.bind_tools([{"name": "f", "description": "d", "parameters": {}}], tool_choice="g")
    with pytest.raises(ValueError, match="method: must be json_schema, function_calling or json_mode"):
        model.with_structured_output({"title": "A", "type": "object"}, method="xml")  # type: ignore[arg-type] # rejected on purpose
    with pytest.raises(ValueError, match="the last message must be the user's"):
        model.invoke([SystemMessage("Be brief.")])
    with pytest.raises(ValueError, match="temperature can't be set here"):
        model.invoke("Hello", temperature=0.5)
    with pytest.raises(ValidationError, match="temperature"):
        ChatCitewire.model_validate({"temperature": 0.5})
    with pytest.raises(InvalidRequestError) as refused:
        model.invoke("Hello", options={"top_k": 100_000})
    assert [error.field for error in refused.value.errors] == ["options.top_k"]


def test_a_query_lies_nearer_to_its_answer(collection: str) -> None:
    embeddings = CitewireEmbeddings()
    query = embeddings.embed_query(QUESTION)
    near, far = embeddings.embed_documents([QUOTE, "The committee met on Tuesday."])
    assert sum(map(float.__mul__, query, near)) > sum(map(float.__mul__, query, far)) + 0.2
    assert embeddings.embed_documents([]) == []
