"""A page in real Chromium streams a chat if its origin is listed, and is refused otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from citewire.generator.v1 import generator_pb2

from browser_pages import Page, open_page, page_origin
from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, started
from gateway_process import frames_of, running_gateway

if TYPE_CHECKING:
    from databases import Database

pytestmark = pytest.mark.system(program="chromium", package="chromium")

ASK = """
try {
  const response = await fetch(%(url)s + "/v1/chat", {
    method: "POST",
    headers: {"Content-Type": "application/json", "X-Request-Id": "from-a-page"},
    body: JSON.stringify({question: "How much did it grow?"}),
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "", shown = false;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    text += part.value;
    if (!shown && text.includes("By 12 in all")) { shown = true; await report({first: text}); }
  }
  await report({status: response.status, text, request_id: response.headers.get("X-Request-Id")});
} catch (error) {
  await report({error: String(error)});
}
"""


def script_of(url: str) -> str:
    """A script that asks a question and reports the answer."""
    return ASK % {"url": json.dumps(url)}


@pytest.fixture
async def page() -> AsyncGenerator[Page]:
    async with page_origin() as origin:
        yield origin


async def test_a_page_of_a_listed_origin_streams_a_chat(database: Database, page: Page, tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def paced(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("By 12 in all")
        await go_on.wait()
        yield delta(", as far as we know.")
        yield completed()

    async with running_fakes() as fakes, running_gateway(database, fakes, cors_origins=page.origin) as gateway:
        fakes.generator.script = paced
        async with open_page(page, script_of(gateway.url), tmp_path):
            first = await page.report()
            assert "event: citations" in first["first"]
            assert "as far as" not in first["first"], "the page must read while the answer is being written"
            go_on.set()
            whole = await page.report()
    assert whole["status"] == 200
    assert '{"text": ", as far as we know."}' in whole["text"]
    assert frames_of(whole["text"])[-1].event == "done"
    assert whole["request_id"] == "from-a-page"


async def test_a_page_of_another_origin_is_refused(database: Database, page: Page, tmp_path: Path) -> None:
    async with (
        running_fakes() as fakes,
        running_gateway(database, fakes, cors_origins="https://app.example.org") as gateway,
        open_page(page, script_of(gateway.url), tmp_path),
    ):
        assert await page.report() == {"error": "TypeError: Failed to fetch"}
        assert fakes.generator.requests == []
        assert fakes.embedder.requests == []
