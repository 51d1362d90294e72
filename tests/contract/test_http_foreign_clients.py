"""Clients of others' APIs in environments of their own: what people have beside OpenAI's and Anthropic's for Python."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from citewire.generator.v1 import generator_pb2

from benchmarks import litellm_environment
from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, result, started
from gateway_process import Gateway, running_gateway
from npm_clients import npm_folder
from scripts.tool_environment import install_tool

if TYPE_CHECKING:
    from databases import Database

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "support" / "foreign_clients.py"
EVENT_SOURCE = ROOT / "tests" / "support" / "event_source.mjs"
NODE_CLIENTS = ROOT / "tests" / "support" / "node_clients.mjs"
REPLY = '{"growth": "By 12 %.", "year": 2025}'


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        fakes.retriever.results = [result(1, url="https://example.org/report")]
        fakes.generator.script = _answers
        yield running


async def _answers(request: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
    yield started((1, 0))
    if request.HasField("tools") and not request.continuation:
        (tool, *_) = request.tools.tools
        call = generator_pb2.ToolCallDelta(index=0, id="call_1", name=tool.name, arguments=REPLY)
        yield generator_pb2.GenerateResponse(tool_call=call)
        yield completed(finish_reason=generator_pb2.FINISH_REASON_TOOL_CALLS)
        return
    if request.HasField("format"):
        yield delta(REPLY)
    else:
        yield delta("By 12", " %.")
    yield completed(cited_numbers=[1])


@pytest.fixture(scope="session")
def python() -> Path:
    """A Python with Cohere's and LangChain's packages."""
    return install_tool("python", "clients of other APIs", ROOT / "tests" / "clients" / "requirements.txt")


@pytest.fixture(scope="session")
def agents_python() -> Path:
    """A Python with packages that build on OpenAI's and Anthropic's."""
    requirements = ROOT / "tests" / "clients" / "agents-requirements.txt"
    return install_tool("python", "clients that build on others", requirements, name="agents")


async def _said_by(program: Path, *arguments: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        env=litellm_environment.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-3000:]
    return json.loads(out.splitlines()[-1])


@pytest.mark.client("cohere", "Rerank, `Client` and `ClientV2`")
async def test_coheres_client_reranks(gateway: Gateway, python: Path) -> None:
    told = await _said_by(python, str(SCRIPT), "cohere", gateway.url)
    for version in ("v1", "v2"):
        (first, best), (second, next_best) = told[version]
        assert (first, second) == (2, 1)
        assert best > next_best


@pytest.mark.client("langchain-openai", "Chat, whole and streamed, with usage; embeddings")
async def test_langchains_chat_and_embeddings(gateway: Gateway, python: Path) -> None:
    told = await _said_by(python, str(SCRIPT), "langchain", gateway.url)
    assert told["whole"].startswith("By 12 %.")
    assert told["tokens"] == 120
    assert told["streamed"].startswith("By 12 %.")
    assert told["pieces"] > 2
    assert told["vectors"] == [[0.5] * 4]


@pytest.mark.client("langchain-openai", "`with_structured_output`, strict")
async def test_langchains_structured_output(gateway: Gateway, python: Path) -> None:
    told = await _said_by(python, str(SCRIPT), "langchain_structured", gateway.url)
    assert told == json.loads(REPLY)


@pytest.mark.client("instructor", "Answers as classes, by a tool and by a schema")
async def test_instructor_fills_a_class(gateway: Gateway, agents_python: Path) -> None:
    told = await _said_by(agents_python, str(SCRIPT), "instructor", gateway.url)
    assert told == {"TOOLS": json.loads(REPLY), "JSON_SCHEMA": json.loads(REPLY)}


@pytest.mark.client(
    "pydantic-ai-slim", "Agents by the wires of OpenAI and of Anthropic: whole, streamed, with tools, as classes"
)
async def test_pydantic_ais_agents(gateway: Gateway, agents_python: Path) -> None:
    told = await _said_by(agents_python, str(SCRIPT), "pydantic_ai", gateway.url)
    assert told.keys() == {"openai", "anthropic"}
    for reply in told.values():
        assert reply["class"] == json.loads(REPLY)
        assert reply["looked_up"] == ["By 12 %. 2025"]
        for way in ("whole", "streamed", "with_tool"):
            assert reply[way].startswith("By 12 %."), way


@pytest.mark.client("openai-agents", "Agents by the Responses API, and with tools by chat completions")
async def test_openais_agents(gateway: Gateway, agents_python: Path) -> None:
    told = await _said_by(agents_python, str(SCRIPT), "openai_agents", gateway.url)
    assert told["responses"].startswith("By 12 %.")
    assert told["chat"].startswith("By 12 %.")
    assert told["looked_up"] == ["By 12 %. 2025"]


@pytest.mark.client("llm", "Questions from a terminal, streamed; a conversation goes on")
async def test_the_llm_command_asks(gateway: Gateway, agents_python: Path, tmp_path: Path) -> None:
    models = f"- model_id: ours\n  model_name: grounded\n  api_base: {gateway.url}/v1\n  api_key_name: ours\n"
    (tmp_path / "extra-openai-models.yaml").write_text(models)
    environment = litellm_environment.environment() | {"LLM_USER_PATH": str(tmp_path), "LLM_LOAD_PLUGINS": ""}
    program = agents_python.with_name("llm")
    for arguments in (["keys", "set", "ours", "--value", "none"], ["-m", "ours", "How much?"], ["-c", "Why?"]):
        process = await asyncio.create_subprocess_exec(
            program, *arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()[-3000:]
        assert arguments[0] == "keys" or out.decode().startswith("By 12 %.")
    assert gateway.fakes.generator.requests[-1].history[0].content == "How much?"


@pytest.mark.client(
    "ollama",
    "Each call",
    refused="Ollama's API isn't supported: use an OpenAI client with a profile, such as grounded, as its model",
)
async def test_ollamas_client_is_told_what_to_use(gateway: Gateway, agents_python: Path, refusal: str) -> None:
    told = await _said_by(agents_python, str(SCRIPT), "ollama", gateway.url)
    assert len(told) == 6
    for name, message in told.items():
        assert re.fullmatch(rf"{refusal} \({re.escape(gateway.url)}/v1\)", message), name


async def _answers_in_node(client: str, url: str, *packages: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        "node",
        str(NODE_CLIENTS),
        client,
        url,
        cwd=npm_folder(*packages),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-3000:]
    return json.loads(out)


@pytest.mark.client("openai-node", "Chat completions and responses, whole and streamed; errors of its own kinds")
@pytest.mark.system(program="npm", package="npm")
async def test_openais_client_for_node(gateway: Gateway) -> None:
    told = await _answers_in_node("openai", gateway.url, "openai")
    assert told["refused"] == ["UnprocessableEntityError", "n"]
    assert told["cited"] == "https://example.org/report"
    for way in ("whole", "streamed", "response"):
        assert told[way].startswith("By 12 %."), way


@pytest.mark.client("anthropic-node", "Messages, whole and streamed; errors of its own kinds")
@pytest.mark.system(program="npm", package="npm")
async def test_anthropics_client_for_node(gateway: Gateway) -> None:
    told = await _answers_in_node("anthropic", gateway.url, "@anthropic-ai/sdk")
    assert told["refused"] == ["UnprocessableEntityError", 422]
    assert told["whole"] == told["streamed"] == "By 12 %."


@pytest.mark.client("ai-providers", "`generateText` and `streamText` by three wires; an object by its schema")
@pytest.mark.system(program="npm", package="npm")
async def test_ai_sdks_providers(gateway: Gateway) -> None:
    told = await _answers_in_node("ai_providers", gateway.url, "ai", "@ai-sdk/openai", "@ai-sdk/anthropic")
    assert told.pop("object") == json.loads(REPLY)
    assert told.keys() == {"chat", "responses", "anthropic"}
    for name, texts in told.items():
        assert all(text.startswith("By 12 %.") for text in texts), name


@pytest.mark.client("litellm", "Chat by the wires of OpenAI and of Anthropic, whole and streamed; embeddings; rerank")
async def test_litellm_by_three_wires(gateway: Gateway) -> None:
    program = litellm_environment.install().with_name("python")
    told = await _said_by(program, str(SCRIPT), "litellm", gateway.url)
    assert told.pop("rerank") == [2, 1]
    assert told.pop("embedding") == [0.5] * 4
    assert {name for name, text in told.items() if not text.startswith("By 12 %.")} == set()
    assert len(told) == 4


@pytest.mark.client("eventsource", "Reads a chat that goes on without its reader, to its end, and stops then")
@pytest.mark.system(program="npm", package="npm")
async def test_an_event_source_reads_a_run_to_its_end(gateway: Gateway) -> None:
    home = npm_folder("eventsource")
    process = await asyncio.create_subprocess_exec(
        "node", str(EVENT_SOURCE), gateway.url, cwd=home, stdout=subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    came = json.loads(out)
    assert came["text"] == "By 12 %."
    assert came["done"] == 1
    assert came["ids"] == list(range(1, len(came["ids"]) + 1))
