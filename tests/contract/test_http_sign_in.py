"""Signing in at a real identity provider (npm's certified oidc-provider): sessions, bearer tokens, and attacks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import psycopg
import pytest

from api_keys import bearer, key_for
from citewire_accounts.people import authenticator, sessions
from citewire_accounts.people.sealer import Sealer
from citewire_accounts.people.sign_in import FRESH
from citewire_kit.tenant import Tenant
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, rows, running_gateway
from limit_windows import stop_limit_windows
from oidc import ISSUER, SECRETS, Browser, OidcProvider, gateway_with_provider, sign_in_settings

if TYPE_CHECKING:
    from databases import Database

pytestmark = pytest.mark.system(program="npm", package="npm")

OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}
QUESTION = {"question": "How much did revenue grow?", "stream": False}


@pytest.fixture
async def pair(database: Database) -> AsyncIterator[tuple[Gateway, OidcProvider]]:
    async with running_fakes() as fakes, gateway_with_provider(database, fakes) as running:
        yield running


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        yield Browser(http)


def age(database: Database, seconds: int) -> None:
    """Ages the provider's claims."""
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute("UPDATE chat.sessions SET fresh_until = fresh_until - make_interval(secs => %s)", (seconds,))


async def test_a_user_signs_in_asks_and_signs_out(
    pair: tuple[Gateway, OidcProvider], browser: Browser, database: Database
) -> None:
    gateway, _ = pair
    shown = await browser.sign_in(gateway.url)
    assert shown.status_code == 200, shown.text
    assert str(shown.url) == f"{gateway.url}/v1/auth/session"
    who = shown.json()
    assert (who["org"], who["user"], who["roles"], who["groups"]) == ("acme", "ada", ["admin"], ["staff", "finance"])
    assert who["kind"] == "session"
    assert rows(database, "SELECT org_id, user_id, roles FROM chat.users") == [("acme", "ada", ["admin"])]
    assert rows(database, "SELECT plan FROM chat.plans") == [("free",)]
    # The cookie is stored as a hash, and the provider's tokens are sealed.
    cookie = browser.session(gateway.url)
    stored = rows(database, "SELECT s::text FROM chat.sessions s")[0][0]
    assert cookie not in stored
    assert "refresh_token" not in stored
    own = {"Cookie": f"__Host-citewire-session={cookie}", "Sec-Fetch-Site": "same-origin"}
    asked = await gateway.http.post("/v1/chat", json=QUESTION, headers=own)
    assert asked.status_code == 200, asked.text
    tenant = Tenant("acme", "ada", "free", ("admin",), groups=("staff", "finance"))
    assert gateway.fakes.generator.tenants == [tenant]
    out = await browser.go(f"{gateway.url}/v1/auth/logout", method="POST", headers=OWN_PAGE)
    assert out.status_code == 200, out.text
    assert "__Host-citewire-session" not in browser.cookies[gateway.url]
    assert "/session/end?" in out.json()["end_session_url"]
    ended = await gateway.http.get("/v1/auth/session", headers=own)
    assert (ended.status_code, ended.json()["reason"]) == (401, "SESSION_EXPIRED")
    assert rows(database, "SELECT count(*) FROM chat.sessions") == [(0,)]


async def test_cookies_are_protected_from_scripts_other_sites_and_other_hosts(
    pair: tuple[Gateway, OidcProvider], browser: Browser
) -> None:
    gateway, _ = pair
    begun = await browser.go(f"{gateway.url}/v1/auth/login")
    back = await browser.sign_in(gateway.url, until=f"{gateway.url}/v1/auth/callback")
    arrived = await browser.go(back.headers["location"])
    lines = begun.headers.get_list("set-cookie") + arrived.headers.get_list("set-cookie")
    assert len(lines) == 3
    for line in lines:
        name, _, attributes = line.partition(";")
        assert name.startswith("__Host-")
        assert {part.strip() for part in attributes.split(";")} >= {"Path=/", "Secure", "HttpOnly", "SameSite=Lax"}
        assert "Domain" not in line
    assert arrived.headers["cache-control"] == "no-store"


