"""LlamaIndex's own classes over a running gateway; its only standard tests are those of base classes."""
# LlamaIndex's responses contain untyped dictionaries:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest
from llama_index.core import Document, PromptTemplate, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ImageBlock, MessageRole, TextBlock
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from citewire_client import AsyncCitewire, InvalidRequestError
from citewire_client import Citewire as CitewireClient
from llama_index.embeddings.citewire import CitewireEmbedding
from llama_index.llms.citewire import Citewire
from llama_index.retrievers.citewire import CitewireRetriever

QUESTION = "At how many degrees does water boil?"
QUOTE = "At sea level water boils at 100 degrees."
METADATA = {"source": "https://example.org/water.md", "page": 3, "authors": ["Kim", "Noor"], "title": "On water"}


@pytest.fixture(scope="session")
def collection() -> Iterator[str]:
    """A collection with one document that LlamaIndex's own class stored in the gateway at `CITEWIRE_URL`."""
    name = f"llama-index-{uuid4().hex[:8]}"
    text = f"# Water\n\n{QUOTE}\n\n# Ice\n\nIce melts at 0 degrees.\n"
    CitewireRetriever(collection=name).add([Document(text=text, metadata=METADATA)], tags=["example"])
    yield name
    with CitewireClient() as client:
        client.delete_collection(name, force=True)


@pytest.mark.parametrize(
    ("kind", "base"), [(Citewire, BaseLLM), (CitewireEmbedding, BaseEmbedding), (CitewireRetriever, BaseRetriever)]
)
def test_it_is_what_the_framework_takes_it_for(kind: type[object], base: type[object]) -> None:
    assert base.__name__ in [ancestor.__name__ for ancestor in kind.__mro__]


def test_what_a_reader_said_of_a_document_comes_back_with_its_nodes(collection: str) -> None:
    best, *others = CitewireRetriever(collection=collection, similarity_top_k=2).retrieve(QUESTION)
    assert len(others) == 1
    assert QUOTE in best.text
    assert {name: best.metadata[name] for name in METADATA} == METADATA
    assert (best.metadata["citewire_title"], best.metadata["start_line"]) == ("On water", 1)
    assert best.node.node_id == str(best.metadata["chunk_id"])
    assert best.node.source_node is not None
    with CitewireClient() as client:
        assert client.get_document(int(best.node.source_node.node_id)).metadata == METADATA
    shown = best.node.get_content(MetadataMode.LLM)
    assert "page: 3" in shown
    assert "chunk_id" not in shown


async def test_it_retrieves_and_stores_while_others_wait(collection: str) -> None:
    async with AsyncCitewire() as client:
        retriever = CitewireRetriever(collection=f"{collection}-more", async_client=client)
        (stored,) = await retriever.async_add([Document(text=QUOTE, metadata={"page": 1})])
        (node,) = await retriever.aretrieve(QUESTION)
        assert (str(node.metadata["document_id"]), node.metadata["page"]) == (stored, 1)
        await client.delete_collection(f"{collection}-more", force=True)


def test_an_answer_carries_its_verified_citations_and_tokens(collection: str) -> None:
    answer = Citewire(collection=collection).complete(QUESTION)
    (citation,) = answer.additional_kwargs["citations"]
    assert (citation["quote"], citation["verdict"], citation["title"]) == (QUOTE, "supported", "On water")
    assert answer.text[citation["start"] : citation["end"]].startswith(QUOTE[:-1])
    assert citation["url"] == METADATA["source"]
    assert {"prompt_tokens", "completion_tokens", "total_tokens"} <= answer.additional_kwargs.keys()
    assert "conversation_id" not in answer.additional_kwargs  # nothing is stored


async def test_streams_add_up_to_the_whole_answer(collection: str) -> None:
    model = Citewire(collection=collection)
    messages = [ChatMessage(role=MessageRole.SYSTEM, content="Be brief."), ChatMessage(content=QUESTION)]
    whole = model.chat(messages)
    assert (await model.achat(messages)).message.content == whole.message.content
    for responses in (list(model.stream_chat(messages)), [item async for item in await model.astream_chat(messages)]):
        assert isinstance(responses[-1], ChatResponse)
        assert len(responses) > 4
        assert "".join(response.delta or "" for response in responses) == whole.message.content
        assert responses[-1].message.content == whole.message.content
        assert responses[-1].additional_kwargs["citations"] == whole.additional_kwargs["citations"]
        assert responses[-1].additional_kwargs["passages"] == whole.additional_kwargs["passages"]
    completed = [item async for item in await model.astream_complete(QUESTION)]
    assert completed[-1].text == whole.message.content


async def test_an_answer_ends_at_a_stop_sequence(collection: str) -> None:
    assert Citewire(collection=collection, stop=[" boils"]).complete(QUESTION).text == "At sea level water"
    assert (await Citewire(collection=collection).acomplete(QUESTION, stop=["100"])).text.endswith(" at ")


