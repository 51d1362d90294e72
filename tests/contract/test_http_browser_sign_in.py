"""In real Chromium, a user signs in at a real provider, is refreshed, loses a group, and signs out."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
import pytest
from citewire.generator.v1 import generator_pb2

from browser_pages import page_origin
from citewire_accounts.people import sign_in as sessions
from devtools import Chromium, DrivenPage
from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, started
from gateway_process import Gateway, rows
from oidc import OidcProvider, gateway_with_provider
from page_steps import QUIET, READY, press_named
from proof_scale import ProofScale

if TYPE_CHECKING:
    from databases import Database

pytestmark = [
    pytest.mark.system(program="chromium", package="chromium"),
    pytest.mark.system(program="npm", package="npm"),
]

SHOWN = "document.body && document.body.innerText.startsWith('{') && document.body.innerText"
FORM = "!!document.querySelector('input[name=account]')"


@pytest.fixture
async def page(chromium: Chromium) -> AsyncIterator[DrivenPage]:
    async with chromium.page() as driven:
        yield driven


@pytest.fixture
async def pair(database: Database) -> AsyncIterator[tuple[Gateway, OidcProvider]]:
    async with running_fakes() as fakes, gateway_with_provider(database, fakes) as running:
        yield running


async def sign_in(page: DrivenPage, gateway: Gateway, account: str = "ada") -> dict[str, Any]:
    """Signs in with a script instead of a keyboard; returns what the last page shows."""
    await page.go(f"{gateway.url}/v1/auth/login")
    await page.wait_for(FORM)
    name = json.dumps(account)
    await page.run(f"document.querySelector('input').value = {name}; document.querySelector('form').submit()")
    shown = json.loads(await page.wait_for(f"location.pathname === '/v1/auth/session' && {SHOWN}"))
    # Open a page of the gateway that may call it: a page that shows JSON may load nothing.
    await page.go(f"{gateway.url}/docs")
    await page.wait_for("location.pathname === '/docs' && document.readyState === 'complete'")
    return shown


async def call(page: DrivenPage, method: str, url: str, body: object = None) -> dict[str, Any]:
    """Fetches from the page, with its cookies."""
    options = {"method": method, "credentials": "include"}
    if body is not None:
        options |= {"headers": {"Content-Type": "application/json"}, "body": json.dumps(body)}  # type: ignore[dict-item] # options of any kind
    script = f"""fetch({json.dumps(url)}, {json.dumps(options)}).then(
        async response => ({{status: response.status, text: await response.text()}}),
        error => ({{status: 0, text: String(error)}}))"""
    return await page.run(script)


async def test_sign_in_refresh_and_sign_out(
    pair: tuple[Gateway, OidcProvider], page: DrivenPage, database: Database
) -> None:
    gateway, provider = pair
    who = await sign_in(page, gateway)
    assert (who["user"], who["org"], who["groups"]) == ("ada", "acme", ["staff", "finance"])
    cookies = {cookie["name"]: cookie for cookie in await page.cookies()}
    session = cookies["__Host-citewire-session"]
    assert (session["secure"], session["httpOnly"], session["sameSite"], session["path"]) == (True, True, "Lax", "/")
    assert "__Host-citewire-sign-in" not in cookies
    assert "__Host" not in await page.run("document.cookie")
    asked = await call(page, "POST", "/v1/chat", {"question": "How much?", "stream": False})
    assert asked["status"] == 200, asked
    # Refreshing returns the provider's current claims, with a new refresh token each time.
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute("UPDATE chat.sessions SET fresh_until = now() + interval '20 s'")
    await provider.put_account("ada", groups=["staff", "board"], citewire_roles=["kb-editors"], tenant="acme")
    refreshed = await call(page, "POST", "/v1/auth/refresh")
    assert refreshed["status"] == 200, refreshed
    assert json.loads(refreshed["text"])["groups"] == ["staff", "board"]
    # Signed out here and at the provider: the next sign-in asks for the account.
    out = await call(page, "POST", "/v1/auth/logout")
    assert out["status"] == 200, out
    assert "__Host-citewire-session" not in {cookie["name"] for cookie in await page.cookies()}
    assert (await call(page, "GET", "/v1/auth/session"))["status"] == 401
    await page.go(json.loads(out["text"])["end_session_url"])
    await page.wait_for("!!document.querySelector('form')")
    await page.run("(document.querySelector('button[name=logout]') || document.querySelector('button')).click()")
    await page.wait_for(f"location.origin === {json.dumps(gateway.url)}")
    await page.go(f"{gateway.url}/v1/auth/login")
    assert await page.wait_for(FORM)
    assert rows(database, "SELECT count(*) FROM chat.sessions") == [(0,)]


async def test_a_group_removed_at_the_provider_is_lost_within_a_minute(
    pair: tuple[Gateway, OidcProvider], page: DrivenPage, proof: ProofScale, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured while a page keeps asking. Scaled down, the provider's claims are valid for a shorter time."""
    fresh_seconds = proof.pick(scaled_down=5, full=int(sessions.FRESH.total_seconds()))
    monkeypatch.setattr(sessions, "FRESH", timedelta(seconds=fresh_seconds))
    gateway, provider = pair
    assert (await sign_in(page, gateway))["groups"] == ["staff", "finance"]
    await provider.put_account("ada", groups=["staff"], citewire_roles=["kb-admins"], tenant="acme")
    removed = time.monotonic()
    while True:
        seconds = time.monotonic() - removed  # when it asks: on a busy machine, an answer itself can take seconds
        shown = await call(page, "GET", "/v1/auth/session")
        assert shown["status"] == 200, shown
        if json.loads(shown["text"])["groups"] == ["staff"]:
            break
        assert seconds <= fresh_seconds + 1
        await asyncio.sleep(0.5)
    await call(page, "POST", "/v1/chat", {"question": "How much?", "stream": False})
    tenant = gateway.fakes.generator.tenants[-1]
    assert tenant is not None
    assert tenant.groups == ("staff",), "the services get the new groups, too"