async def test_groups_follow_the_provider_within_thirty_seconds(
    pair: tuple[Gateway, OidcProvider], browser: Browser, database: Database
) -> None:
    gateway, provider = pair
    await browser.sign_in(gateway.url)
    await provider.put_account("ada", groups=["staff"], citewire_roles=["kb-editors"], tenant="acme")
    assert rows(database, "SELECT extract(epoch FROM fresh_until - created_at) <= 30 FROM chat.sessions") == [(True,)]
    session = f"{gateway.url}/v1/auth/session"
    age(database, 22)  # between 20 and 30 seconds the first request asks
    shown = (await browser.go(session)).json()
    assert (shown["groups"], shown["roles"]) == (["staff"], ["editor"])
    # The refresh token is rotated each time; simultaneous requests use it once between them.
    for _ in range(3):
        before = (await provider.counts())["/token"]
        age(database, 31)
        answers = await asyncio.gather(*(browser.go(session) for _ in range(10)))
        assert [answer.status_code for answer in answers] == [200] * 10
        assert (await provider.counts())["/token"] == before + 1
    # A client may refresh before it opens a stream.
    age(database, 6)
    await provider.put_account("ada", groups=[], citewire_roles=[], tenant="acme")
    refreshed = await browser.go(f"{gateway.url}/v1/auth/refresh", method="POST", headers=OWN_PAGE)
    assert (refreshed.json()["groups"], refreshed.json()["roles"]) == ([], ["reader"])


def later(database: Database, seconds: int) -> None:
    """Ages a session's cookie."""
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE chat.sessions SET previous_until = previous_until - make_interval(secs => %(seconds)s), "
            "replaced_at = replaced_at - make_interval(secs => %(seconds)s)",
            {"seconds": seconds},
        )


def cookie_in(response: httpx.Response) -> str | None:
    """The session's cookie that an answer sets, if any."""
    lines = [line for line in response.headers.get_list("set-cookie") if line.startswith("__Host-citewire-session=")]
    assert all({"Path=/", "Secure", "HttpOnly", "SameSite=Lax"} <= {*line.split("; ")} for line in lines)
    return lines[0].partition(";")[0].partition("=")[2] if lines else None


async def test_a_refresh_replaces_the_cookie_and_stolen_ones_end_the_session(
    pair: tuple[Gateway, OidcProvider], browser: Browser, database: Database
) -> None:
    gateway, _ = pair
    await browser.sign_in(gateway.url)

    async def send(cookie: str, path: str = "session") -> httpx.Response:
        headers = {"Cookie": f"__Host-citewire-session={cookie}", **OWN_PAGE}
        return await gateway.http.request("POST" if path == "refresh" else "GET", f"/v1/auth/{path}", headers=headers)

    first = browser.session(gateway.url)
    # Several tabs refresh at once: all succeed, and the browser gets one new cookie.
    answers = await asyncio.gather(*(send(first, "refresh") for _ in range(8)))
    assert [answer.status_code for answer in answers] == [200] * 8
    cookies = {cookie_in(answer) for answer in answers} - {None}
    assert len(cookies) == 1
    second = cookies.pop()
    assert second is not None
    assert second != first
    # The old one works until the new one is used, as the answer may be lost, and a little longer for running requests.
    later(database, 30)
    assert (await send(first)).status_code == 200
    assert (await send(second)).status_code == 200
    assert (await send(first)).status_code == 200
    later(database, 16)
    reused = await send(first)
    assert (reused.status_code, reused.json()["reason"]) == (401, "SESSION_EXPIRED")
    assert (await send(second)).status_code == 401  # one of the two was stolen, and nobody knows which
    assert rows(database, "SELECT count(*) FROM chat.sessions") == [(0,)]


async def test_a_lost_cookie_is_replaced_again(
    pair: tuple[Gateway, OidcProvider], browser: Browser, database: Database
) -> None:
    gateway, _ = pair
    await browser.sign_in(gateway.url)
    headers = {"Cookie": f"__Host-citewire-session={browser.session(gateway.url)}", **OWN_PAGE}
    assert cookie_in(await gateway.http.post("/v1/auth/refresh", headers=headers)) is not None  # this answer is lost
    assert cookie_in(await gateway.http.post("/v1/auth/refresh", headers=headers)) is None
    later(database, 61)
    new = cookie_in(await gateway.http.post("/v1/auth/refresh", headers=headers))
    own = {"Cookie": f"__Host-citewire-session={new}", **OWN_PAGE}
    assert (await gateway.http.get("/v1/auth/session", headers=own)).status_code == 200


