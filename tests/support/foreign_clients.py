"""Calls our address with third-party clients for third-party APIs; prints the results as one line of JSON.

Runs in an environment with the client and none of our packages: python foreign_clients.py CLIENT URL
"""

from __future__ import annotations

import json
import sys
from typing import Any

# pyright: basic
# each call has an environment of its own
QUESTION = "At how many degrees does water boil?"
DOCUMENTS = ["The committee met on Tuesday.", "Water boils at 100 degrees.", "Ice melts at 0 degrees."]


def cohere(url: str) -> dict[str, Any]:
    """Rerank with both versions of the client."""
    import cohere  # pyright: ignore[reportMissingImports] # from its own environment

    asked = {"model": "", "query": QUESTION, "documents": DOCUMENTS, "top_n": 2}
    output: dict[str, Any] = {}
    for name, kind in (("v1", cohere.Client), ("v2", cohere.ClientV2)):
        reply = kind(api_key="none is asked for", base_url=url).rerank(**asked)
        output[name] = [[entry.index, entry.relevance_score] for entry in reply.results]
    return output


def langchain(url: str) -> dict[str, Any]:
    """Chat, streamed and unstreamed, structured output, embeddings."""
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings  # pyright: ignore[reportMissingImports] # from its own environment

    there = {"base_url": f"{url}/v1", "api_key": "none is asked for"}
    model = ChatOpenAI(model="grounded", max_retries=0, **there)
    whole = model.invoke(QUESTION)
    pieces = [chunk.content for chunk in model.stream(QUESTION)]
    # Its own tokenizer would be loaded from the internet; arrays of tokens are in the tests of OpenAI's client.
    vectors = OpenAIEmbeddings(model="", check_embedding_ctx_length=False, **there).embed_documents(
        [QUESTION, *DOCUMENTS]
    )
    return {
        "whole": whole.content,
        "tokens": whole.usage_metadata["total_tokens"],
        "streamed": "".join(pieces),
        "pieces": len(pieces),
        "vectors": vectors,
    }


def langchain_structured(url: str) -> dict[str, Any]:
    """An answer that follows a schema."""
    from langchain_openai import ChatOpenAI  # pyright: ignore[reportMissingImports] # from its own environment

    schema = {
        "title": "Boiling",
        "type": "object",
        "properties": {"boils": {"type": "string"}, "degrees": {"type": "integer"}},
        "required": ["boils", "degrees"],
        "additionalProperties": False,
    }
    model = ChatOpenAI(model="grounded", base_url=f"{url}/v1", api_key="none is asked for", max_retries=0)
    return model.with_structured_output(schema, method="json_schema", strict=True).invoke(QUESTION)


def litellm(url: str) -> dict[str, Any]:
    """Chat over the APIs of OpenAI and Anthropic, rerank over Cohere's, embeddings."""
    import litellm  # pyright: ignore[reportMissingImports] # from its own environment

    messages = [{"role": "user", "content": QUESTION}]
    by_openai = {"model": "openai/grounded", "api_base": f"{url}/v1", "api_key": "none is asked for"}
    by_anthropic = {"model": "anthropic/grounded", "api_base": f"{url}/anthropic", "api_key": "none is asked for"}
    reranked = litellm.rerank(
        model="cohere/", query=QUESTION, documents=DOCUMENTS, top_n=2, api_base=url, api_key="none is asked for"
    )
    output = {
        "rerank": [entry["index"] for entry in reranked.results],
        "embedding": litellm.embedding(
            model="openai/", input=["a"], api_base=f"{url}/v1", api_key="none is asked for", encoding_format="float"
        ).data[0]["embedding"],
    }
    for name, there in (("openai", by_openai), ("anthropic", by_anthropic)):
        output[name] = litellm.completion(messages=messages, **there).choices[0].message.content
        stream = litellm.completion(messages=messages, stream=True, **there)
        output[f"{name}_streamed"] = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    return output


def instructor(url: str) -> dict[str, Any]:
    """An answer as a class, through a tool and through a schema."""
    import instructor as package  # pyright: ignore[reportMissingImports] # from its own environment
    from openai import OpenAI
    from pydantic import BaseModel

    class Boiling(BaseModel):
        boils: str
        degrees: int

    output: dict[str, Any] = {}
    for mode in (package.Mode.TOOLS, package.Mode.JSON_SCHEMA):
        client = package.from_openai(
            OpenAI(base_url=f"{url}/v1", api_key="none is asked for", max_retries=0), mode=mode
        )
        messages = [{"role": "user", "content": QUESTION}]
        output[mode.name] = client.create(
            model="grounded", messages=messages, response_model=Boiling, max_retries=0
        ).model_dump()
    return output


