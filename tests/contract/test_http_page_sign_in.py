"""The page's sign-in with a key, and a key that expires in the middle of a chat."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import pytest
from citewire.generator.v1 import generator_pb2

from api_keys import bearer, key_for
from axe_script import axe_script, violations
from devtools import Chromium, DrivenPage
from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, started
from gateway_process import running_gateway
from page_steps import QUIET, READY, text

if TYPE_CHECKING:
    from databases import Database

pytestmark = pytest.mark.system(program="chromium", package="chromium")
SIGN_IN = "!!document.querySelector('.sign-in #key')"


async def give_key(page: DrivenPage, key: str) -> None:
    """Types a key and presses Enter."""
    await page.wait_for(SIGN_IN)
    await page.run("document.querySelector('#key').focus()")
    await page.type_text(key)
    await page.press("Enter", "\r")


async def check_looks(page: DrivenPage, axe: str, subtests: pytest.Subtests) -> None:
    """Checks the sign-in form in both languages, light and dark, narrow and wide."""
    for language, heading in (("de", "Anmelden"), ("en", "Sign in")):
        await page.run(f"localStorage.setItem('citewire.language', '{language}')")
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            await page.call("Emulation.setEmulatedMedia", features=features)
            for width in (390, 1280):
                size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
                await page.call("Emulation.setDeviceMetricsOverride", **size)
                await page.call("Page.reload")
                await page.wait_for(f"document.readyState === 'complete' && {SIGN_IN}")
                await page.run(f"{axe}; undefined")
                with subtests.test(language=language, scheme=scheme, width=width):
                    assert await text(page, ".sign-in h1") == heading
                    assert await page.run("document.documentElement.scrollWidth - innerWidth") <= 0
                    assert await violations(page) == []


async def test_signing_in_and_a_key_that_expires_in_mid_chat(
    database: Database, chromium: Chromium, subtests: pytest.Subtests
) -> None:
    go_on = asyncio.Event()

    async def answer(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("It grew by 12 percent")
        await go_on.wait()
        yield delta(" in the first half.")
        yield completed()

    axe = await asyncio.to_thread(axe_script)
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as gateway:
        fakes.generator.script = answer
        first, second = [await key_for(database, "acme", "ada") for _ in range(2)]
        async with chromium.page() as page:
            await page.call("Page.enable")
            await page.call("Runtime.enable")
            await page.go(f"{gateway.url}/")
            await page.wait_for(SIGN_IN)
            await check_looks(page, axe, subtests)
            await give_key(page, "cw_nobody's")
            assert await text(page, ".toast.error") != ""
            await page.run("document.querySelector('#key').value = ''; undefined")
            await page.call("Page.reload")
            await give_key(page, first["key"])
            await page.wait_for(READY)
            await page.run("document.querySelector('#question').focus()")
            await page.type_text("How much did revenue grow?")
            await page.press("Enter")
            await page.wait_for("document.querySelector('.prose')?.textContent.includes('12 percent')")
            # The key expires while the answer is written: the answer is completed, and the next call asks for a key.
            response = await gateway.http.delete(f"/v1/keys/{first['id']}", headers=bearer(second["key"]))
            assert response.status_code == 204, response.text
            go_on.set()
            await page.wait_for(f"{QUIET} || {SIGN_IN}")
            address = await page.run("location.hash")
            assert address.startswith("#/c/")
            await page.run("document.querySelector('#question')?.focus()")
            await page.type_text("And the year before?")
            await page.press("Enter")
            await page.wait_for(SIGN_IN)
            assert await text(page, ".toast.error") != ""
            await give_key(page, second["key"])
            await page.wait_for(f"!({SIGN_IN})")
            assert "12 percent in the first half." in await text(page, ".prose")
            assert await page.run("location.hash") == address
            assert json.loads(await page.run("JSON.stringify(sessionStorage)"))["citewire.key"] == second["key"]
