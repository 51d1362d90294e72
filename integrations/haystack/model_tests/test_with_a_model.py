"""Haystack's own agents and pipelines with a model: tools and JSON together with citations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any
from uuid import uuid4

import pytest
from haystack import Document, Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import FallbackChatGenerator
from haystack.components.generators.utils import print_streaming_chunk
from haystack.dataclasses import ChatMessage, StreamingChunk, ToolCall
from haystack.tools import Toolset, tool  # pyright: ignore[reportUnknownVariableType] # of any function
from pydantic import BaseModel, Field

from citewire_client import Citewire
from haystack_integrations.components.generators.citewire import CitewireChatGenerator
from haystack_integrations.components.writers.citewire import CitewireWriter

WATER = "At sea level water boils at 100 degrees."
ASKED = [ChatMessage.from_user("At how many degrees does water boil?")]
CALLED = f"1013 hPa at {WATER}"
"""The tool's result: the model takes a text that it knows for a place."""


class Boiling(BaseModel):
    """What water does."""

    boils: str = Field(description="The sentence that says when it boils.")
    melts: str | None = None


@tool
def pressure(place: Annotated[str, "Where"]) -> str:
    """The air pressure at a place."""
    return f"1013 hPa at {place}"


@tool
def length(text: Annotated[str, "Of what"]) -> int:
    """How many characters a text has."""
    return len(text)


@pytest.fixture(scope="session")
def collection() -> Iterator[str]:
    """A collection for this test in the gateway at `CITEWIRE_URL`."""
    name = f"haystack-{uuid4().hex[:8]}"
    CitewireWriter(collection=name).run([Document(content=f"# Water\n\n{WATER}\n")])
    yield name
    with Citewire() as client:
        client.delete_collection(name, force=True)


def cited(message: ChatMessage) -> list[tuple[str, str]]:
    return [(citation["quote"], citation["verdict"]) for citation in message.meta["citations"]]


def test_an_agent_calls_a_tool_and_cites_its_answer(collection: str) -> None:
    agent = Agent(
        chat_generator=CitewireChatGenerator(collection=collection), tools=[pressure], system_prompt="Be brief."
    )
    done = agent.run(messages=ASKED)
    assert [message.role.value for message in done["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert done["messages"][3].tool_call_result.result == CALLED
    assert (done["exit_reason"], done["tool_call_counts"]) == ("text", {"pressure": 1})
    assert done["token_usage"]["prompt_tokens"] > 0
    assert WATER[:-1] in done["last_message"].text
    assert cited(done["last_message"]) == [(WATER, "supported")]
    again = agent.run(messages=[*done["messages"][1:], ChatMessage.from_user("And at which place?")])
    assert again["tool_call_counts"] == {"pressure": 1}  # after calls and results
    assert cited(again["last_message"]) == [(WATER, "supported")]


async def test_an_agent_streams_calls_and_answer(collection: str) -> None:
    told: list[StreamingChunk] = []

    async def tell(chunk: StreamingChunk) -> None:
        told.append(chunk)

    agent = Agent(chat_generator=CitewireChatGenerator(collection=collection), tools=Toolset([pressure]))
    done = await agent.run_async(messages=ASKED, streaming_callback=tell)
    calls = [call for chunk in told for call in chunk.tool_calls or ()]
    assert (calls[0].tool_name, calls[0].id) == ("pressure", done["messages"][1].tool_call.id)
    assert "".join(call.arguments or "" for call in calls) == '{"place": "' + WATER + '"}'
    assert [chunk.tool_call_result.result for chunk in told if chunk.tool_call_result] == [CALLED]
    assert "".join(chunk.content for chunk in told) == done["last_message"].text
    assert [chunk.finish_reason for chunk in told if chunk.finish_reason] == ["tool_calls", "tool_call_results", "stop"]
    assert told[0].component_info is not None
    assert told[0].component_info.type.endswith("CitewireChatGenerator")
    assert cited(done["last_message"]) == [(WATER, "supported")]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_reply_calls_the_tool_that_it_is_told_to(collection: str, streamed: bool) -> None:
    generator = CitewireChatGenerator(collection=collection, tools=[length, pressure])
    callback = print_streaming_chunk if streamed else None
    wish: dict[str, Any] = {"tool_choice": "pressure", "parallel_tool_calls": False}
    (reply,) = generator.run(ASKED, generation_kwargs=wish, streaming_callback=callback)["replies"]
    (call,) = reply.tool_calls
    assert call == ToolCall("pressure", {"place": WATER}, id=call.id)
    assert (reply.text, reply.meta["finish_reason"]) == (None, "tool_calls")
    assert [passage["index"] for passage in reply.meta["passages"]] == [1]
    result = ChatMessage.from_tool(pressure.invoke(**call.arguments), origin=call)
    (answer,) = generator.run([*ASKED, reply, result], streaming_callback=callback)["replies"]
    assert cited(answer) == [(WATER, "supported")]
    (without,) = generator.run(ASKED, tools=[], streaming_callback=callback)["replies"]
    assert without.tool_calls == []
    with pytest.raises(ValueError, match="there is no tool 'weight'"):
        generator.run(ASKED, generation_kwargs={"tool_choice": "weight"})


def test_other_components_hand_tools_on_and_pipelines_save_them(collection: str) -> None:
    pipeline = Pipeline()
    pipeline.add_component("chat", CitewireChatGenerator(collection=collection, tools=Toolset([pressure])))
    saved = pipeline.dumps()
    loaded = Pipeline.loads(saved, allowed_modules=[__name__])
    (reply,) = loaded.run({"chat": {"messages": ASKED}})["chat"]["replies"]
    assert reply.tool_call.tool_name == "pressure"
    fallback = FallbackChatGenerator([CitewireChatGenerator(collection=collection)])
    handed: dict[str, Any] = fallback.run(ASKED, tools=[pressure])
    (reply,) = handed["replies"]
    assert reply.tool_call.arguments == {"place": WATER}


def test_a_reply_in_json_follows_a_class(collection: str) -> None:
    generator = CitewireChatGenerator(collection=collection)
    (reply,) = generator.run("At how many degrees does water boil?", {"response_format": Boiling})["replies"]
    assert Boiling.model_validate_json(reply.text or "") == Boiling(boils=WATER)
    assert [citation["pointer"] for citation in reply.meta["citations"]] == ["/boils"]
