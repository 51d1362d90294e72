"""Clients of others' APIs in environments of their own: Cohere's, LangChain's, LiteLLM's, and an EventSource."""

from __future__ import annotations

import asyncio
import json
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
REPLY = '{"growth": "By 12 %.", "year": 2025}'


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        fakes.retriever.results = [result(1, url="https://example.org/report")]
        fakes.generator.script = _answers
        yield running


async def _answers(request: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
    yield started((1, 0))
    if request.HasField("format"):
        yield delta(REPLY)
    else:
        yield delta("By 12", " %.")
    yield completed(cited_numbers=[1])


@pytest.fixture(scope="session")
def python() -> Path:
    """A Python with Cohere's and LangChain's packages."""
    return install_tool("python", "clients of other APIs", ROOT / "tests" / "clients" / "requirements.txt")


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
