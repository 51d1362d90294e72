"""OpenAI's and Anthropic's libraries against the whole stack: they upload a file, find it, and get answers citing it.

Tests in `tests/contract/` cover the rest, against a gateway with scripted services.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from uuid import uuid4

import anthropic
import openai
import pytest
from pydantic import BaseModel

from local_stack import LocalStack

QUOTE = "At sea level water boils at 100 degrees."
QUESTION = "At how many degrees does water boil?"
MESSAGES: Any = [{"role": "user", "content": QUESTION}]
FILE = ("water.md", f"# Water\n\n{QUOTE}\n\n# Ice\n\nIce melts at 0 degrees.\n".encode(), "text/markdown")


class Boiling(BaseModel):
    boils: str


@pytest.fixture(scope="module")
def client(stack: LocalStack) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{stack.base_url}/v1", api_key="none is asked for", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def store(client: openai.OpenAI) -> Iterator[str]:
    """A vector store with one file that is ready to be searched."""
    made = client.vector_stores.create(name=f"clients-{uuid4().hex[:8]}").id
    file = client.files.create(file=FILE, purpose="assistants")
    put = client.vector_stores.files.create_and_poll(
        file.id, vector_store_id=made, attributes={"year": 2025}, poll_interval_ms=50
    )
    assert put.status == "completed", put
    yield made
    client.files.delete(file.id)
    client.vector_stores.delete(made)


@pytest.mark.client("openai", "Over the whole stack: a file added to a vector store, found by its words and attributes")
def test_openais_client_finds_what_it_has_uploaded(client: openai.OpenAI, store: str) -> None:
    (file,) = client.vector_stores.files.list(store)
    (best, *_) = client.vector_stores.search(store, query=QUESTION).data
    assert QUOTE in best.content[0].text
    assert (best.file_id, best.filename, best.attributes) == (file.id, "water.md", {"year": 2025})
    later: Any = {"type": "gt", "key": "year", "value": 2025}
    assert client.vector_stores.search(store, query=QUESTION, filters=later).data == []


@pytest.mark.client(
    "openai", "Over the whole stack: chat completions, whole, streamed and parsed into a class, with citations"
)
def test_openais_chat_completions_are_cited(client: openai.OpenAI, store: str) -> None:
    assert "grounded" in [model.id for model in client.models.list()]
    within = {"citewire": {"collection": store}}
    whole = client.chat.completions.create(model="grounded", messages=MESSAGES, extra_body=within)
    message = whole.choices[0].message
    assert QUOTE[:-1] in (message.content or "")
    assert message.annotations is not None
    assert _cited(message.annotations) == [(QUOTE, "supported")]
    text, annotations = "", list[Any]()
    for chunk in client.chat.completions.create(model="grounded", messages=MESSAGES, stream=True, extra_body=within):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            annotations += (choice.delta.model_extra or {}).get("annotations", [])
    assert text.startswith(f"{message.content}\n\nSources:\n- [1] [water.md")  # a stream ends with a list of sources
    assert annotations == [annotation.to_dict() for annotation in message.annotations]
    parsed = client.chat.completions.parse(
        model="grounded", messages=MESSAGES, response_format=Boiling, extra_body=within
    )
    assert parsed.choices[0].message.parsed == Boiling(boils=QUOTE)


@pytest.mark.client("openai", "Over the whole stack: responses with `file_search`, whole and streamed, cited by file")
def test_openais_responses_cite_files(client: openai.OpenAI, store: str) -> None:
    (file,) = client.vector_stores.files.list(store)
    tools: Any = [{"type": "file_search", "vector_store_ids": [store]}]
    asked: dict[str, Any] = {"model": "grounded", "input": QUESTION, "tools": tools, "store": False}
    whole = cast("Any", client.responses.create(**asked))
    assert QUOTE[:-1] in whole.output_text
    assert [item.type for item in whole.output] == ["file_search_call", "message"]
    (annotation,) = whole.output[1].content[0].annotations
    assert (annotation.type, annotation.file_id, annotation.filename) == ("file_citation", file.id, "water.md")
    assert annotation.citewire["quote"] == QUOTE
    with client.responses.stream(**asked) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert stream.get_final_response().output_text == text == whole.output_text


@pytest.mark.client("openai", "Over the whole stack: embeddings")
def test_openais_embeddings_tell_near_from_far(client: openai.OpenAI) -> None:
    texts = [QUESTION, QUOTE, "The committee met on Tuesday."]
    question, near, far = (item.embedding for item in client.embeddings.create(model="", input=texts).data)
    assert sum(map(float.__mul__, question, near)) > sum(map(float.__mul__, question, far)) + 0.2


@pytest.mark.client("anthropic", "Over the whole stack: messages, whole and streamed, each sentence cited")
def test_anthropics_messages_are_cited(stack: LocalStack, store: str) -> None:
    within = {"citewire": {"collection": store}}
    asked: dict[str, Any] = {"model": "grounded", "max_tokens": 200, "messages": MESSAGES, "extra_body": within}
    with anthropic.Anthropic(base_url=f"{stack.base_url}/anthropic", api_key="none", max_retries=0) as client:
        assert "grounded" in [model.id for model in client.models.list()]
        whole = cast("anthropic.types.Message", client.messages.create(**asked))
        with client.messages.stream(**asked) as stream:
            streamed = stream.get_final_message()
    for message in (whole, streamed):
        (block,) = (
            block for block in message.content if isinstance(block, anthropic.types.TextBlock) and block.citations
        )
        assert block.text.strip() == QUOTE
        assert [cited.cited_text for cited in block.citations or ()] == [QUOTE]
        assert message.stop_reason == "end_turn"


def _cited(annotations: list[Any]) -> list[tuple[str, str]]:
    return [(annotation.citewire["quote"], annotation.citewire["verdict"]) for annotation in annotations]
