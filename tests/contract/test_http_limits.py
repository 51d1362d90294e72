"""Attacks on the limits of plans over HTTP: runaway scripts, endless streams, guessed keys, spoofed addresses."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from citewire.retriever.v1 import corpus_pb2

from citewire_accounts.tenants import identity
from citewire_accounts.tenants.failed_keys import MAX_FAILED_KEYS
from citewire_accounts.tenants.identity import IdentityStore, KeyOwner, make_key
from citewire_kit.errors import CitewireError, DeadlineExceeded, ResourceExhausted, Unavailable
from citewire_kit.postgres import open_pool
from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, started
from gateway_process import Gateway, rows, running_gateway
from limit_windows import stop_limit_windows
from operator_commands import command
from waiting import wait_until

if TYPE_CHECKING:
    from databases import Database

Json = dict[str, Any]
QUESTION = {"question": "How much did revenue grow?"}
WHOLE = {**QUESTION, "stream": False}


@pytest.fixture(autouse=True)
def _stopped_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_limit_windows(monkeypatch)


@asynccontextmanager
async def gateway_with_limits(database: Database, limits: Json, **settings: object) -> AsyncGenerator[Gateway]:
    async with running_fakes() as fakes:
        plans = json.dumps({"free": limits})
        async with running_gateway(database, fakes, auth="keys", plan_limits=plans, **settings) as gateway:
            yield gateway


async def key_of(database: Database, org: str, user: str) -> dict[str, str]:
    """The header with a new key."""
    pool = await open_pool(database.dsn("citewire_chat"), max_size=1, name="test")
    store, key = IdentityStore(pool), make_key()
    await store.ensure_user(org, user, "free")
    await store.add_key(org, user, "test", key)
    await pool.close()
    return {"Authorization": f"Bearer {key.text}"}


def items(header: str) -> dict[str, dict[str, str]]:
    """Parses a list of items with parameters (RFC 9651), the only kind of value in the draft's fields."""
    read: dict[str, dict[str, str]] = {}
    for item in header.split(", "):
        assert re.fullmatch(r'"[a-z-]+"(;[a-z]+=(\d+|"[a-z-]+"))+', item), header
        name, *parameters = item.split(";")
        read[name.strip('"')] = dict(parameter.split("=", 1) for parameter in parameters)
    return read


async def test_a_runaway_script_uses_only_its_users_share(database: Database) -> None:
    limits = {"requests": {"key": 6, "user": 8, "org": 15}}
    async with gateway_with_limits(database, limits) as gateway:
        first, second = await key_of(database, "acme", "ana"), await key_of(database, "acme", "ana")
        bob, eve = await key_of(database, "acme", "bob"), await key_of(database, "other", "ana")

        async def send(headers: dict[str, str], times: int) -> list[httpx.Response]:
            return list(
                await asyncio.gather(*(gateway.http.get("/v1/documents", headers=headers) for _ in range(times)))
            )

        flood = await send(first, 40)
        assert sorted({response.status_code for response in flood}) == [200, 429]
        assert sum(response.status_code == 200 for response in flood) == 6
        refused = next(response for response in flood if response.status_code == 429)
        problem = refused.json()
        assert (problem["reason"], problem["limit"], problem["quota"]) == ("RATE_LIMITED", "requests-key", 6)
        assert problem["window_seconds"] == 60
        seconds = int(refused.headers["retry-after"])
        assert 1 <= seconds <= 60
        assert items(refused.headers["ratelimit-policy"]) == {"requests-key": {"q": "6", "w": "60"}}
        assert items(refused.headers["ratelimit"]) == {"requests-key": {"r": "0", "t": str(seconds)}}
        # Refused requests use nothing up: the user's second key has the remaining two.
        statuses = [response.status_code for response in await send(second, 5)]
        assert sorted(statuses) == [200, 200, 429, 429, 429]
        answers = await send(bob, 8)
        assert [response.status_code for response in answers].count(200) == 6
        assert (await gateway.http.get("/v1/documents", headers=eve)).status_code == 200
        shown = items(answers[0].headers["ratelimit-policy"])
        assert shown == {
            f"requests-{scope}": {"q": str(limit), "w": "60"} for scope, limit in limits["requests"].items()
        }
        for path in ("/livez", "/readyz"):
            assert (await gateway.http.get(path)).status_code == 200


