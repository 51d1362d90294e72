"""LangChain's standard tests with a model, and tools and JSON together with citations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_tests.integration_tests import ChatModelIntegrationTests
from pydantic import BaseModel, Field

from citewire_client import Citewire
from langchain_citewire import ChatCitewire, CitewireRetriever

WATER = "At sea level water boils at 100 degrees."
QUESTION = "At how many degrees does water boil?"


@pytest.fixture(scope="session")
def collection() -> Iterator[str]:
    """A collection for this test in the gateway at `CITEWIRE_URL`."""
    name = f"langchain-{uuid4().hex[:8]}"
    CitewireRetriever(collection=name).add_documents([Document(page_content=f"# Water\n\n{WATER}\n")])
    yield name
    with Citewire() as client:
        client.delete_collection(name, force=True)


class TestChatModel(ChatModelIntegrationTests):
    @pytest.fixture(autouse=True)
    def _with_documents(self, collection: str) -> None:
        self._collection = collection

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatCitewire

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "grounded", "collection": self._collection}

    @property
    def model_override_value(self) -> str:
        return "sources"

    @property
    def supports_json_mode(self) -> bool:
        return True


class Boiling(BaseModel):
    """What water does."""

    boils: str = Field(description="The sentence that says when it boils.")
    melts: str | None = None


@tool
def pressure(place: str) -> str:
    """The air pressure at a place."""
    return f"1013 hPa at {place}"


def test_each_value_has_its_citation(collection: str) -> None:
    chain = ChatCitewire(collection=collection).with_structured_output(Boiling, include_raw=True)
    answer = chain.invoke(QUESTION)
    assert isinstance(answer, dict)
    assert answer["parsing_error"] is None
    assert answer["parsed"] == Boiling(boils=WATER, melts=None)
    (citation,) = answer["raw"].additional_kwargs["citations"]
    assert (citation["cited_text"], citation["extras"]["pointer"]) == (WATER, "/boils")
    assert citation["extras"]["verdict"] == "supported"


async def test_a_tool_is_called_and_the_answer_after_it_is_cited(collection: str) -> None:
    model = ChatCitewire(collection=collection).bind_tools([pressure])
    talk: list[BaseMessage] = [HumanMessage(QUESTION)]
    called = await model.ainvoke(talk)
    assert called.response_metadata["finish_reason"] == "tool_calls"
    (call,) = called.tool_calls
    assert (call["name"], list(call["args"])) == ("pressure", ["place"])
    result = pressure.invoke(call)
    assert isinstance(result, ToolMessage)
    chunks = [chunk async for chunk in model.astream([*talk, called, result])]
    full = sum(chunks[1:], chunks[0])
    assert isinstance(full, AIMessage)
    assert WATER[:-1] in full.text
    (citation,) = full.additional_kwargs["citations"]
    assert citation["cited_text"] == WATER
