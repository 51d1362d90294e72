"""In real Chromium, a conversation is shared on the page, opened by another user, and unshared."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from devtools import Chromium, DrivenPage
from gateway_fake_servers import running_fakes
from gateway_fakes import result
from gateway_process import running_gateway
from page_steps import press_named, text
from people_calls import People

if TYPE_CHECKING:
    from databases import Database

pytestmark = pytest.mark.system(program="chromium", package="chromium")

SECRET = "The figure is 4711."


async def open_as(page: DrivenPage, people: People, user: str, place: str = "") -> None:
    """Opens the page with the key of a user in its session."""
    await page.go(f"{people.gateway.url}/")
    await page.wait_for("!!document.querySelector('.sidebar, .sign-in')")
    key = people.headers(user)["Authorization"].removeprefix("Bearer ")
    await page.run(f"sessionStorage.setItem('citewire.key', {json.dumps(key)})")
    # Not by `location.hash`: the page of the previous user would notice the change, be refused, and navigate away.
    fragment = json.dumps("#" + place.removeprefix("#"))
    await page.run(f"history.replaceState(null, '', {fragment})")
    await page.call("Page.reload")
    await page.wait_for("!!document.querySelector('.sidebar')")


async def test_a_conversation_is_shared_read_by_its_link_and_unshared(database: Database, chromium: Chromium) -> None:
    async with AsyncExitStack() as stack:
        fakes = await stack.enter_async_context(running_fakes())
        gateway = await stack.enter_async_context(running_gateway(database, fakes, auth="keys"))
        fakes.retriever.results = [result(1, text=SECRET)]
        people = People(gateway, database)
        for user in ("ada", "bob", "eve"):
            await people.add("acme", user)
        page = await stack.enter_async_context(chromium.page())
        for domain in ("Page", "Runtime"):
            await page.call(f"{domain}.enable")
        answer = await people.ask("bob")
        conversation = answer["conversation_id"]
        link = f"#/c/{conversation}"

        await open_as(page, people, "eve", link)
        await page.wait_for("document.querySelector('.toast')?.textContent.includes('no longer exists')")
        await open_as(page, people, "bob", link)
        await page.wait_for("!!document.querySelector('.pill')")
        await page.run("navigator.clipboard.writeText = async text => void (window.copied = text)")
        await page.run("document.querySelector('.pill').click()")
        await press_named(page, ".card-actions button", "Copy the link")
        address, _, cited = (await page.wait_for("window.copied")).partition("#")
        assert (address, cited.startswith(f"{link[1:]}/")) == (f"{people.gateway.url}/", True)
        await page.press("Escape")
        await page.wait_for("!!document.querySelector('.conversations .here .icon')")
        await page.click(".conversations .here .icon")
        await page.run(
            "[...document.querySelectorAll('.entry-menu button')].find(b => b.textContent === 'Share').click()"
        )
        assert "Only you can read it." in await text(page, "dialog .subjects")
        await page.run("document.querySelector('dialog form input').focus()")
        await page.type_text("eve")
        await page.press("Enter", "\r")
        await page.wait_for("document.querySelector('dialog .subjects .name')?.textContent === 'eve'")
        sharing = (await people.call("bob", "GET", f"/v1/conversations/{conversation}/sharing")).json()
        assert sharing == {"users": ["eve"], "groups": [], "organisation": False}
        await page.run("document.querySelector('dialog form input').focus()")
        await page.type_text("not a user")
        await page.press("Enter", "\r")
        assert "1-128 characters" in await text(page, ".toast.error")

        await open_as(page, people, "eve", link)
        assert "Revenue grew" in await text(page, ".prose")
        assert "Shared by bob" in await page.run("document.querySelector('.turns').textContent")
        assert await page.run("document.querySelectorAll('.composer, .thumb, .asked .link').length") == 0
        await open_as(page, people, "eve", cited)
        await page.wait_for("document.activeElement.matches('.card')")
        assert await text(page, ".card") != ""
        await page.press("Escape")
        await page.wait_for("document.activeElement.matches('.answer button')")
        await page.run("document.querySelectorAll('.whose button')[1].click()")
        await page.wait_for("document.querySelectorAll('.conversations .row a').length === 1")
        await page.click(".conversations .icon")
        entries = await page.run("[...document.querySelectorAll('.entry-menu button')].map(b => b.textContent)")
        assert entries == ["Export as Markdown", "Export as JSON"], "a reader may change nothing"
        fakes.retriever.hidden["eve"] = {7}
        await page.call("Page.reload")
        assert "withheld" in await text(page, ".prose")
        await page.wait_for("document.querySelector('.toast')?.textContent.includes('no longer exists')")
        assert await page.run("document.querySelectorAll('.card').length") == 0
        assert SECRET not in await page.run("document.body.textContent")

        await open_as(page, people, "bob", link)
        await page.wait_for("!!document.querySelector('.conversations .here .icon')")
        await page.click(".conversations .here .icon")
        await page.run(
            "[...document.querySelectorAll('.entry-menu button')].find(b => b.textContent === 'Share').click()"
        )
        await page.wait_for("!!document.querySelector('dialog .subjects .link')")
        await page.run("document.querySelector('dialog .subjects .link').click()")
        await page.wait_for("!document.querySelector('dialog .subjects .name')")
        assert (await people.call("eve", "GET", f"/v1/conversations/{conversation}")).status_code == 404
        assert [event for event in page.events if event["method"] == "Runtime.exceptionThrown"] == []
