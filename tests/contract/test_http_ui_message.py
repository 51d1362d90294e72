"""`/v1/chat?dialect=ui-message`: the frames that Vercel's AI SDK reads, and the body that its clients send."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from citewire.generator.v1 import generator_pb2

from citewire_kit.errors import Unavailable
from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, result, started
from gateway_process import Gateway, rows, running_gateway, until_rows
from npm_clients import npm_folder

if TYPE_CHECKING:
    from databases import Database

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "tests" / "support" / "ai_sdk_client.mjs"
RESUME = ROOT / "tests" / "support" / "ai_sdk_resume.mjs"
PATH = "/v1/chat?dialect=ui-message"
PICTURE = "data:image/png;base64,iVBORw0KGgo="
USE_CHAT: dict[str, Any] = {
    "id": "chat-1",
    "trigger": "submit-message",
    "messageId": "m-2",
    "messages": [{"id": "m-1", "role": "user", "parts": [{"type": "text", "text": "How much did it grow?"}]}],
}


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        fakes.retriever.results = [result(1, url="https://example.org/report"), result(2)]
        yield running


async def breaks(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
    """An answer whose model becomes unavailable."""
    yield started((1, 0))
    yield delta("Rev")
    raise Unavailable("the model provider went away", reason="PROVIDER_UNAVAILABLE")


def parts_of(text: str) -> list[dict[str, Any]]:
    """The parts of a stream that ended as it should."""
    assert text.endswith("data: [DONE]\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: {")]


async def test_a_message_with_its_sources_and_our_own_events(gateway: Gateway) -> None:
    response = await gateway.http.post(PATH, json=USE_CHAT)
    assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
    parts = parts_of(response.text)
    assert [part["type"] for part in parts] == [
        "start",
        "start-step",
        "data-conversation",
        "source-url",
        "source-document",
        "data-citations",
        "text-start",
        "text-delta",
        "text-delta",
        "data-usage",
        "text-end",
        "finish-step",
        "finish",
    ]
    assert parts[3] == {
        "type": "source-url",
        "sourceId": "1",
        "url": "https://example.org/report",
        "title": "report.pdf",
    }
    assert parts[4] == {
        "type": "source-document",
        "sourceId": "2",
        "mediaType": "text/plain",
        "title": "report.pdf",
        "filename": "report.pdf",
    }
    assert "".join(part["delta"] for part in parts if part["type"] == "text-delta") == 'Revenue grew by "12" %.'
    assert parts[-1]["messageMetadata"]["finish_reason"] == "stop"
    assert gateway.fakes.generator.requests[0].question == "How much did it grow?"


async def test_a_fault_is_an_error_part_and_no_finish(gateway: Gateway) -> None:
    gateway.fakes.generator.script = breaks
    parts = parts_of((await gateway.http.post(PATH, json=USE_CHAT)).text)
    assert parts[-1] == {"type": "error", "errorText": "the model provider went away"}


async def test_a_question_is_asked_with_pictures_and_no_other_files(gateway: Gateway) -> None:
    picture = {"type": "file", "mediaType": "image/png", "filename": "chart.png", "url": PICTURE}
    text = {"type": "text", "text": "How much did it grow?"}
    asked = [{"id": "m-1", "role": "user", "parts": [picture, text]}]
    await gateway.http.post(PATH, json={**USE_CHAT, "messages": asked})
    request = gateway.fakes.generator.requests[0]
    assert (request.question, [image.url for image in request.images]) == ("How much did it grow?", [PICTURE])
    wrong = {
        "a file of application/pdf can't be read": {"mediaType": "application/pdf"},
        "a file of no mediaType can't be read": {"mediaType": ""},
        "url is required in a part of type file": {"url": ""},
        "tool-x isn't supported": {"type": "tool-x"},
    }
    for message, changes in wrong.items():
        body = {**USE_CHAT, "messages": [{"role": "user", "parts": [picture | changes, text]}]}
        refused = await gateway.http.post(PATH, json=body)
        (error,) = refused.json()["errors"]
        assert (refused.status_code, error["field"]) == (422, "messages.0")
        assert message in error["message"]


async def test_a_dialect_is_for_streams_and_must_be_known(gateway: Gateway) -> None:
    whole = await gateway.http.post(PATH, json={"question": "x", "stream": False})
    assert whole.json()["errors"][0]["field"] == "dialect"
    unknown = await gateway.http.post("/v1/chat?dialect=nonsense", json={"question": "x"})
    assert (unknown.status_code, unknown.json()["errors"][0]["field"]) == (422, "dialect")


@pytest.fixture(scope="session")
def ai_sdk() -> Path:
    """A folder where the `ai` package is installed."""
    return npm_folder("ai")


@pytest.mark.client("ai", "UI message stream: text, sources and citations as parts")
@pytest.mark.system(program="npm", package="npm")
async def test_the_ai_package_reads_the_stream(gateway: Gateway, ai_sdk: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        "node", str(SCRIPT), f"{gateway.url}{PATH}", "How much did it grow?", cwd=ai_sdk, stdout=subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    read = json.loads(out)
    assert read["errors"] == []
    message = read["message"]
    assert message["role"] == "assistant"
    assert message["metadata"]["finish_reason"] == "stop"
    parts: dict[str, list[Any]] = {}
    for part in message["parts"]:
        parts.setdefault(part["type"], []).append(part)
    assert [part["text"] for part in parts["text"]] == ['Revenue grew by "12" %.']
    assert [part["url"] for part in parts["source-url"]] == ["https://example.org/report"]
    assert [part["filename"] for part in parts["source-document"]] == ["report.pdf"]
    assert [entry["index"] for entry in parts["data-citations"][0]["data"]["citations"]] == [1, 2]


@pytest.mark.client("ai", "Images as file parts of a question")
@pytest.mark.system(program="npm", package="npm")
async def test_the_ai_package_sends_pictures(gateway: Gateway, ai_sdk: Path) -> None:
    arguments = (f"{gateway.url}{PATH}", "How much did it grow?", PICTURE, "image/png")
    process = await asyncio.create_subprocess_exec("node", str(SCRIPT), *arguments, cwd=ai_sdk, stdout=subprocess.PIPE)
    await process.communicate()
    assert process.returncode == 0
    assert [image.url for image in gateway.fakes.generator.requests[0].images] == [PICTURE]


@pytest.mark.client("ai", "A fault in the stream is reported as its error")
@pytest.mark.system(program="npm", package="npm")
async def test_the_ai_package_reports_a_fault(gateway: Gateway, ai_sdk: Path) -> None:
    gateway.fakes.generator.script = breaks
    process = await asyncio.create_subprocess_exec(
        "node",
        str(SCRIPT),
        f"{gateway.url}{PATH}",
        "How much?",
        cwd=ai_sdk,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert "the model provider went away" in (out + err).decode()


@pytest.mark.client("ai", "Resumes a stream; a chat id is a conversation")
@pytest.mark.system(program="npm", package="npm")
async def test_the_ai_package_resumes_a_stream_and_its_chat_is_a_conversation(
    gateway: Gateway, ai_sdk: Path, database: Database
) -> None:
    go_on = asyncio.Event()

    async def slow(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("Revenue ")
        await go_on.wait()
        yield delta("grew.")
        yield completed()

    gateway.fakes.generator.script = slow
    process = await asyncio.create_subprocess_exec(
        "node", str(RESUME), gateway.url, "chat-4711", cwd=ai_sdk, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"left\n"
    await until_rows(database, "SELECT count(read_at) FROM chat.exchanges", [(1,)])
    go_on.set()
    read = json.loads(await process.stdout.readline())
    assert await process.wait() == 0
    assert read["first"] == "Revenue "
    texts = [part["text"] for part in read["resumed"]["parts"] if part["type"] == "text"]
    assert texts == ["Revenue grew."]
    assert read["after"] is None  # no answer is being written any more
    assert rows(database, "SELECT messages FROM chat.conversations") == [(4,)]
    conversations = {read[name]["metadata"]["conversation_id"] for name in ("resumed", "second")}
    assert len(conversations) == 1
    # The conversation's own id works, too.
    again = await gateway.http.post(PATH, json={**USE_CHAT, "id": conversations.pop()})
    assert "data-conversation" not in again.text
    assert rows(database, "SELECT messages FROM chat.conversations") == [(6,)]
