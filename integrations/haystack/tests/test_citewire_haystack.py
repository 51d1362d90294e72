"""Haystack's own pipelines over a running gateway. Its suite tests only document stores, which this package lacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any
from uuid import uuid4

import pytest
from haystack import Document, Pipeline
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.utils import print_streaming_chunk
from haystack.dataclasses import ChatMessage, ImageContent, StreamingChunk
from haystack.errors import FilterError
from haystack.tools import tool  # pyright: ignore[reportUnknownVariableType] # of any function
from haystack.utils import Secret

from citewire_client import Citewire, InvalidRequestError
from haystack_integrations.components.embedders.citewire import CitewireDocumentEmbedder, CitewireTextEmbedder
from haystack_integrations.components.generators.citewire import CitewireChatGenerator
from haystack_integrations.components.retrievers.citewire import CitewireRetriever
from haystack_integrations.components.writers.citewire import CitewireWriter

QUESTION = "At how many degrees does water boil?"
ASKED = [ChatMessage.from_system("Be brief."), ChatMessage.from_user(QUESTION)]
QUOTE = "At sea level water boils at 100 degrees."
METADATA = {"url": "https://example.org/water.md", "page": 3, "authors": ["Kim", "Noor"], "title": "On water"}
COMPONENTS = [
    CitewireRetriever,
    CitewireChatGenerator,
    CitewireTextEmbedder,
    CitewireDocumentEmbedder,
    CitewireWriter,
]


@tool
def add(first: Annotated[int, "First"], second: Annotated[int, "Second"]) -> int:
    """Adds."""
    return first + second


@pytest.fixture(scope="session")
def collection() -> Iterator[str]:
    """A collection with one document that a pipeline stored in the gateway at `CITEWIRE_URL`."""
    name = f"haystack-{uuid4().hex[:8]}"
    pipeline = Pipeline()
    pipeline.add_component("writer", CitewireWriter(collection=name, tags=["example"]))
    text = f"# Water\n\n{QUOTE}\n\n# Ice\n\nIce melts at 0 degrees.\n"
    assert (
        pipeline.run({"writer": {"documents": [Document(content=text, meta=METADATA)]}})["writer"]["documents_written"]
        == 1
    )
    yield name
    with Citewire() as client:
        client.delete_collection(name, force=True)


def test_what_a_converter_said_of_a_document_comes_back_with_its_passages(collection: str) -> None:
    best, other = CitewireRetriever(collection=collection, top_k=2).run(QUESTION)["documents"]
    assert QUOTE in (best.content or "")
    assert {name: best.meta[name] for name in METADATA} == METADATA
    assert (best.meta["citewire_title"], best.meta["tags"], best.meta["start_line"]) == ("On water", ["example"], 1)
    assert best.id == str(best.meta["chunk_id"])
    assert (best.score or 0) > (other.score or 0)


def test_haystacks_filters_narrow(collection: str) -> None:
    retriever = CitewireRetriever(collection=collection)
    page = {"field": "meta.page", "operator": ">=", "value": 3}
    other = {"field": "meta.page", "operator": "not in", "value": [3]}
    both = {"operator": "AND", "conditions": [page, {"operator": "NOT", "conditions": [other]}]}
    assert retriever.run(QUESTION, filters=both)["documents"]
    assert retriever.run(QUESTION, filters={"operator": "OR", "conditions": [page, other]})["documents"]
    assert not retriever.run(QUESTION, filters=other)["documents"]
    for wrong in ({"field": "meta.page", "operator": "like", "value": 3}, {"operator": "AND"}, {"conditions": [page]}):
        with pytest.raises(FilterError):
            CitewireRetriever(filters=wrong)


def test_a_reply_carries_its_verified_citations_and_tokens(collection: str) -> None:
    (reply,) = CitewireChatGenerator(collection=collection).run(ASKED)["replies"]
    (citation,) = reply.meta["citations"]
    assert (citation["quote"], citation["verdict"], citation["title"]) == (QUOTE, "supported", "On water")
    assert citation["url"] == METADATA["url"]
    assert (reply.text or "")[citation["start"] : citation["end"]].startswith(QUOTE[:-1])
    assert {"prompt_tokens", "completion_tokens", "total_tokens"} == reply.meta["usage"].keys()
    assert (reply.meta["model"], reply.meta["finish_reason"]) == ("grounded", "stop")
    assert "conversation_id" not in reply.meta  # nothing is stored


async def test_streams_add_up_to_the_whole_reply(collection: str) -> None:
    generator = CitewireChatGenerator(collection=collection)
    (whole,) = generator.run(ASKED)["replies"]
    told: list[StreamingChunk] = []

    async def tell(chunk: StreamingChunk) -> None:
        told.append(chunk)

    (streamed,) = (await generator.run_async(ASKED, streaming_callback=tell))["replies"]
    assert streamed.text == whole.text
    assert streamed.meta["citations"] == whole.meta["citations"]
    assert "".join(chunk.content for chunk in told) == whole.text
    assert [chunk.start for chunk in told if chunk.content][:2] == [True, False]
    assert [citation for chunk in told for citation in chunk.meta.get("citations", [])] == whole.meta["citations"]
    assert told[-1].finish_reason == "stop"
    pieces: list[str] = []
    generator.run(ASKED, streaming_callback=lambda chunk: pieces.append(chunk.content))
    assert "".join(pieces) == whole.text
    assert (await generator.run_async(ASKED))["replies"][0].text == whole.text


def test_a_reply_ends_at_a_stop_sequence(collection: str) -> None:
    generator = CitewireChatGenerator(collection=collection, stop=[" boils"])
    assert generator.run(ASKED)["replies"][0].text == "At sea level water"
    assert (
        generator.run(ASKED, generation_kwargs={"stop": ["100"]})["replies"][0].text == "At sea level water boils at "
    )


def test_a_conversation_is_continued_by_its_id(collection: str) -> None:
    generator = CitewireChatGenerator(collection=collection, keep=True)
    conversation = generator.run(ASKED)["replies"][0].meta["conversation_id"]
    follow_up = [ChatMessage.from_user("And ice, when does it melt?")]
    told = {"conversation_id": conversation}
    assert generator.run(follow_up, generation_kwargs=told)["replies"][0].meta["conversation_id"] == conversation
    with Citewire() as client:
        assert len(client.get_conversation(conversation).messages) == 4
        client.delete_conversation(conversation)


async def test_a_pipeline_is_saved_read_and_run(collection: str) -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", CitewireRetriever(collection=collection, top_k=1))
    template = [ChatMessage.from_user("{{ question }}{% for document in documents %}{% endfor %}")]
    pipeline.add_component("prompt", ChatPromptBuilder(template=template, required_variables="*"))
    pipeline.add_component(
        "chat", CitewireChatGenerator(collection=collection, streaming_callback=print_streaming_chunk)
    )
    pipeline.connect("retriever.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "chat.messages")
    asked = {"retriever": {"query": QUESTION}, "prompt": {"question": QUESTION}}
    saved = pipeline.dumps()
    (reply,) = Pipeline.loads(saved).run(asked)["chat"]["replies"]
    assert QUOTE[:-1] in reply.text
    waited = await Pipeline.loads(saved).run_async(asked)
    assert waited["chat"]["replies"][0].text == reply.text


@pytest.mark.parametrize("kind", COMPONENTS)
def test_a_component_says_how_it_was_made_and_never_its_key(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_KEY", "cw_secret")
    made = kind(base_url="https://citewire.example", api_key=Secret.from_env_var("OTHER_KEY"))
    saved = made.to_dict()
    assert "cw_secret" not in str(saved)
    assert kind.from_dict(made.to_dict()).to_dict() == saved
    assert saved["init_parameters"]["base_url"] == "https://citewire.example"
    with pytest.raises(ValueError, match="token-based"):
        kind(api_key=Secret.from_token("cw_secret")).to_dict()


async def test_embeddings_are_the_same_either_way() -> None:
    documents = [Document(content=QUOTE, meta={"page": 3}), Document(content="The committee met on Tuesday.")]
    embedded = CitewireDocumentEmbedder().run(documents)["documents"]
    assert (await CitewireDocumentEmbedder().run_async(documents))["documents"] == embedded
    assert [document.embedding for document in documents] == [None, None]
    assert embedded[0].meta == {"page": 3}
    query = CitewireTextEmbedder().run(QUESTION)
    assert (await CitewireTextEmbedder().run_async(QUESTION)) == query
    near, far = (sum(map(float.__mul__, query["embedding"], document.embedding or [])) for document in embedded)
    assert near > far + 0.2
    assert query["meta"]["model"]


async def test_it_retrieves_and_stores_while_others_wait(collection: str) -> None:
    name = f"{collection}-more"
    written = await CitewireWriter(collection=name).run_async([Document(content=QUOTE, meta={"page": 1})])
    (passage,) = (await CitewireRetriever(collection=name).run_async(QUESTION))["documents"]
    assert (written["document_ids"], passage.meta["page"]) == ([str(passage.meta["document_id"])], 1)
    with Citewire() as client:
        client.delete_collection(name, force=True)


def test_what_cannot_be_sent_is_refused_by_name(collection: str) -> None:
    generator = CitewireChatGenerator(collection=collection)
    image = ImageContent(base64_image="iVBORw0KGgo=", mime_type="image/png", validation=False)
    with pytest.raises(ValueError, match=r"messages\.0: ImageContent can't be sent"):
        generator.run([ChatMessage.from_user(content_parts=["What?", image])])
    with pytest.raises(ValueError, match="temperature can't be set"):
        generator.run(ASKED, generation_kwargs={"temperature": 0.5})
    with pytest.raises(ValueError, match=r"documents\.0\.content: must not be empty"):
        CitewireWriter().run([Document(meta={"a": 1})])
    with pytest.raises(InvalidRequestError) as refused:
        generator.run(ASKED, generation_kwargs={"options": {"top_k": 100_000}})
    assert [error.field for error in refused.value.errors] == ["options.top_k"]
    with pytest.raises(InvalidRequestError, match=r"tools: .*extractive"):
        generator.run(ASKED, tools=[add])


FORM = {
    "type": "json_schema",
    "json_schema": {
        "name": "boiling",
        "schema": {"type": "object", "properties": {"boils": {"type": "string"}}, "required": ["boils"]},
    },
}


def test_a_reply_in_json_has_a_citation_for_each_value(collection: str) -> None:
    generator = CitewireChatGenerator(collection=collection)
    asked = [ChatMessage.from_user("At how many degrees does water boil?")]
    (reply,) = generator.run(asked, generation_kwargs={"response_format": FORM})["replies"]
    assert "100 degrees" in json.loads(reply.text or "")["boils"]
    assert [citation["pointer"] for citation in reply.meta["citations"]] == ["/boils"]