async def test_simultaneous_chats_are_bounded_and_end_with_their_clients(database: Database) -> None:
    async with gateway_with_limits(database, {"streams": {"user": 2, "org": 3}}) as gateway:
        ana, bob = await key_of(database, "acme", "ana"), await key_of(database, "acme", "bob")
        gate = gateway.fakes.generator.log.gates["generate"] = asyncio.Event()
        running = [asyncio.create_task(gateway.http.post("/v1/chat", json=WHOLE, headers=ana)) for _ in range(2)]
        await wait_until(lambda: gateway.fakes.generator.log.calls.count("generate") == 2)
        refused = await gateway.http.post("/v1/chat", json=QUESTION, headers=ana)
        assert refused.status_code == 429
        assert refused.json()["limit"] == "streams-user"
        assert items(refused.headers["ratelimit-policy"])["streams-user"] == {"q": "2", "qu": '"concurrent-requests"'}
        running.append(asyncio.create_task(gateway.http.post("/v1/chat", json=WHOLE, headers=bob)))
        await wait_until(lambda: gateway.fakes.generator.log.calls.count("generate") == 3)
        assert (await gateway.http.post("/v1/chat", json=QUESTION, headers=bob)).json()["limit"] == "streams-org"
        running[0].cancel()

        async def admitted() -> bool:
            other = asyncio.create_task(gateway.http.post("/v1/chat", json=WHOLE, headers=bob))
            done, _ = await asyncio.wait((other,), timeout=0.5)
            if not done:
                running.append(other)
            return not done

        await wait_until(admitted)
        gate.set()
        answers = await asyncio.gather(*running[1:])
        assert {answer.status_code for answer in answers} == {200}


async def test_tokens_are_held_before_and_settled_after(database: Database) -> None:
    """Each chat reserves 2,048 tokens and the question's, so two fit; in the end each has used 120."""
    async with gateway_with_limits(database, {"tokens": {"org": 9_000, "user": 4_500, "key": None}}) as gateway:
        ana = await key_of(database, "acme", "ana")
        script = [started((1, 0)), delta("one"), completed()]
        gateway.fakes.generator.script = lambda _request: iter_of(script)
        gate = gateway.fakes.generator.log.gates["generate"] = asyncio.Event()
        running = [asyncio.create_task(gateway.http.post("/v1/chat", json=WHOLE, headers=ana)) for _ in range(2)]
        await wait_until(lambda: gateway.fakes.generator.log.calls.count("generate") == 2)
        refused = await gateway.http.post("/v1/chat/completions", json=COMPLETION, headers=ana)
        assert refused.status_code == 429
        error = refused.json()["error"]
        assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limited")
        assert refused.json()["limit"] == "tokens-user"
        assert int(refused.headers["retry-after"]) >= 1
        gate.set()
        assert {answer.status_code for answer in await asyncio.gather(*running)} == {200}
        for _ in range(5):  # each uses 120 of them in the end
            assert (await gateway.http.post("/v1/chat", json=WHOLE, headers=ana)).status_code == 200


COMPLETION = {"model": "documents", "messages": [{"role": "user", "content": "How much did revenue grow?"}]}


async def iter_of(messages: list[Any]) -> AsyncGenerator[Any]:
    for message in messages:
        yield message


async def test_uploads_and_their_bytes_are_bounded_before_they_are_read(database: Database) -> None:
    async with gateway_with_limits(database, {"uploads": {"user": 3}, "upload-bytes": {"user": 3_000}}) as gateway:
        ana = await key_of(database, "acme", "ana")

        async def upload(size: int) -> httpx.Response:
            return await gateway.http.post("/v1/documents", files={"file": ("a.txt", b"x" * size)}, headers=ana)

        too_large = await upload(5_000)
        assert (too_large.status_code, too_large.json()["limit"]) == (429, "upload-bytes-user")
        assert gateway.fakes.corpus.uploads == 0
        assert (await upload(1_000)).status_code == 202
        assert (await upload(1_500)).status_code == 202
        typed = {"type": "article", "title": "T", "content": "y" * 100}
        refused = await gateway.http.post("/v1/documents", json=typed, headers=ana)
        assert (refused.status_code, refused.json()["limit"]) == (429, "uploads-user")