async def test_a_page_of_another_origin_cannot_act(pair: tuple[Gateway, OidcProvider], page: DrivenPage) -> None:
    """Another port of the same host is the same site, so `SameSite` alone would let its cookies through."""
    gateway, _ = pair
    await sign_in(page, gateway)
    async with page_origin() as other:
        other.html = "<!doctype html><title>another origin</title>"
        await page.go(other.origin)
        await page.wait_for("document.title === 'another origin'")
        before = len(gateway.fakes.embedder.requests)
        asked = await call(page, "POST", f"{gateway.url}/v1/chat", {"question": "How much?"})
        assert asked["status"] == 0, "the browser must not send it"
        # A form needs no preflight, so it is sent, cookie and all.
        await page.run(f"""(() => {{
            const form = document.createElement("form");
            form.method = "post";
            form.action = {json.dumps(gateway.url + "/v1/auth/logout")};
            document.body.append(form);
            form.submit();
        }})()""")
        refused = json.loads(await page.wait_for(SHOWN))
        assert refused["reason"] == "CROSS_SITE"
    await page.go(f"{gateway.url}/v1/auth/session")
    assert json.loads(await page.wait_for(SHOWN))["user"] == "ada", "nobody signed them out"
    assert len(gateway.fakes.embedder.requests) == before


async def test_the_page_signs_in_and_says_when_a_session_is_over(
    pair: tuple[Gateway, OidcProvider], page: DrivenPage, database: Database
) -> None:
    gateway, _ = pair
    await page.go(f"{gateway.url}/#/account")
    await page.wait_for("!!document.querySelector('.sign-in a.primary')")
    await page.click(".sign-in a.primary")
    await page.wait_for(FORM)
    await page.run("document.querySelector('input').value = 'ada'; document.querySelector('form').submit()")
    # Back on the same page, and signed in.
    await page.wait_for("location.hash === '#/account' && document.body.innerText.includes('ada · acme')")
    await page.go(f"{gateway.url}/#/")
    await page.wait_for("document.querySelectorAll('.composer option').length > 0")
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM chat.sessions")
    asked = len(gateway.fakes.embedder.requests)
    await page.run("document.querySelector('#question').focus()")
    await page.type_text("How much?")
    await page.press("Enter")
    assert "has ended" in await page.wait_for("document.querySelector('.toast.error')?.textContent")
    await page.wait_for("!!document.querySelector('.sign-in')")
    assert len(gateway.fakes.embedder.requests) == asked


