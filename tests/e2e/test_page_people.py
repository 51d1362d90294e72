"""What people do with answers and documents on the page, in a real Chromium: feedback, tags, permissions, sharing."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from devtools import Chromium, DrivenPage
from http_api import upload_bytes
from local_stack import LocalStack
from page_steps import ask, choose, fill, press_named, text, watched_page
from waiting import wait_until

pytestmark = pytest.mark.system(program="chromium", package="chromium")

QUESTION = "How much is the kelpie mooring fee?"
FEES = "# Kelpies\n\nThe kelpie mooring fee is 4712 guilders for each night.\n"


@pytest.fixture
async def page(stack: LocalStack, api: httpx.AsyncClient, chromium: Chromium) -> AsyncIterator[DrivenPage]:
    if not (await api.get("/v1/documents", params={"q": "kelpies.md"})).json()["documents"]:
        await upload_bytes(api, "kelpies.md", FEES.encode())
    async with watched_page(chromium, stack.base_url, "Page", "Runtime", "DOM") as driven:
        yield driven


async def stored_feedback(page: DrivenPage, api: httpx.AsyncClient) -> dict[str, Any] | None:
    number = await page.wait_for("location.hash.startsWith('#/c/') && location.hash.slice(4)")
    return (await api.get(f"/v1/conversations/{number}")).json()["messages"][-1].get("feedback")


async def exported_feedback(stack: LocalStack, folder: Path) -> list[dict[str, Any]]:
    """Returns the questions of the set that `citewire eval --from feedback` writes."""
    command = ["-m", "citewire_cli", "eval", "--from", "feedback", "--no-search", "--export", str(folder)]
    environ = {**os.environ, "CITEWIRE_URL": stack.base_url, "CITEWIRE_DATA_DIR": str(stack.data_dir)}
    done = await asyncio.create_subprocess_exec(sys.executable, *command, env=environ, stdout=PIPE, stderr=STDOUT)
    printed, _ = await done.communicate()
    assert done.returncode == 0, printed.decode()
    return [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]


async def test_an_answer_is_rated_by_keyboard_changed_taken_back_and_exported(
    page: DrivenPage, api: httpx.AsyncClient, stack: LocalStack, tmp_path: Path
) -> None:
    await ask(page, QUESTION)
    await page.wait_for("!!document.querySelector('.thumb.down')")
    await page.run("document.querySelector('.thumb.down').focus()")
    await page.press("Enter", "\r")
    await page.wait_for("document.activeElement.matches('.feedback input')")
    assert await stored_feedback(page, api) is None, "nothing is stored before it is sent"
    assert "Owners and admins" in await text(page, ".feedback .quiet")
    await page.press("Escape")
    await page.wait_for("!document.querySelector('.feedback')")
    await page.click(".thumb.down")
    await page.wait_for("document.querySelectorAll('.feedback input').length === 6")
    await page.run("[...document.querySelectorAll('.choice')].find(each => each.textContent === 'Outdated').click()")
    await fill(page, ".feedback textarea", "<b>It is 5000 now.</b>")
    await press_named(page, ".feedback button", "Send")
    await page.wait_for("document.querySelector('.thumb.down')?.ariaPressed === 'true'")
    feedback = await stored_feedback(page, api)
    assert feedback is not None
    assert (feedback["rating"], feedback["reasons"], feedback["comment"]) == (
        "down",
        ["outdated"],
        "<b>It is 5000 now.</b>",
    )
    await page.call("Page.reload")
    await page.wait_for("document.querySelector('.thumb.down')?.ariaPressed === 'true'")
    await page.click(".thumb.down")
    assert await page.wait_for("document.querySelector('.feedback textarea')?.value") == "<b>It is 5000 now.</b>"
    await press_named(page, ".feedback button", "Take it back")
    await page.wait_for("document.querySelector('.thumb.down')?.ariaPressed === 'false'")
    assert await stored_feedback(page, api) is None
    await page.click(".thumb.up")
    await press_named(page, ".feedback button", "Send")
    await page.wait_for("document.querySelector('.thumb.up')?.ariaPressed === 'true'")
    listed = (await api.get("/v1/feedback", params={"rating": "up"})).json()["feedback"]
    assert listed[0]["question"] == QUESTION
    # A rating on the page becomes part of an evaluation set, with the quote that the answer cites.
    number = listed[0]["answer"]["exchange_id"]
    (query,) = [query for query in await exported_feedback(stack, tmp_path / "set") if query["_id"] == number]
    assert query["text"] == QUESTION
    assert any("4712 guilders" in quote for quote in query["quotes"])
    # The conversation is saved as a file in both formats; the menu stays open for the second.
    await page.call(
        "Browser.setDownloadBehavior", behavior="allow", browserContextId=page.context, downloadPath=str(tmp_path)
    )
    conversation = await page.run("location.hash.slice(4)")
    await page.wait_for("!!document.querySelector('.conversations .here .icon')")
    for name, suffix in (("Export as Markdown", "md"), ("Export as JSON", "json")):
        await page.wait_for(
            "!!document.querySelector('.entry-menu')"
            " || (document.querySelector('.conversations .here .icon').click(), false)",
            every=0.1,
        )
        await press_named(page, ".entry-menu button", name)
        await wait_until((tmp_path / f"conversation-{conversation}.{suffix}").exists, 20)
    markdown = (tmp_path / f"conversation-{conversation}.md").read_text()
    assert (QUESTION in markdown, "4712 guilders" in markdown, "kelpies.md" in markdown) == (True, True, True)
    whole = json.loads((tmp_path / f"conversation-{conversation}.json").read_text())
    assert whole["messages"][-1]["feedback"]["rating"] == "up"


async def test_tags_are_set_at_upload_and_edited_filter_the_list_and_narrow_the_question(
    page: DrivenPage, api: httpx.AsyncClient, stack: LocalStack, tmp_path: Path
) -> None:
    (tmp_path / "selkies.md").write_text("# Selkies\n\nThe selkie boarding fee is 4713 guilders for each crossing.\n")
    await page.go(f"{stack.base_url}/#/library")
    await fill(page, "#with-tags", "Seefahrt, 2026 , Seefahrt, שכר")
    root = (await page.call("DOM.getDocument"))["root"]["nodeId"]
    field = await page.call("DOM.querySelector", nodeId=root, selector="input[type=file]")
    await page.call("DOM.setFileInputFiles", files=[str(tmp_path / "selkies.md")], nodeId=field["nodeId"])
    await page.wait_for("[...document.querySelectorAll('.documents .tag')].some(tag => tag.textContent === 'שכר')")
    await press_named(page, ".documents .tag", "Seefahrt")
    await page.wait_for("document.querySelectorAll('.documents > li').length === 1")
    await page.run("document.querySelector('.documents a').click()")
    await press_named(page, "p.tags button", "Change")
    assert await page.wait_for("document.querySelector('form.tools input')?.value") == "Seefahrt, 2026, שכר"
    await fill(page, "form.tools input", "Seefahrt")
    await press_named(page, "form.tools button", "Save")
    await page.wait_for("document.querySelectorAll('p.tags .tag').length === 1")
    await page.go(f"{stack.base_url}/#/library")
    await press_named(page, ".documents .tag", "Seefahrt")
    await press_named(page, ".tools button", "Ask only these documents")
    await page.wait_for("document.querySelector('.chosen')?.textContent.includes('Seefahrt')")
    await ask(page, QUESTION)
    sources = await page.run("[...document.querySelectorAll('.pill-title')].map(each => each.textContent)")
    assert set(sources) <= {"Selkies"}, "the document without the tag isn't a source"
    await press_named(page, ".chosen button", "Stop filtering by the tag “\u2068Seefahrt\u2069”")
    await ask(page, QUESTION)
    assert "4712" in await page.wait_for("[...document.querySelectorAll('.prose')].at(-1).textContent")


async def test_a_document_and_a_collection_are_shared(
    page: DrivenPage, api: httpx.AsyncClient, stack: LocalStack
) -> None:
    article = {"type": "article", "title": "Wages", "content": "The wages rise in May.", "collection": "people/pay"}
    number = (await api.post("/v1/documents", json=article)).raise_for_status().json()["id"]
    await page.go(f"{stack.base_url}/#/library/{number}")
    await press_named(page, ".tools button", "Permissions")
    await page.wait_for("!!document.querySelector('dialog[open] input')")
    assert "Whoever may read its collection." in await text(page, "dialog .subjects")
    await page.run("document.querySelector('dialog form select').focus()")
    await choose(page, "dialog form select", "group")
    await fill(page, "dialog form input", "hr")
    await page.press("Enter", "\r")
    await page.wait_for("document.querySelector('dialog .subjects .name')?.textContent === 'Group hr'")
    assert (await api.get(f"/v1/documents/{number}")).json()["readers"] == ["group:hr"]
    await press_named(page, "dialog button", "Remove Group hr")
    await page.wait_for("!document.querySelector('dialog .subjects .name')")
    assert "readers" not in (await api.get(f"/v1/documents/{number}")).json()
    await page.press("Escape")
    await page.wait_for("!document.querySelector('dialog')")
    assert await page.run("document.activeElement.textContent") == "Permissions", "the focus is back where it was"
    await page.go(f"{stack.base_url}/#/library")
    await page.wait_for("!!document.querySelector('.documents')")
    await page.call("Page.reload")  # for the new collection
    await page.wait_for("[...document.querySelectorAll('.tools option')].some(each => each.value === 'people/pay')")
    await choose(page, ".tools select", "people/pay")
    await press_named(page, ".tools button", "Permissions")
    await fill(page, "dialog form input", "ada")
    await page.press("Enter", "\r")
    await page.wait_for("document.querySelectorAll('dialog .subjects select').length === 1")
    await choose(page, "dialog .subjects select", "manage")
    async with asyncio.timeout(10):  # the page shows the choice before it is saved
        expected = [{"subject": "user:ada", "access": "manage"}]
        while (await api.get("/v1/collections/people%2Fpay/grants")).json()["grants"] != expected:  # noqa: ASYNC110 # the browser's
            await asyncio.sleep(0.1)
    await press_named(page, "dialog button", "Remove ada")
    await page.wait_for("!document.querySelector('dialog .subjects select')")
    await press_named(page, "dialog button", "Done")
    await page.wait_for("!document.querySelector('dialog')")


async def test_an_empty_library_shows_where_to_add_documents(page: DrivenPage) -> None:
    link = "document.querySelector('.hello a')"
    assert not await page.run(f"!!{link}"), "there are documents"
    await page.call("Fetch.enable", patterns=[{"urlPattern": "*/v1/documents?page_size=1"}])
    await page.call("Page.reload")
    paused = await page.event("Fetch.requestPaused")
    empty = base64.b64encode(b'{"documents": [], "next_page_token": ""}').decode()
    await page.call("Fetch.fulfillRequest", requestId=paused["requestId"], responseCode=200, body=empty)
    await page.wait_for(f"!!{link}")
    await page.run(f"{link}.click()")
    assert "e-mail" in await text(page, ".drop")
    assert await page.run("location.hash") == "#/library"
