"""PDFs that are hard to show, in a real Chromium: missing fonts, rare picture formats, and rotated pages."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from devtools import Chromium, DrivenPage
from hard_pdfs import east_asian_pdf, picture_pdf
from http_api import upload_bytes
from ingest_files import make_pdf, prose_page
from local_stack import LocalStack
from page_steps import COVERED, MARKED, ask, press_named, watched_page

pytestmark = pytest.mark.system(program="chromium", package="chromium")

JAPANESE = "東京の港は朝六時に開きます。"
HALVES = """(() => {
  const canvas = document.querySelector('.original-page canvas');
  const at = (x, y) => canvas.getContext('2d').getImageData(x * canvas.width, y * canvas.height, 1, 1).data[0];
  return [at(0.25, 0.8), at(0.75, 0.8)];
})()"""
SYMBOLS = "[...document.fonts].filter(font => font.status === 'loaded').length"


@pytest.fixture
async def page(stack: LocalStack, chromium: Chromium) -> AsyncIterator[DrivenPage]:
    async with watched_page(chromium, stack.base_url, "Page", "Runtime", "Network", "Log") as driven:
        yield driven


async def open_from_library(page: DrivenPage, stack: LocalStack, api: httpx.AsyncClient, name: str, pdf: bytes) -> None:
    number = (await upload_bytes(api, name, pdf))["id"]
    await page.go(f"{stack.base_url}/#/library/{number}")
    await press_named(page, ".tools button", "Open the original")
    await page.wait_for("!!document.querySelector('.page-text span')")


@pytest.mark.parametrize("picture_filter", ["JPXDecode", "JBIG2Decode"])
async def test_pictures_in_rare_formats_are_drawn(
    page: DrivenPage, stack: LocalStack, api: httpx.AsyncClient, picture_filter: str
) -> None:
    pdf = picture_pdf(picture_filter, f"The quay of {picture_filter} is long.")
    await open_from_library(page, stack, api, f"{picture_filter}.pdf", pdf)
    await page.wait_for(f"{HALVES}.join() === '0,255'")
    assert await page.run(SYMBOLS) >= 1, "Symbol's characters have their font"


async def test_text_with_a_missing_font_is_readable(
    page: DrivenPage, stack: LocalStack, api: httpx.AsyncClient
) -> None:
    await open_from_library(page, stack, api, "harbour.pdf", east_asian_pdf(JAPANESE))
    assert JAPANESE in await page.run("document.querySelector('.page-text').textContent")


@pytest.mark.parametrize(("rotation", "crop"), [(90, b""), (270, b"/CropBox [36 36 756 576]"), (180, b"")])
async def test_the_quote_on_a_rotated_page_is_marked(
    page: DrivenPage, stack: LocalStack, api: httpx.AsyncClient, rotation: int, crop: bytes
) -> None:
    quote = f"The balloon toll of gate {rotation} is {rotation + 7} groats."
    pages = [prose_page("Balloons", [["Nothing is said of wind here."], [quote], ["Nor is anything said of rain."]])]
    number = (await upload_bytes(api, f"turned-{rotation}.pdf", make_pdf(pages, rotation=rotation, crop=crop)))["id"]
    await page.go(f"{stack.base_url}/#/library/{number}")
    await press_named(page, ".tools button", "Ask only this document")
    await ask(page, f"How much is the balloon toll of gate {rotation}?")
    await page.click(".badge")
    await page.wait_for("!!document.querySelector('.card mark')")
    await press_named(page, ".card-actions button", "Open the original")
    await page.wait_for(f"{MARKED} && {COVERED} !== ''")  # the words are laid out one after another
    covered = await page.run(COVERED)
    assert quote in covered
    assert "wind" not in covered
    assert "rain" not in covered