async def test_a_sign_in_ends_the_session_that_the_browser_had(
    pair: tuple[Gateway, OidcProvider], browser: Browser, database: Database
) -> None:
    gateway, _ = pair
    await browser.sign_in(gateway.url)
    planted = browser.session(gateway.url)
    await browser.sign_in_again(gateway.url)
    assert browser.session(gateway.url) != planted
    assert rows(database, "SELECT count(*) FROM chat.sessions") == [(1,)]
    old = {"Cookie": f"__Host-citewire-session={planted}", **OWN_PAGE}
    assert (await gateway.http.get("/v1/auth/session", headers=old)).status_code == 401


async def test_reusing_a_refresh_token_ends_the_session(
    pair: tuple[Gateway, OidcProvider], browser: Browser, database: Database
) -> None:
    gateway, provider = pair
    await browser.sign_in(gateway.url)
    sealed = rows(database, "SELECT sealed_tokens FROM chat.sessions")[0][0]
    stolen = Sealer((SECRETS,)).open(bytes(sealed), "tokens")
    assert stolen is not None
    age(database, 31)
    session = f"{gateway.url}/v1/auth/session"
    assert (await browser.go(session)).status_code == 200  # the session has a new refresh token now
    form = {"grant_type": "refresh_token", "refresh_token": stolen["refresh_token"]}
    again = await provider.http.post("/token", data=form, auth=("citewire", quote(ISSUER["client_secret"], safe="")))
    assert again.json()["error"] == "invalid_grant"
    age(database, 31)
    ended = await browser.go(session)
    assert (ended.status_code, ended.json()["reason"]) == (401, "SESSION_EXPIRED")
    assert rows(database, "SELECT count(*) FROM chat.sessions") == [(0,)]


async def test_groups_of_the_organisation_join_those_of_the_provider(
    pair: tuple[Gateway, OidcProvider], browser: Browser, database: Database
) -> None:
    gateway, provider = pair
    owner = bearer((await key_for(database, "acme", "owner"))["key"])
    # Before the first sign-in: the group counts at once, and the provider's role at the sign-in.
    assert (await gateway.http.post("/v1/admin/users", json={"user": "ada"}, headers=owner)).status_code == 201
    for group in ("legal", "staff"):
        assert (await gateway.http.post("/v1/admin/groups", json={"name": group}, headers=owner)).status_code == 201
        path = f"/v1/admin/groups/{group}/members/ada"
        assert (await gateway.http.put(path, headers=owner)).status_code == 200
    who = (await browser.sign_in(gateway.url)).json()
    assert (who["roles"], who["groups"]) == (["admin"], ["staff", "finance", "legal"])
    # Keys follow the organisation's groups, and have the provider's only while their maker does.
    session = {"Cookie": f"__Host-citewire-session={browser.session(gateway.url)}", **OWN_PAGE}
    made = [await gateway.http.post("/v1/keys", json=body, headers=session) for body in ({}, {"groups": ["finance"]})]
    plain, finance = (bearer(answer.json()["key"]) for answer in made)

    async def groups(headers: dict[str, str]) -> list[str]:
        return (await gateway.http.get("/v1/auth/session", headers=headers)).json()["groups"]

    assert (await groups(plain), await groups(finance)) == (["legal", "staff"], ["finance"])
    await gateway.http.delete("/v1/admin/groups/legal/members/ada", headers=owner)
    assert (await groups(session), await groups(plain)) == (["staff", "finance"], ["staff"])
    await provider.put_account("ada", groups=["staff"], citewire_roles=["kb-admins"], tenant="acme")
    age(database, 31)
    assert (await groups(session), await groups(finance)) == (["staff"], [])
    # A disabled user is refused at the next request, and can't sign in again.
    assert (await gateway.http.post("/v1/admin/users/ada:disable", headers=owner)).status_code == 200
    assert (await gateway.http.get("/v1/auth/session", headers=session)).json()["reason"] == "SESSION_EXPIRED"
    refused = await browser.sign_in_again(gateway.url)
    assert (refused.status_code, refused.json()["reason"]) == (403, "USER_DISABLED")
    assert rows(database, "SELECT count(*) FROM chat.sessions") == [(0,)]
    await gateway.http.post("/v1/admin/users/ada:enable", headers=owner)
    assert (await browser.sign_in_again(gateway.url)).status_code == 200