async def test_guessed_keys_stop_at_the_gateway_and_lock_nobody_out(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = 0
    find = IdentityStore.find

    async def counted_find(self: IdentityStore, key_hash: bytes) -> KeyOwner | None:
        nonlocal looked_up
        looked_up += 1
        return await find(self, key_hash)

    monkeypatch.setattr(identity.IdentityStore, "find", counted_find)
    async with gateway_with_limits(database, {}, trusted_proxies="127.0.0.0/8") as gateway:
        ana, late = await key_of(database, "acme", "ana"), await key_of(database, "acme", "bob")

        async def ask(headers: dict[str, str], forwarded: str = "") -> httpx.Response:
            more = {"X-Forwarded-For": forwarded} if forwarded else {}
            return await gateway.http.get("/v1/documents", headers={**headers, **more})

        def guess() -> dict[str, str]:
            return {"Authorization": f"Bearer {make_key().text}"}

        assert (await ask(ana, "203.0.113.7")).status_code == 200
        before = looked_up
        answers = [await ask(guess(), "203.0.113.7") for _ in range(3 * MAX_FAILED_KEYS)]
        failed = [answer.status_code for answer in answers]
        assert failed == [401] * MAX_FAILED_KEYS + [429] * 2 * MAX_FAILED_KEYS
        assert looked_up - before == MAX_FAILED_KEYS
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert refused.json()["limit"] == "failed-keys-address"
        assert int(refused.headers["retry-after"]) >= 1
        # A key that has worked before still works from the attacker's address, other addresses are counted separately,
        # and an address that the client itself puts into the header doesn't replace the one that the proxy adds.
        assert (await ask(ana, "203.0.113.7")).status_code == 200
        assert (await ask(late, "203.0.113.8")).status_code == 200
        assert (await ask(guess(), "198.51.100.1, 203.0.113.7")).status_code == 429


async def test_without_trusted_proxies_the_header_is_ignored(database: Database) -> None:
    async with gateway_with_limits(database, {}) as gateway:
        statuses: list[int] = []
        for number in range(MAX_FAILED_KEYS + 1):
            headers = {"Authorization": f"Bearer {make_key().text}", "X-Forwarded-For": f"203.0.113.{number}"}
            statuses.append((await gateway.http.get("/v1/documents", headers=headers)).status_code)
        assert statuses == [401] * MAX_FAILED_KEYS + [429]


async def requests_that_pass(gateway: Gateway, headers: dict[str, str], times: int) -> int:
    answers = [await gateway.http.get("/v1/models", headers=headers) for _ in range(times)]
    assert {answer.status_code for answer in answers} <= {200, 429}
    return sum(answer.status_code == 200 for answer in answers)


async def test_admins_limit_users_and_keys_within_the_plan(database: Database) -> None:
    async with gateway_with_limits(database, {"requests": {"user": 500, "key": 500, "org": 5000}}) as gateway:
        ana, bob = await key_of(database, "acme", "ana"), await key_of(database, "acme", "bob")
        second, eve = await key_of(database, "acme", "bob"), await key_of(database, "other", "eve")
        (key_id,) = [key["id"] for key in (await gateway.http.get("/v1/keys", headers=second)).json()["keys"]][-1:]
        body = {"scope": "user", "user": "bob", "measure": "requests", "limit": 8}
        made = await gateway.http.put("/v1/admin/limits", json=body, headers=ana)
        assert made.status_code == 200, made.text
        shown = {name: made.json()[name] for name in ("scope", "user", "measure", "limit", "updated_by")}
        assert shown == {**body, "updated_by": "ana"}
        of_key = {"scope": "key", "key_id": key_id, "measure": "requests", "limit": 3}
        assert (await gateway.http.put("/v1/admin/limits", json=of_key, headers=ana)).status_code == 200
        # One request with `second` was used to get its id.
        assert await requests_that_pass(gateway, second, 5) == 2
        assert await requests_that_pass(gateway, bob, 9) == 5
        refused = (await gateway.http.get("/v1/models", headers=bob)).json()
        assert (refused["limit"], refused["quota"]) == ("requests-user", 8)
        assert await requests_that_pass(gateway, ana, 9) == 9
        bobs = (await gateway.http.get("/v1/limits?user=bob", headers=ana)).json()["limits"]
        assert next((limit["limit"], limit["used"]) for limit in bobs if limit["name"] == "requests-user") == (8, 8)
        keys = (await gateway.http.get(f"/v1/limits?key_id={key_id}", headers=ana)).json()["limits"]
        assert {limit["limit"] for limit in keys if limit["name"] in ("requests-key", "requests-user")} == {3, 8}
        listed = (await gateway.http.get("/v1/admin/limits", headers=ana)).json()["limits"]
        assert [(limit["scope"], limit["limit"]) for limit in listed] == [("key", 3), ("user", 8)]
        # Limits don't exceed the plan's, and only admins set them, for their own organisation.
        assert (await gateway.http.put("/v1/admin/limits", json={**body, "limit": 900}, headers=ana)).status_code == 200
        bobs = (await gateway.http.get("/v1/limits?user=bob", headers=ana)).json()["limits"]
        assert next(limit["limit"] for limit in bobs if limit["name"] == "requests-user") == 500
        attempts: tuple[tuple[dict[str, str], str, Json, int], ...] = (
            (bob, "PUT", {"json": {**body, "limit": 400}}, 403),
            (eve, "PUT", {"json": body}, 422),
            (eve, "PUT", {"json": of_key}, 422),
            (eve, "DELETE", {"params": {"scope": "user", "user": "bob", "measure": "requests"}}, 404),
            (ana, "PUT", {"json": {**body, "measure": "stored-bytes"}}, 422),
            (ana, "PUT", {"json": {**body, "key_id": key_id}}, 422),
            (ana, "PUT", {"json": {**body, "limit": -1}}, 422),
            (ana, "DELETE", {"params": {"scope": "user", "user": "bob", "measure": "requests"}}, 204),
            (ana, "DELETE", {"params": {"scope": "user", "user": "bob", "measure": "requests"}}, 404),
        )
        for by, method, arguments, status in attempts:
            answer = await gateway.http.request(method, "/v1/admin/limits", headers=by, **arguments)
            assert answer.status_code == status, (method, arguments, answer.text)
        for path in ("/v1/limits?user=ana", f"/v1/limits?key_id={key_id}", "/v1/admin/limits"):
            assert (await gateway.http.get(path, headers=bob)).status_code == 403
        assert (await gateway.http.get(f"/v1/limits?key_id={key_id}", headers=eve)).status_code == 422


async def test_limits_are_deleted_with_their_key(database: Database) -> None:
    """Whether the key is revoked or deleted with its user."""
    async with gateway_with_limits(database, {"requests": {"user": 500, "key": 500, "org": 5000}}) as gateway:
        ana = await key_of(database, "acme", "ana")
        await key_of(database, "acme", "bob")
        ids: dict[str, str] = {}
        for name in ("kept", "revoked", "deleted"):
            made = await gateway.http.post("/v1/keys", json={"name": name, "user": "bob"}, headers=ana)
            ids[name] = made.json()["id"]
            body = {"scope": "key", "key_id": ids[name], "measure": "requests", "limit": 3}
            assert (await gateway.http.put("/v1/admin/limits", json=body, headers=ana)).status_code == 200
        assert (await gateway.http.delete(f"/v1/keys/{ids['revoked']}", headers=ana)).status_code == 204
        with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
            connection.execute("DELETE FROM chat.api_keys WHERE key_id = %s", (ids["deleted"],))
        listed = (await gateway.http.get("/v1/admin/limits", headers=ana)).json()["limits"]
        assert [limit["key_id"] for limit in listed] == [ids["kept"]]


async def test_operators_set_an_organisations_limits(database: Database) -> None:
    async with gateway_with_limits(database, {"requests": {"user": 500, "key": 500, "org": 2}}) as gateway:
        ana = await key_of(database, "acme", "ana")
        done = command(database, "orgs", "limit", "acme", "requests", "7", "--json", owner=False)
        assert (done.returncode, json.loads(done.stdout)["limit"]) == (0, 7), done.stderr
        assert await requests_that_pass(gateway, ana, 9) == 7
        assert command(database, "orgs", "limit", "acme", "requests", "plan", owner=False).returncode == 0
        for code, wrong in (
            (5, ("acme", "requests", "plan")),
            (5, ("nobody", "requests", "1")),
            (1, ("acme", "tokens", "1.5")),
        ):
            assert command(database, "orgs", "limit", *wrong, owner=False).returncode == code, wrong
        noted = "SELECT action, objects FROM chat.audit_events WHERE issuer = 'operator' ORDER BY at"
        assert rows(database, noted) == [
            ("limit.set", ["limit:requests-org"]),
            ("limit.delete", ["limit:requests-org"]),
        ]


async def test_limits_are_shown_with_their_usage(database: Database) -> None:
    async with gateway_with_limits(database, {"requests": {"user": 50}, "tokens": {"key": None}}) as gateway:
        ana = await key_of(database, "acme", "ana")
        assert (await gateway.http.post("/v1/chat", json=WHOLE, headers=ana)).status_code == 200
        answer = (await gateway.http.get("/v1/limits", headers=ana)).json()
        limits = {limit["name"]: limit for limit in answer["limits"]}
        assert answer["plan"] == "free"
        assert "tokens-key" not in limits
        assert (limits["requests-user"]["limit"], limits["requests-user"]["window_seconds"]) == (50, 60)
        assert (limits["requests-user"]["used"], limits["tokens-org"]["used"]) == (2, 120)
        assert not {name for name in limits if name.startswith("stored-bytes")}  # the retriever knows of none


@pytest.mark.parametrize("away", [Unavailable, DeadlineExceeded])
async def test_limits_are_shown_while_the_retriever_is_down(database: Database, away: type[CitewireError]) -> None:
    async with gateway_with_limits(database, {"requests": {"user": 50}}) as gateway:
        ana = await key_of(database, "acme", "ana")
        gateway.fakes.corpus.storage = away("no answer", reason="SERVICE_UNAVAILABLE")
        answer = await gateway.http.get("/v1/limits", headers=ana)
        assert answer.status_code == 200
        assert answer.json()["unknown"] == ["stored-bytes"]
        assert {limit["name"] for limit in answer.json()["limits"]} >= {"requests-user", "uploads-org"}
        gateway.fakes.corpus.storage = corpus_pb2.GetStorageResponse()
        assert (await gateway.http.get("/v1/limits", headers=ana)).json()["unknown"] == []


async def test_the_retriever_reports_and_limits_stored_bytes(database: Database) -> None:
    async with gateway_with_limits(database, {}) as gateway:
        ana = await key_of(database, "acme", "ana")
        gateway.fakes.corpus.storage = corpus_pb2.GetStorageResponse(user_bytes=5, org_bytes=70, org_limit_bytes=100)
        shown = (await gateway.http.get("/v1/limits", headers=ana)).json()["limits"]
        assert [limit for limit in shown if limit["measure"] == "stored-bytes"] == [
            {"name": "stored-bytes-org", "measure": "stored-bytes", "scope": "org", "limit": 100, "used": 70}
        ]

        async def full() -> None:
            figures = {"limit": "stored-bytes-org", "quota": "100", "used": "70", "size_bytes": "31"}
            raise ResourceExhausted("no room", reason="STORAGE_FULL", metadata=figures)

        gateway.fakes.corpus.upload_gate = full
        files = {"file": ("a.txt", b"x" * 31)}
        refused = await gateway.http.post("/v1/documents", files=files, headers=ana)
        problem = refused.json()
        assert (refused.status_code, problem["reason"], problem["limit"]) == (507, "STORAGE_FULL", "stored-bytes-org")
        assert (problem["quota"], problem["used"], problem["size_bytes"]) == (100, 70, 31)
        assert "retry-after" not in refused.headers


async def test_without_authentication_there_are_no_limits(database: Database) -> None:
    async with running_fakes() as fakes:
        plans = json.dumps({"pro": {"requests": {"org": 1}}})
        async with running_gateway(database, fakes, plan_limits=plans) as gateway:
            answers = [await gateway.http.get("/v1/documents") for _ in range(3)]
            assert [answer.status_code for answer in answers] == [200, 200, 200]
            assert "ratelimit" not in answers[0].headers


async def test_each_operation_of_a_batch_counts_as_a_request(database: Database) -> None:
    async with gateway_with_limits(database, {"requests": {"user": 4}}) as gateway:
        ada = await key_of(database, "acme", "ada")
        operations = [{"op": "delete", "id": number} for number in range(1, 7)]
        batch = await gateway.http.post("/v1/documents:batch", json={"operations": operations}, headers=ada)
        assert [result["status"] for result in batch.json()["results"]] == [404, 404, 404, 404, 429, 429]
