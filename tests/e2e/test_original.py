"""The original beside the answer in a real Chromium: open at the right page, with the quote marked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from urllib.parse import quote, urlsplit

import httpx
import pytest

from devtools import Chromium, DrivenPage
from http_api import upload_bytes
from ingest_files import make_pdf, prose_page
from local_stack import LocalStack
from page_steps import COVERED, MARKED, QUIET, ask, press_named, text, watched_page

pytestmark = pytest.mark.system(program="chromium", package="chromium")

QUESTION = "How much is the zeppelin docking fee?"
QUOTE = "The zeppelin docking fee is 4711 guilders for each night at the mast."
PAGES = [
    prose_page("Airships", [["This first page speaks of other things altogether, and holds no fee."]]),
    prose_page("Fees", [["A cabin costs nothing at all, as long as the crew is aboard."], [QUOTE]]),
]
DRAWN = """(() => {
  const canvas = document.querySelector('.original-page canvas');
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.some((value, index) => index % 4 < 3 && value < 128);
})()"""


@pytest.fixture
async def page(stack: LocalStack, api: httpx.AsyncClient, chromium: Chromium) -> AsyncIterator[DrivenPage]:
    """The page of a stack that has the document; a test mustn't violate its policy, and nothing leaves its origin."""
    documents = (await api.get("/v1/documents", params={"q": "airships.pdf"})).json()["documents"]
    if not documents:
        await upload_bytes(api, "airships.pdf", make_pdf(PAGES))
    async with watched_page(chromium, stack.base_url, "Page", "Runtime", "Network", "Log") as driven:
        yield driven
        urls = requested(driven)
        assert {urlsplit(url).netloc for url in urls} == {urlsplit(stack.base_url).netloc}
        assert viewer_of(urls) != [], "the viewer is loaded when it is needed"


def requested(page: DrivenPage) -> list[str]:
    """Returns the URLs that the page has requested so far."""
    events = [event for event in page.events if event["method"] == "Network.requestWillBeSent"]
    return [event["params"]["request"]["url"] for event in events]


def viewer_of(urls: list[str]) -> list[str]:
    """Returns the URLs of the viewer's scripts."""
    return [url for url in urls if "/assets/pdf" in url or "/assets/Original" in url]


async def test_by_keyboard(page: DrivenPage) -> None:
    await ask(page, QUESTION)
    await page.run("document.querySelector('.badge').focus()")
    await page.press("Enter", "\r")
    # An open card takes the focus a frame later, even from its own button: no person is as quick as this test.
    await page.wait_for("document.activeElement.matches('.card') && !!document.querySelector('.card mark')")
    await page.wait_for("performance.getEntriesByType('resource').some(entry => entry.name.includes('/locate?'))")
    assert viewer_of(requested(page)) == [], "the viewer isn't loaded before it is needed"
    await page.run("[...document.querySelectorAll('.card-actions button')][1].focus()")
    await page.press("Enter", "\r")
    await page.wait_for(MARKED)
    assert QUOTE in await page.run(COVERED)
    assert "cabin" not in await page.run(COVERED)
    await page.wait_for(DRAWN)
    assert await page.run("document.activeElement.matches('.reader')")
    assert await text(page, ".original-tools [role=status]") == "Page 2 of 2"
    await page.run("document.querySelector('.original-tools button').focus()")
    await page.press("Enter", "\r")
    await page.wait_for("document.querySelector('.page-text')?.textContent.includes('speaks of other things')")
    assert await page.run("document.querySelectorAll('.quote-box').length") == 0
    await page.press("Escape")
    await page.wait_for("document.activeElement.className.includes('badge') && !document.querySelector('.reader')")
    # A link to it opens the conversation, the original at its page, and the card, which has the focus.
    await page.run("navigator.clipboard.writeText = async text => void (window.copied = text)")
    await page.press("Enter", "\r")
    await press_named(page, ".card-actions button", "Copy the link")
    address = await page.wait_for("window.copied")
    await page.call("Emulation.setDeviceMetricsOverride", width=1280, height=800, deviceScaleFactor=1, mobile=False)
    await page.go("about:blank")
    await page.go(address)
    await page.wait_for(f"document.activeElement.matches('.card') && {MARKED}")
    assert QUOTE in await page.run(COVERED)
    assert await text(page, ".card mark") == QUOTE
    await page.press("Escape")
    await page.wait_for("document.activeElement.className.includes('badge')")


async def test_by_a_link_by_touch_and_larger(page: DrivenPage, stack: LocalStack) -> None:
    await page.call("Emulation.setDeviceMetricsOverride", width=390, height=780, deviceScaleFactor=2, mobile=True)
    await page.call("Emulation.setTouchEmulationEnabled", enabled=True)
    await page.go(f"{stack.base_url}/?q={quote(QUESTION)}&from=elsewhere")
    assert await page.wait_for("document.querySelector('#question')?.value") == QUESTION
    assert await page.run("location.search") == ""
    await page.run("document.querySelector('#question').focus()")
    await page.press("Enter")
    await page.wait_for(QUIET)
    for selector in (".badge", ".card-actions button:nth-of-type(2)"):
        await page.wait_for(f"!!document.querySelector({json.dumps(selector)})")
        box = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
        x, y = await page.run(f"[{box}.x + {box}.width / 2, {box}.y + {box}.height / 2]")
        assert viewer_of(requested(page)) == [], "the viewer isn't loaded before it is needed"
        await page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        await page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    await page.wait_for(MARKED)
    assert QUOTE in await page.run(COVERED)
    width = await page.run("document.querySelector('.original-page').offsetWidth")
    await page.run("[...document.querySelectorAll('.original-tools button')].at(-1).click()")
    await page.wait_for(f"document.querySelector('.original-page').offsetWidth > {1.4 * width}")
    await page.wait_for(f"{COVERED}.includes({json.dumps(QUOTE)})")  # a change of width lays the words out again
    await page.run("document.querySelector('.reader header button').click()")
    assert await text(page, ".reader mark") == QUOTE
