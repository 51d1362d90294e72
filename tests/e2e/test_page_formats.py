"""Files of each kind, opened from an answer in a real Chromium: at the quote, which is marked; checked with axe."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass

import docx
import httpx
import openpyxl
import pptx
import pytest

from axe_script import axe_script, looks, violations
from devtools import Chromium, DrivenPage
from http_api import upload_bytes
from ingest_files import make_pdf, prose_page
from local_stack import LocalStack
from page_steps import MARKED, ask, press_named, watched_page
from zip_packages import epub

pytestmark = pytest.mark.system(program="chromium", package="chromium")


def _docx(fact: str) -> bytes:
    document = docx.Document()
    document.add_heading("Rules", 1)
    document.add_paragraph("Nobody fishes from the piers.")
    document.add_heading("Fees", 2)
    document.add_paragraph(fact)
    return _saved(document.save)


def _xlsx(fact: str) -> bytes:
    workbook = openpyxl.Workbook()
    workbook.active.title = "Summer"  # pyright: ignore[reportOptionalMemberAccess] # a new workbook has a sheet
    sheet = workbook.create_sheet("Winter")
    for row in (("Pier", "Note"), ("Gull", "It is closed."), ("Heron", fact), ("Tern", "It is open on Sundays.")):
        sheet.append(row)
    return _saved(workbook.save)


def _pptx(fact: str) -> bytes:
    slides = pptx.Presentation()
    for title, text in (("Piers", "There are three of them."), ("Fees", fact)):
        slide = slides.slides.add_slide(slides.slide_layouts[1])
        slide.shapes.title.text = title  # pyright: ignore[reportOptionalMemberAccess] # this layout has a title
        slide.placeholders[1].text = text  # pyright: ignore[reportAttributeAccessIssue] # and a text
    return _saved(slides.save)


def _saved(save: Callable[[io.BytesIO], object]) -> bytes:
    data = io.BytesIO()
    save(data)
    return data.getvalue()


def _mail(fact: str) -> bytes:
    return (
        f"From: Ada <ada@b.example>\r\nTo: bob@b.example\r\nSubject: Piers\r\n\r\nDear Bob,\r\n\r\n{fact}\r\n".encode()
    )


def _epub(fact: str) -> bytes:
    chapter = "<html><body><h1>{}</h1><p>{}</p></body></html>"
    return epub({"a.xhtml": chapter.format("The quay", "It is long."), "b.xhtml": chapter.format("The toll", fact)})


def _notebook(fact: str) -> bytes:
    code = '{"cell_type": "code", "outputs": [], "source": "print(1)"}'
    text = json.dumps({"cell_type": "markdown", "source": fact})
    return f'{{"cells": [{code}, {text}], "nbformat": 4, "nbformat_minor": 5}}'.encode()


def _records(fact: str) -> bytes:
    return json.dumps({"piers": {"heron": fact}}).encode()


def _pdf(fact: str) -> bytes:
    return make_pdf([prose_page("Piers", [["There are three."]]), prose_page("Fees", [[fact], ["Nothing else."]])])


@dataclass(frozen=True)
class Case:
    name: str
    build: Callable[[str], bytes]
    place: str
    fragment: str = ""
    has_pages: bool = False


CASES = [
    Case("fees.docx", _docx, "Fees"),
    Case("fees.xlsx", _xlsx, "Winter!A3:B3", "#sheet=Winter&range=A3:B3"),
    Case("fees.pptx", _pptx, "Slide 2", "#slide=2"),
    Case("fees.eml", _mail, "fees.eml"),
    Case("fees.epub", _epub, "The toll"),
    Case("fees.ipynb", _notebook, "Cell 2", "#cell=2"),
    Case("fees.json", _records, "piers.heron", "#path=piers.heron"),
    Case("fees.csv", lambda fact: f"Pier,Note\nGull,It is closed.\nHeron,{fact}\n".encode(), "Row 3", "#row=3"),
    Case("fees.md", lambda fact: f"# Piers\n\nThere are three.\n\n## Fees\n\n{fact}\n".encode(), "Line 7"),
    Case("fees.pdf", _pdf, "Page 2", has_pages=True),
]


async def test_each_format_opens_at_the_quotes_place(
    stack: LocalStack, api: httpx.AsyncClient, chromium: Chromium, subtests: pytest.Subtests
) -> None:
    axe = axe_script()
    async with watched_page(chromium, stack.base_url, "Page", "Runtime") as page:
        await page.run(f"{axe}; undefined")
        for number, case in enumerate(CASES):
            fact = f"The mooring fee of the heron pier is {number + 811} groats a week."
            document = await upload_bytes(api, case.name, case.build(fact))
            with subtests.test(case.name):
                await check(page, stack, document["id"], case, fact)
                await check_looks(page)
            await page.press("Escape")
            await page.run("document.querySelectorAll('.chosen .icon').forEach(button => button.click())")
        # The last case again in the other language; both of its views are checked.
        await page.run("localStorage.setItem('citewire.language', 'de')")
        await page.call("Page.reload")
        await page.wait_for("document.querySelectorAll('.badge').length > 0")
        await page.run(f"{axe}; undefined")
        await page.run("[...document.querySelectorAll('.badge')].at(-1).click()")
        await press_named(page, ".card-actions button", "Original öffnen")
        await page.wait_for(MARKED)
        await check_looks(page)
        await press_named(page, ".reader button", "Text")
        await page.wait_for("!!document.querySelector('.reader mark')")
        await check_looks(page)


async def check_looks(page: DrivenPage) -> None:
    async for look in looks(page):
        assert await page.run("document.documentElement.scrollWidth - innerWidth") <= 0, look
        assert await violations(page) == [], look


async def check(page: DrivenPage, stack: LocalStack, number: int, case: Case, fact: str) -> None:
    await page.run(f"location.hash = '#/library/{number}'")
    await press_named(page, ".tools button", "Ask only this document")
    await page.wait_for("!!document.querySelector('#question')")
    await ask(page, "How much is the mooring fee of the heron pier?")
    await page.run("[...document.querySelectorAll('.badge')].at(-1).click()")
    assert fact in await page.wait_for("document.querySelector('.card mark')?.textContent")
    place = await page.run("document.querySelector('.card h2 + .quiet').textContent")
    assert place.split(" · ")[-1] == case.place
    if case.has_pages:
        await press_named(page, ".card-actions button", "Open the original")
        await page.wait_for(f"{MARKED} && document.querySelector('.original-tools span').textContent === 'Page 2 of 2'")
        return
    link = await page.run("[...document.querySelectorAll('.card-actions a')].map(link => link.href)[0]")
    assert link == f"{stack.base_url}/v1/documents/{number}/content?version=1{case.fragment}"
    await press_named(page, ".card-actions button", "Show in the text")
    assert fact in await page.wait_for("document.querySelector('.reader mark')?.textContent")
    assert place in await page.run("document.querySelector('.reader header').textContent")
    box, view = [
        f"document.querySelector('.reader {selector}').getBoundingClientRect()" for selector in ("mark", ".reader-text")
    ]
    assert await page.run(f"{box}.top >= {view}.top && {box}.bottom <= {view}.bottom"), "the quote is in sight"