def test_a_conversation_is_continued_by_its_id(collection: str) -> None:
    model = Citewire(collection=collection, keep=True)
    conversation = model.complete(QUESTION).additional_kwargs["conversation_id"]
    second = model.complete("And ice, when does it melt?", conversation_id=conversation)
    assert second.additional_kwargs["conversation_id"] == conversation
    with CitewireClient() as client:
        assert len(client.get_conversation(conversation).messages) == 4
        client.delete_conversation(conversation)


def test_engines_of_the_framework_run_on_it(collection: str) -> None:
    counter = TokenCountingHandler()
    model = Citewire(collection=collection, callback_manager=CallbackManager([counter]))
    engine = RetrieverQueryEngine.from_args(CitewireRetriever(collection=collection), llm=MockLLM())
    response = engine.query(QUESTION)
    assert QUOTE in str(response)  # this model repeats its prompt
    assert QUOTE in response.source_nodes[0].text
    chat = SimpleChatEngine.from_defaults(llm=model)
    assert "100 degrees" in str(chat.chat(QUESTION))
    assert "".join(chat.stream_chat(QUESTION).response_gen).startswith("At sea level")
    assert len(counter.llm_token_counts) == 2
    index = VectorStoreIndex.from_documents(
        [Document(text=QUOTE), Document(text="The committee met on Tuesday.")], embed_model=CitewireEmbedding()
    )
    assert index.as_retriever(similarity_top_k=1).retrieve(QUESTION)[0].text == QUOTE


async def test_embeddings_are_the_same_either_way() -> None:
    embeddings = CitewireEmbedding(embed_batch_size=2)
    texts = [QUOTE, "Ice melts at 0 degrees.", "The committee met on Tuesday."]
    whole = embeddings.get_text_embedding_batch(texts)
    assert await embeddings.aget_text_embedding_batch(texts) == whole
    assert embeddings.get_text_embedding(QUOTE) == pytest.approx(whole[0], abs=1e-4)
    assert await embeddings.aget_query_embedding(QUESTION) == embeddings.get_query_embedding(QUESTION)


def test_what_cannot_be_sent_is_refused_by_name(collection: str) -> None:
    model = Citewire(collection=collection)
    image = ChatMessage(content=[TextBlock(text="What?"), ImageBlock(url="https://example.org/a.png")])
    with pytest.raises(ValueError, match=r"messages\.0\.blocks: a block of type 'image'"):
        model.chat([image])
    with pytest.raises(ValueError, match=r"messages\.0\.additional_kwargs\.tool_call_id: is required"):
        model.chat([ChatMessage(role=MessageRole.TOOL, content="42")])
    with pytest.raises(ValueError, match="temperature can't be set"):
        Citewire(temperature=0.5)
    with pytest.raises(ValueError, match="temperature can't be set here"):
        model.complete("Hello", temperature=0.5)
    with pytest.raises(InvalidRequestError) as refused:
        model.complete("Hello", options={"top_k": 100_000})
    assert [error.field for error in refused.value.errors] == ["options.top_k"]
    with pytest.raises(InvalidRequestError, match=r"tools: .*extractive"):
        model.chat_with_tools([FunctionTool.from_defaults(add)], "Hello")


FORM = {
    "type": "json_schema",
    "json_schema": {
        "name": "boiling",
        "schema": {"type": "object", "properties": {"boils": {"type": "string"}}, "required": ["boils"]},
    },
}


def test_an_answer_in_json_has_a_citation_for_each_value(collection: str) -> None:
    answer = Citewire(collection=collection).complete("At how many degrees does water boil?", response_format=FORM)
    assert "100 degrees" in json.loads(answer.text)["boils"]
    assert [citation["pointer"] for citation in answer.additional_kwargs["citations"]] == ["/boils"]


class Boiling(BaseModel):
    """What water does."""

    boils: str


class Certainty(BaseModel):
    """A schema for values that no quotation contains."""

    is_certain: bool


def add(first: int, second: int) -> int:
    """Adds."""
    return first + second


async def test_an_object_is_made_of_quotations_or_refused_with_the_reason(collection: str) -> None:
    model, prompt = Citewire(collection=collection), PromptTemplate("At how many degrees does {what} boil?")
    assert model.structured_predict(Boiling, prompt, what="water") == Boiling(boils=QUOTE)
    *_, streamed = model.stream_structured_predict(Boiling, prompt, what="water")
    assert streamed == Boiling(boils=QUOTE)
    with pytest.raises(ValueError, match=r"there is no answer in this form: .*is_certain"):
        await model.astructured_predict(Certainty, prompt, what="water")
    with pytest.raises(ValueError, match=r"there is no answer in this form: .*is_certain"):
        list(model.stream_structured_predict(Certainty, prompt, what="water"))