async def test_a_services_user_may_have_groups_and_be_disabled(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert timedelta(seconds=30) >= FRESH
    monkeypatch.setattr(authenticator, "FRESH", timedelta(milliseconds=1))  # for this long, a token isn't checked again
    async with running_fakes() as fakes, gateway_with_provider(database, fakes) as (gateway, provider):
        owner = bearer((await key_for(database, "acme", "owner"))["key"])
        token = bearer(await provider.service_token())

        async def session() -> dict[str, Any]:
            return (await gateway.http.get("/v1/auth/session", headers=token)).json()

        who = await session()
        assert (await gateway.http.post("/v1/admin/groups", json={"name": "legal"}, headers=owner)).status_code == 201
        path = f"/v1/admin/groups/legal/members/{who['user']}"
        assert (await gateway.http.put(path, headers=owner)).status_code == 200
        assert (await session())["groups"] == [*who["groups"], "legal"]
        monkeypatch.setattr(sessions, "MAX_GROUPS", 0)
        refused = await session()
        assert (refused["status"], refused["reason"]) == (403, "CLAIM_INVALID")
        assert "groups" in refused["detail"]
        monkeypatch.setattr(sessions, "MAX_GROUPS", 200)
        await gateway.http.post(f"/v1/admin/users/{who['user']}:disable", headers=owner)
        refused = await session()
        assert (refused["status"], refused["reason"]) == (403, "USER_DISABLED")


async def test_a_user_who_leaves_the_organisation_is_signed_out(
    pair: tuple[Gateway, OidcProvider], browser: Browser, database: Database
) -> None:
    gateway, provider = pair
    await browser.sign_in(gateway.url)
    await provider.put_account("ada", gone=True)
    age(database, 31)
    response = await browser.go(f"{gateway.url}/v1/auth/session")
    assert (response.status_code, response.json()["reason"]) == (401, "SESSION_EXPIRED")
    assert rows(database, "SELECT count(*) FROM chat.sessions") == [(0,)]


@pytest.mark.parametrize(
    ("claims", "claim", "message"),
    [
        ({"groups": [f"g{n}" for n in range(201)], "tenant": "acme"}, "groups", "names 201 groups; at most 200"),
        ({"groups": [], "tenant": "other"}, "tenant", "organisations that this provider may"),
        ({"groups": []}, "tenant", "organisations that this provider may"),
        ({"groups": ["a\nb"], "tenant": "acme"}, "groups", "printable"),
        ({"groups": {"x": 1}, "tenant": "acme"}, "groups", "list of texts"),
    ],
)
async def test_unusable_claims_are_refused_by_name(
    pair: tuple[Gateway, OidcProvider],
    browser: Browser,
    database: Database,
    claims: dict[str, Any],
    claim: str,
    message: str,
) -> None:
    gateway, provider = pair
    await provider.put_account("eve", **claims)
    response = await browser.sign_in(gateway.url, "eve")
    assert (response.status_code, response.json()["reason"]) == (403, "CLAIM_INVALID")
    assert message in response.json()["detail"]
    assert claim in response.json()["detail"]
    assert rows(database, "SELECT count(*) FROM chat.sessions") == [(0,)]


async def test_a_sign_in_ends_only_in_the_browser_that_began_it(
    pair: tuple[Gateway, OidcProvider], browser: Browser, database: Database
) -> None:
    gateway, _ = pair
    callback = f"{gateway.url}/v1/auth/callback"
    back = await browser.sign_in(gateway.url, until=callback)
    arrival = back.headers["location"]
    query = {name: values[0] for name, values in parse_qs(urlsplit(arrival).query).items()}
    pending = browser.cookies[gateway.url]["__Host-citewire-sign-in"]

    async def status(cookie: str, **changes: str) -> tuple[int, str]:
        headers = {"Cookie": f"__Host-citewire-sign-in={cookie}"} if cookie else {}
        params = {name: value for name, value in (query | changes).items() if value}
        response = await browser.http.get(callback, params=params, headers=headers)
        return response.status_code, response.json()["reason"] if response.status_code >= 400 else ""

    refused = (401, "SIGN_IN_FAILED")
    assert await status("") == refused, "another browser that opens a link"
    assert await status(pending, state="x") == refused
    assert await status(pending, state="") == refused
    assert await status(pending[:-4] + "AAAA") == refused, "forged"
    assert await status(pending, iss="https://elsewhere.example") == refused
    assert await status(pending, iss="") == refused, "this provider always names itself"
    other = await browser.go(f"{gateway.url}/v1/auth/login")  # another sign-in's nonce and verifier, with its own state
    other_state = parse_qs(urlsplit(other.headers["location"]).query)["state"][0]
    other_pending = browser.cookies[gateway.url]["__Host-citewire-sign-in"]
    assert await status(other_pending, state=other_state) == refused, "the code belongs to the first (PKCE)"
    assert rows(database, "SELECT count(*) FROM chat.sessions") == [(0,)]


async def test_a_code_works_once(pair: tuple[Gateway, OidcProvider], browser: Browser, database: Database) -> None:
    gateway, _ = pair
    callback = f"{gateway.url}/v1/auth/callback"
    back = await browser.sign_in(gateway.url, until=callback)
    cookie = {"Cookie": "__Host-citewire-sign-in=" + browser.cookies[gateway.url]["__Host-citewire-sign-in"]}
    statuses = [(await browser.http.get(back.headers["location"], headers=cookie)).status_code for _ in range(2)]
    assert statuses == [303, 401]
    assert rows(database, "SELECT count(*) FROM chat.sessions") == [(1,)]
    refused = await Browser(browser.http).sign_in(gateway.url, "nobody")
    assert (refused.status_code, refused.json()["reason"]) == (401, "SIGN_IN_FAILED")


@pytest.mark.parametrize(
    "target",
    ["https://evil.example", "//evil.example", "/\\evil.example", "/%5c", "javascript:alert(1)", "", "docs", "/\t/x"],
)
async def test_no_redirect_leads_to_another_site(
    pair: tuple[Gateway, OidcProvider], browser: Browser, target: str
) -> None:
    gateway, _ = pair
    response = await browser.http.get(f"{gateway.url}/v1/auth/login", params={"return_to": target})
    if target == "/%5c":  # stays on this site, as it is a path
        assert response.status_code == 303
        return
    assert response.status_code == 422, target
    assert response.json()["errors"][0]["field"] == "return_to"


@pytest.mark.parametrize(
    ("method", "headers", "allowed"),
    [
        ("POST", {"Sec-Fetch-Site": "same-origin"}, True),
        ("POST", {"Origin": "own"}, True),
        ("POST", {}, False),
        ("POST", {"Origin": "null"}, False),
        ("POST", {"Origin": "https://evil.example"}, False),
        ("POST", {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"}, False),
        ("POST", {"Sec-Fetch-Site": "same-site"}, False),
        ("POST", {"Sec-Fetch-Site": "cross-site"}, False),
        ("GET", {}, True),
        ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, True),
        ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, False),
        ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Origin": "http://127.0.0.1:1"}, False),
    ],
)
async def test_other_pages_cannot_act_for_a_signed_in_user(
    pair: tuple[Gateway, OidcProvider], browser: Browser, method: str, headers: dict[str, str], *, allowed: bool
) -> None:
    gateway, _ = pair
    await browser.sign_in(gateway.url)
    cookie = {"Cookie": f"__Host-citewire-session={browser.session(gateway.url)}"}
    given = {name: gateway.url if value == "own" else value for name, value in headers.items()} | cookie
    for path in ("/v1/search", "/v1/auth/refresh") if method == "POST" else ("/v1/documents",):
        body = {"query": "x"} if method == "POST" else None
        response = await gateway.http.request(method, path, json=body, headers=given)
        assert (response.status_code == 200) == allowed, response.text
        assert allowed or response.json()["reason"] == "CROSS_SITE"
    if method == "POST" and not allowed:  # nor sign the user out
        response = await gateway.http.post("/v1/auth/logout", headers=given)
        assert (response.status_code, response.json()["reason"]) == (403, "CROSS_SITE")
        assert (await gateway.http.get("/v1/auth/session", headers=cookie)).status_code == 200


async def test_a_service_calls_with_a_token_of_the_provider(
    pair: tuple[Gateway, OidcProvider], browser: Browser, database: Database
) -> None:
    gateway, provider = pair
    token = await provider.service_token()
    asked = await gateway.http.post("/v1/chat", json=QUESTION, headers=bearer(token))
    assert asked.status_code == 200, asked.text
    assert gateway.fakes.generator.tenants == [Tenant("acme", "batch", "free", ("reader",), groups=("robots",))]
    assert rows(database, "SELECT user_id FROM chat.users") == [("batch",)]
    before = (await provider.counts())["/jwks"]
    for _ in range(20):
        assert (await gateway.http.get("/v1/auth/session", headers=bearer(token))).json()["kind"] == "token"
    assert (await provider.counts())["/jwks"] == before
    refused = await gateway.http.get("/v1/keys", headers=bearer(token))
    assert (refused.status_code, refused.json()["reason"]) == (403, "SCOPE_MISSING")
    # An ID token is for the client that users sign in with, not for this API.
    await browser.sign_in(gateway.url)
    sign_in = gateway.services.sign_in
    assert sign_in is not None
    session = await sign_in.session_of(browser.session(gateway.url))
    tokens = Sealer((SECRETS,)).open(session.sealed_tokens, "tokens")
    assert tokens is not None
    response = await gateway.http.get("/v1/auth/session", headers=bearer(tokens["id_token"]))
    assert (response.status_code, response.json()["reason"]) == (401, "TOKEN_INVALID")


async def test_another_gateway_serves_the_session_and_other_secrets_do_not(
    pair: tuple[Gateway, OidcProvider], browser: Browser, database: Database
) -> None:
    gateway, provider = pair
    await browser.sign_in(gateway.url)
    own = {"Cookie": f"__Host-citewire-session={browser.session(gateway.url)}"}
    settings = sign_in_settings(gateway.url, {"issuer": provider.issuer, **ISSUER})
    rotated = {**settings, "session_secrets": f"{'n' * 40} {settings['session_secrets']}"}
    async with running_gateway(database, gateway.fakes, **rotated) as second:
        age(database, 31)
        assert (await second.http.get("/v1/auth/session", headers=own)).status_code == 200
    # Now sealed under the new secret; a gateway with only the old one can't open it, and the user signs in again.
    age(database, 31)
    assert (await gateway.http.get("/v1/auth/session", headers=own)).status_code == 401


async def test_a_session_does_not_outlive_its_hours_and_is_swept(
    pair: tuple[Gateway, OidcProvider], browser: Browser, database: Database
) -> None:
    gateway, _ = pair
    await browser.sign_in(gateway.url)
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute("UPDATE chat.sessions SET expires_at = now()")
    response = await browser.go(f"{gateway.url}/v1/auth/session")
    assert (response.status_code, response.json()["reason"]) == (401, "SESSION_EXPIRED")
    await gateway.services.authenticator.flush()
    with psycopg.connect(database.dsn("citewire_chat"), autocommit=True) as connection:
        assert connection.execute("SELECT chat.sweep_sessions(10)").fetchall() == [(1,)]


async def test_wrong_cookies_are_limited_like_wrong_keys(
    pair: tuple[Gateway, OidcProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_limit_windows(monkeypatch)
    gateway, _ = pair
    statuses = [
        (
            await gateway.http.get("/v1/documents", headers={"Cookie": f"__Host-citewire-session=guess{number}"})
        ).status_code
        for number in range(40)
    ]
    assert statuses == [401] * 30 + [429] * 10