def pydantic_ai(url: str) -> dict[str, Any]:
    """Agents over the APIs of OpenAI and Anthropic: text streamed and unstreamed, their own tool, a class."""
    import asyncio

    from pydantic import BaseModel
    from pydantic_ai import Agent  # pyright: ignore[reportMissingImports] # from its own environment
    from pydantic_ai.models.anthropic import AnthropicModel  # pyright: ignore[reportMissingImports] # from its own environment
    from pydantic_ai.models.openai import OpenAIChatModel  # pyright: ignore[reportMissingImports] # from its own environment
    from pydantic_ai.providers.anthropic import AnthropicProvider  # pyright: ignore[reportMissingImports] # from its own environment
    from pydantic_ai.providers.openai import OpenAIProvider  # pyright: ignore[reportMissingImports] # from its own environment

    class Boiling(BaseModel):
        boils: str
        degrees: int

    key = "none is asked for"
    models = {
        "openai": OpenAIChatModel("grounded", provider=OpenAIProvider(base_url=f"{url}/v1", api_key=key)),
        "anthropic": AnthropicModel("grounded", provider=AnthropicProvider(base_url=f"{url}/anthropic", api_key=key)),
    }

    async def ask(model: Any) -> dict[str, Any]:  # noqa: ANN401 # of a package that isn't here
        looked_up: list[str] = []

        def lookup(boils: str, degrees: int) -> str:
            looked_up.append(f"{boils} {degrees}")
            return "It is so."

        async with Agent(model).run_stream(QUESTION) as streamed:
            pieces = [piece async for piece in streamed.stream_text(delta=True)]
        return {
            "whole": (await Agent(model).run(QUESTION)).output,
            "streamed": "".join(pieces),
            "with_tool": (await Agent(model, tools=[lookup]).run(QUESTION)).output,
            "looked_up": looked_up,
            "class": (await Agent(model, output_type=Boiling).run(QUESTION)).output.model_dump(),
        }

    async def ask_all() -> dict[str, Any]:
        return {name: await ask(model) for name, model in models.items()}

    return asyncio.run(ask_all())


def openai_agents(url: str) -> dict[str, Any]:
    """An agent over the Responses API, its default, and one with a tool over chat completions."""
    from agents import (  # pyright: ignore[reportMissingImports] # from its own environment
        Agent,
        OpenAIChatCompletionsModel,
        OpenAIResponsesModel,
        Runner,
        function_tool,
        set_tracing_disabled,
    )
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none is asked for", max_retries=0)
    looked_up: list[str] = []

    @function_tool
    def lookup(boils: str, degrees: int) -> str:
        """Looks up when something boils."""
        looked_up.append(f"{boils} {degrees}")
        return "It is so."

    by_responses = Agent(name="a", instructions="Be brief.", model=OpenAIResponsesModel("grounded", client))
    by_chat = Agent(name="b", model=OpenAIChatCompletionsModel("grounded", client), tools=[lookup])
    return {
        "responses": Runner.run_sync(by_responses, QUESTION).final_output,
        "chat": Runner.run_sync(by_chat, QUESTION).final_output,
        "looked_up": looked_up,
    }


def ollama(url: str) -> dict[str, Any]:
    """The rejection of each of the client's calls."""
    import ollama as package  # pyright: ignore[reportMissingImports] # from its own environment

    client = package.Client(host=url)
    messages = [{"role": "user", "content": QUESTION}]
    calls = {
        "chat": lambda: client.chat(model="grounded", messages=messages),
        "streamed": lambda: list(client.chat(model="grounded", messages=messages, stream=True)),
        "generate": lambda: client.generate(model="grounded", prompt=QUESTION),
        "embed": lambda: client.embed(model="any", input="a"),
        "list": client.list,
        "show": lambda: client.show("grounded"),
    }
    output: dict[str, Any] = {}
    for name, call in calls.items():
        try:
            output[name] = repr(call())
        except package.ResponseError as refused:
            output[name] = refused.error
    return output


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[1]](sys.argv[2])) + "\n")
