"""Other projects' clients, each in its own environment, against the whole stack with a scripted model."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks import litellm_environment
from local_stack import LocalStack
from npm_clients import npm_folder
from scripts.tool_environment import install_tool
from tool_model import WATER, ToolModel, answering_tool_model

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests" / "support"
SCRIPT = SUPPORT / "foreign_clients.py"
URL = "https://example.org/water"
ANSWER = WATER[:-1]
"""How the model's answer begins; a marker and a full stop follow."""
OBJECT = {"boils": WATER, "degrees": 3}
"""The model's values for a schema or for a tool's arguments."""
LOOKED_UP = f"{WATER} 3"
QUESTION = "At how many degrees does water boil?"
FOLLOW_UP = "And at how many degrees does water boil at sea level?"

pytestmark = pytest.mark.usefixtures("model")


@pytest.fixture(scope="module")
def model(egress_stack: LocalStack) -> Iterator[ToolModel]:
    """The stack's model; the library has a document on water."""
    with httpx.Client(base_url=egress_stack.base_url, trust_env=False, timeout=60) as api:
        document = {"title": "Water", "type": "article", "url": URL, "content": f"# Water\n\n{WATER}\n"}
        response = api.post("/v1/documents", json=document)
        assert response.status_code == 202, response.text
        path = f"/v1/documents/{response.json()['id']}"
        egress_stack.wait(lambda: api.get(path).json()["status"] == "ready" or None, "the document isn't ready")
        with answering_tool_model(egress_stack.base_url) as model:
            yield model
        assert api.delete(path).status_code == 204


@pytest.fixture(scope="session")
def python() -> Path:
    """A Python with Cohere's and LangChain's packages."""
    return install_tool("python", "clients of other APIs", ROOT / "tests" / "clients" / "requirements.txt")


@pytest.fixture(scope="session")
def agents_python() -> Path:
    """A Python with packages that build on OpenAI's and Anthropic's clients."""
    requirements = ROOT / "tests" / "clients" / "agents-requirements.txt"
    return install_tool("python", "clients that build on others", requirements, name="agents")


async def _run_client(program: Path, *arguments: str) -> dict[str, Any]:
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
async def test_coheres_client_reranks(egress_stack: LocalStack, python: Path) -> None:
    output = await _run_client(python, str(SCRIPT), "cohere", egress_stack.base_url)
    for version in ("v1", "v2"):
        (first, best), (second, next_best) = output[version]
        assert (first, second) == (1, 2)
        assert best > next_best


@pytest.mark.client("langchain-openai", "Chat, whole and streamed, with usage; embeddings")
async def test_langchains_chat_and_embeddings(egress_stack: LocalStack, python: Path) -> None:
    output = await _run_client(python, str(SCRIPT), "langchain", egress_stack.base_url)
    assert output["whole"].startswith(ANSWER)
    assert output["tokens"] == 62
    assert output["streamed"].startswith(ANSWER)
    assert output["pieces"] > 2
    question, *others = output["vectors"]
    near = [sum(map(float.__mul__, question, vector)) for vector in others]
    assert near.index(max(near)) == 1


@pytest.mark.client("langchain-openai", "`with_structured_output`, strict")
async def test_langchains_structured_output(egress_stack: LocalStack, python: Path) -> None:
    output = await _run_client(python, str(SCRIPT), "langchain_structured", egress_stack.base_url)
    assert output == OBJECT


@pytest.mark.client("instructor", "Answers as classes, through a tool and through a schema")
async def test_instructor_fills_a_class(egress_stack: LocalStack, agents_python: Path) -> None:
    output = await _run_client(agents_python, str(SCRIPT), "instructor", egress_stack.base_url)
    assert output == {"TOOLS": OBJECT, "JSON_SCHEMA": OBJECT}


@pytest.mark.client(
    "pydantic-ai-slim", "Agents in the formats of OpenAI and of Anthropic: whole, streamed, with tools, as classes"
)
async def test_pydantic_ais_agents(egress_stack: LocalStack, agents_python: Path) -> None:
    output = await _run_client(agents_python, str(SCRIPT), "pydantic_ai", egress_stack.base_url)
    assert output.keys() == {"openai", "anthropic"}
    for reply in output.values():
        assert reply["class"] == OBJECT
        assert reply["looked_up"] == [LOOKED_UP]
        for way in ("whole", "streamed", "with_tool"):
            assert reply[way].startswith(ANSWER), way


@pytest.mark.client("openai-agents", "Agents through the Responses API, and with tools through chat completions")
async def test_openais_agents(egress_stack: LocalStack, agents_python: Path) -> None:
    output = await _run_client(agents_python, str(SCRIPT), "openai_agents", egress_stack.base_url)
    assert output["responses"].startswith(ANSWER)
    assert output["chat"].startswith(ANSWER)
    assert output["looked_up"] == [LOOKED_UP]