async def test_a_session_that_runs_out_in_mid_chat_is_refreshed_or_asks_for_a_sign_in(
    pair: tuple[Gateway, OidcProvider], page: DrivenPage, database: Database
) -> None:
    gateway, _ = pair
    go_on = asyncio.Event()

    async def answer(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("It grew by 12 percent")
        await go_on.wait()
        yield delta(" in the first half.")
        yield completed()

    async def begin(question: str) -> None:
        go_on.clear()
        count = await page.run("document.querySelectorAll('.turn').length")
        await page.run("document.querySelector('#question').focus()")
        await page.type_text(question)
        await page.press("Enter")
        await page.wait_for(f"[...document.querySelectorAll('.prose')][{count}]?.textContent.includes('12 percent')")

    async def end() -> None:
        go_on.set()
        await page.wait_for(QUIET)
        assert "in the first half." in await page.run("[...document.querySelectorAll('.prose')].at(-1).textContent")

    def change(statement: LiteralString) -> None:
        with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
            connection.execute(statement)

    gateway.fakes.generator.script = answer
    await page.call("Network.enable")
    await page.go(f"{gateway.url}/")
    await page.wait_for("!!document.querySelector('.sign-in a.primary')")
    await page.click(".sign-in a.primary")
    await page.wait_for(FORM)
    await page.run("document.querySelector('input').value = 'ada'; document.querySelector('form').submit()")
    await page.wait_for(READY)
    # The provider's claims expire in the middle of an answer: the stream goes on, and the session is refreshed
    # before the next question.
    await begin("How much did revenue grow?")
    change("UPDATE chat.sessions SET fresh_until = now() - interval '1 min'")
    await page.run("Date.now = (now => () => now() + 30_000)(Date.now.bind(Date)); undefined")
    await end()
    before = {cookie["name"]: cookie["value"] for cookie in await page.cookies()}
    page.events.clear()
    await begin("And the year before?")
    sent = [event["params"]["request"] for event in page.events if event["method"] == "Network.requestWillBeSent"]
    posted = [request["url"].removeprefix(gateway.url) for request in sent if request["method"] == "POST"]
    assert posted == ["/v1/auth/refresh", "/v1/chat"]
    assert {cookie["name"]: cookie["value"] for cookie in await page.cookies()} != before
    # The session ends in the middle of an answer: the answer is completed, and the next question waits for a sign-in.
    change("DELETE FROM chat.sessions")
    await end()
    address = await page.run("location.hash")
    await press_named(page, ".asked button", "Edit and ask again")
    await page.run("document.querySelector('.editing textarea').select()")
    await page.type_text("A thought that is only begun")
    await page.run("document.querySelector('#question').focus()")
    await page.type_text("And ten years ago?\n<b>")
    asked = len(gateway.fakes.embedder.requests)
    await page.press("Enter")
    assert "has ended" in await page.wait_for("document.querySelector('.toast.error')?.textContent")
    assert await page.wait_for("document.querySelector('.sign-in')?.checkVisibility()")
    assert not await page.run("[...document.querySelectorAll('.turn, #question')].some(each => each.checkVisibility())")
    typed = "document.querySelector('{}')?.value"
    assert await page.run(typed.format(".editing textarea")) == "A thought that is only begun"
    assert len(gateway.fakes.embedder.requests) == asked
    await page.click(".sign-in a.primary")  # the provider still has a session, and sends them back at once
    assert await page.wait_for(typed.format("#question")) == "And ten years ago?\n<b>"
    assert await page.run("location.hash") == address
    await page.wait_for("document.querySelectorAll('.turn').length === 2")
    await page.press("Tab")
    await page.run("document.querySelector('#question').focus()")
    await page.press("Enter")
    await page.wait_for(f"document.querySelectorAll('.turn').length === 3 && {QUIET}")
    assert len(gateway.fakes.embedder.requests) > asked
