"""LlamaIndex's own agents, programs and wrappers with a model: tools and JSON together with citations."""
# LlamaIndex's responses contain untyped dictionaries:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from llama_index.core import Document, PromptTemplate
from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.program import FunctionCallingProgram
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from pydantic import BaseModel, Field

from citewire_client import Citewire as CitewireClient
from llama_index.llms.citewire import Citewire
from llama_index.retrievers.citewire import CitewireRetriever

WATER = "At sea level water boils at 100 degrees."
QUESTION = "At how many degrees does water boil?"
CALLED = f"1013 hPa at {WATER}"
"""The tool's result: the model takes a text that it knows for a place."""


class Boiling(BaseModel):
    """What water does."""

    boils: str = Field(description="The sentence that says when it boils.")
    melts: str | None = None


def pressure(place: str) -> str:
    """The air pressure at a place."""
    return f"1013 hPa at {place}"


def length(text: str) -> int:
    """How many characters a text has."""
    return len(text)


@pytest.fixture(scope="session")
def collection() -> Iterator[str]:
    """A collection for this test in the gateway at `CITEWIRE_URL`."""
    name = f"llama-index-{uuid4().hex[:8]}"
    CitewireRetriever(collection=name).add([Document(text=f"# Water\n\n{WATER}\n")])
    yield name
    with CitewireClient() as client:
        client.delete_collection(name, force=True)


def cited(message: ChatMessage) -> list[tuple[str, str]]:
    return [(citation["quote"], citation["verdict"]) for citation in message.additional_kwargs["citations"]]


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_agent_calls_a_tool_and_cites_its_answer(collection: str, streaming: bool) -> None:
    agent = FunctionAgent(
        tools=[pressure], llm=Citewire(collection=collection), system_prompt="Be brief.", streaming=streaming
    )
    context: Context[Any] = Context(agent)
    for question in (QUESTION, "Where does water boil at 100 degrees?"):  # the second one after calls and results
        handler = agent.run(user_msg=question, ctx=context)  # pyright: ignore[reportDeprecated] # as guides call it
        events = [event async for event in handler.stream_events()]
        answer = await handler
        (result,) = [event for event in events if isinstance(event, ToolCallResult)]
        assert (result.tool_name, result.tool_kwargs) == ("pressure", {"place": WATER})
        assert result.tool_output.content == CALLED
        assert WATER[:-1] in str(answer)
        assert cited(answer.response) == [(WATER, "supported")]
        streamed = [event for event in events if isinstance(event, AgentStream)]
        assert "".join(event.delta for event in streamed) == (str(answer) if streaming else "")
        if streaming:
            arguments = [call.tool_kwargs.get("place") for event in streamed for call in event.tool_calls]
            assert arguments[-1] == WATER


async def test_a_workflow_of_agents_ends_with_an_object(collection: str) -> None:
    workflow = AgentWorkflow.from_tools_or_functions(
        [pressure], llm=Citewire(collection=collection), output_cls=Boiling
    )
    assert isinstance(workflow.agents[workflow.root_agent], FunctionAgent)
    answer = await workflow.run(user_msg=QUESTION)  # pyright: ignore[reportDeprecated] # as guides call it
    assert answer.get_pydantic_model(Boiling) == Boiling(boils=WATER)


async def test_tools_are_called_as_the_framework_asks_for_it(collection: str) -> None:
    model = Citewire(collection=collection)
    tools = [FunctionTool.from_defaults(length), FunctionTool.from_defaults(pressure)]
    response = model.chat_with_tools(tools, QUESTION, tool_choice="pressure")
    (call,) = model.get_tool_calls_from_response(response)
    assert (call.tool_name, call.tool_kwargs) == ("pressure", {"place": WATER})
    assert response.additional_kwargs["finish_reason"] == "tool_calls"
    assert [passage["index"] for passage in response.additional_kwargs["passages"]] == [1]
    whole = await model.achat_with_tools(tools[1:], QUESTION, tool_required=True)
    assert model.get_tool_calls_from_response(whole)[0].tool_kwargs == call.tool_kwargs
    assert str(model.predict_and_call(tools[1:], QUESTION)) == CALLED
    assert str(await model.apredict_and_call(tools[1:], QUESTION)) == CALLED
    *_, last = model.stream_chat_with_tools(tools[1:], QUESTION)
    assert model.get_tool_calls_from_response(last)[0].tool_kwargs == call.tool_kwargs
    assert model.get_tool_calls_from_response(model.chat_with_tools([], QUESTION), error_on_no_tool_call=False) == []
    with pytest.raises(ValueError, match="the model called no tool"):
        model.get_tool_calls_from_response(model.chat_with_tools(tools, QUESTION, tool_choice="none"))
    with pytest.raises(ValueError, match="there is no tool 'weight'"):
        model.chat_with_tools(tools, QUESTION, tool_choice="weight")


async def test_objects_come_as_json_by_their_schema(collection: str) -> None:
    model, prompt = Citewire(collection=collection), PromptTemplate("At how many degrees does {what} boil?")
    expected = Boiling(boils=WATER)
    assert model.structured_predict(Boiling, prompt, what="water") == expected
    assert await model.astructured_predict(Boiling, prompt, what="water") == expected
    *_, streamed = model.stream_structured_predict(Boiling, prompt, what="water")
    assert streamed == expected
    waited = [item async for item in await model.astream_structured_predict(Boiling, prompt, what="water")]
    assert waited[-1] == expected
    wrapped = await model.as_structured_llm(Boiling).achat([ChatMessage(content=QUESTION)])
    assert wrapped.raw == expected
    response = model.chat([ChatMessage(content=QUESTION)], response_format=Boiling)
    assert Boiling.model_validate_json(response.message.content or "") == expected
    assert [citation["pointer"] for citation in response.additional_kwargs["citations"]] == ["/boils"]


async def test_a_program_of_the_framework_makes_a_tool_of_the_object(collection: str) -> None:
    program = FunctionCallingProgram.from_defaults(
        Boiling, prompt_template_str="At how many degrees does {what} boil?", llm=Citewire(collection=collection)
    )
    assert program(what="water") == Boiling(boils=WATER)
    assert await program.acall(what="water") == Boiling(boils=WATER)
    *_, streamed = program.stream_call(what="water")
    assert streamed == Boiling(boils=WATER)