@pytest.mark.client("llm", "Questions from a terminal, streamed; continued conversations")
async def test_the_llm_command_asks(
    egress_stack: LocalStack, model: ToolModel, agents_python: Path, tmp_path: Path
) -> None:
    models = f"- model_id: ours\n  model_name: grounded\n  api_base: {egress_stack.base_url}/v1\n  api_key_name: ours\n"
    (tmp_path / "extra-openai-models.yaml").write_text(models)
    environment = litellm_environment.environment() | {"LLM_USER_PATH": str(tmp_path), "LLM_LOAD_PLUGINS": ""}
    program = agents_python.with_name("llm")
    for arguments in (["keys", "set", "ours", "--value", "none"], ["-m", "ours", QUESTION], ["-c", FOLLOW_UP]):
        process = await asyncio.create_subprocess_exec(
            program, *arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()[-3000:]
        assert arguments[0] == "keys" or out.decode().startswith(ANSWER)
    assert QUESTION in json.dumps(model.requests[-1]["messages"][:-1])


@pytest.mark.client(
    "ollama",
    "Each call",
    refused="Ollama's API isn't supported: use an OpenAI client with a profile, such as grounded, as its model",
)
async def test_ollamas_client_is_told_what_to_use(egress_stack: LocalStack, agents_python: Path, refusal: str) -> None:
    output = await _run_client(agents_python, str(SCRIPT), "ollama", egress_stack.base_url)
    assert len(output) == 6
    for name, message in output.items():
        assert re.fullmatch(rf"{refusal} \({re.escape(egress_stack.base_url)}/v1\)", message), name


async def _run_node_client(script: str, *arguments: str, packages: tuple[str, ...]) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        "node",
        str(SUPPORT / script),
        *arguments,
        cwd=npm_folder(*packages),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-3000:]
    return json.loads(out)


@pytest.mark.client("openai-node", "Chat completions and responses, whole and streamed; its own error classes")
@pytest.mark.system(program="npm", package="npm")
async def test_openais_client_for_node(egress_stack: LocalStack) -> None:
    output = await _run_node_client("node_clients.mjs", "openai", egress_stack.base_url, packages=("openai",))
    assert output["refused"] == ["UnprocessableEntityError", "n"]
    assert output["cited"] == URL
    for way in ("whole", "streamed", "response"):
        assert output[way].startswith(ANSWER), way


@pytest.mark.client("anthropic-node", "Messages, whole and streamed; its own error classes")
@pytest.mark.system(program="npm", package="npm")
async def test_anthropics_client_for_node(egress_stack: LocalStack) -> None:
    output = await _run_node_client(
        "node_clients.mjs", "anthropic", egress_stack.base_url, packages=("@anthropic-ai/sdk",)
    )
    assert output["refused"] == ["UnprocessableEntityError", 422]
    assert output["cited"] == WATER
    assert output["whole"] == output["streamed"] == WATER


@pytest.mark.client("ai-providers", "`generateText` and `streamText` in three formats; an object by its schema")
@pytest.mark.system(program="npm", package="npm")
async def test_ai_sdks_providers(egress_stack: LocalStack) -> None:
    output = await _run_node_client(
        "node_clients.mjs",
        "ai_providers",
        egress_stack.base_url,
        packages=(
            "ai",
            "@ai-sdk/openai",
            "@ai-sdk/anthropic",
        ),
    )
    assert output.pop("object") == OBJECT
    assert output.keys() == {"chat", "responses", "anthropic"}
    for name, texts in output.items():
        assert all(text.startswith(ANSWER) for text in texts), name


@pytest.mark.client("ai", "Over the whole stack: UI message stream, with text and its source")
@pytest.mark.system(program="npm", package="npm")
async def test_ai_sdk_reads_a_cited_answer(egress_stack: LocalStack) -> None:
    url = f"{egress_stack.base_url}/v1/chat?dialect=ui-message"
    output = await _run_node_client("ai_sdk_client.mjs", url, QUESTION, packages=("ai",))
    assert output["errors"] == []
    parts: dict[str, list[Any]] = {}
    for part in output["message"]["parts"]:
        parts.setdefault(part["type"], []).append(part)
    assert "".join(part["text"] for part in parts["text"]).startswith(ANSWER)
    assert [part["url"] for part in parts["source-url"]] == [URL]


@pytest.mark.client("litellm", "Chat in the formats of OpenAI and of Anthropic, whole and streamed; embeddings; rerank")
async def test_litellm_by_three_wires(egress_stack: LocalStack) -> None:
    program = litellm_environment.install().with_name("python")
    output = await _run_client(program, str(SCRIPT), "litellm", egress_stack.base_url)
    assert output.pop("rerank") == [1, 2]
    assert len(output.pop("embedding")) == 384
    assert {name for name, text in output.items() if not text.startswith(ANSWER)} == set()
    assert len(output) == 4


@pytest.mark.client("eventsource", "Reads a chat that continues without a client to its end, and then stops")
@pytest.mark.system(program="npm", package="npm")
async def test_an_event_source_reads_a_run_to_its_end(egress_stack: LocalStack) -> None:
    came = await _run_node_client("event_source.mjs", egress_stack.base_url, packages=("eventsource",))
    assert came["text"].startswith(ANSWER)
    assert came["done"] == 1
    assert came["ids"] == list(range(1, len(came["ids"]) + 1))
