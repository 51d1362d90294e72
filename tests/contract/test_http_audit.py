"""What the gateway records about requests: caller, action, object, origin and result, but never content."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from citewire.generator.v1 import generator_pb2

from api_keys import bearer, key_for
from citewire_accounts.tenants import audit
from citewire_kit.audit import AuditTrail
from citewire_kit.errors import Unavailable
from gateway_fake_servers import running_fakes
from gateway_fakes import delta, started
from gateway_process import Gateway, rows, running_gateway

if TYPE_CHECKING:
    from databases import Database

CANARY = "canary-7c1f"
QUESTION = {"question": f"How much did {CANARY} grow?"}


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as running:
        yield running


async def events_of(gateway: Gateway, headers: dict[str, str], **params: str | int) -> list[dict[str, Any]]:
    await gateway.services.trail.flush()
    response = await gateway.http.get("/v1/admin/audit", params=params, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()["events"]


async def test_a_request_is_recorded_with_its_caller_objects_and_result(gateway: Gateway, database: Database) -> None:
    made = await key_for(database, "acme", "ada")
    ada = bearer(made["key"]) | {"User-Agent": "probe/1", "X-Request-Id": "r1"}
    chat = await gateway.http.post("/v1/chat", json={**QUESTION, "stream": False}, headers=ada)
    search = {"query": CANARY}
    assert (await gateway.http.post("/v1/search", json=search, headers=ada)).status_code == 200
    title = {"type": "article", "title": CANARY, "content": CANARY}
    document = await gateway.http.post("/v1/documents", json=title, headers=ada)
    assert (await gateway.http.get("/v1/documents/999", headers=ada)).status_code == 404
    assert (await gateway.http.post("/v1/search", json={"query": 3}, headers=ada)).status_code == 422
    chatted, searched, stored, missing, invalid = await events_of(gateway, bearer(made["key"]))
    for event in (chatted, searched, stored, missing, invalid):
        assert (event["user"], event["key_id"], event["agent"]) == ("ada", made["id"], "probe/1")
        assert (event["address"], event["request_id"]) == ("127.0.0.1", "r1")
    assert (chatted["action"], chatted["outcome"]) == ("chat", "ok")
    assert f"conversation:{chat.json()['conversation_id']}" in chatted["objects"]
    assert any(name.startswith("document:") for name in chatted["objects"])
    assert (searched["action"], searched["objects"][0].partition(":")[0]) == ("search", "document")
    assert (stored["action"], stored["objects"]) == ("document.create", [f"document:{document.json()['id']}"])
    assert (missing["outcome"], missing["reason"], missing["objects"]) == (
        "failed",
        "DOCUMENT_NOT_FOUND",
        ["document:999"],
    )
    assert (invalid["outcome"], invalid["reason"]) == ("failed", "INVALID_FIELD")
    assert CANARY not in json.dumps(rows(database, "SELECT to_jsonb(e) FROM chat.audit_events e"), default=str)


async def test_refusals_are_recorded_for_unknown_callers_too(gateway: Gateway, database: Database) -> None:
    ada, bob = [bearer((await key_for(database, "acme", user))["key"]) for user in ("ada", "bob")]
    assert (await gateway.http.get("/v1/budgets", headers=bob)).status_code == 403
    assert (await gateway.http.get("/v1/admin/audit", headers=bob)).status_code == 403
    assert (await gateway.http.get("/v1/documents", headers=bearer("cw_" + "x" * 43))).status_code == 401
    assert [
        (event["user"], event["action"], event["outcome"], event["reason"]) for event in await events_of(gateway, ada)
    ] == [
        ("bob", "budget.list", "refused", "PERMISSION_DENIED"),
        ("bob", "audit.export", "refused", "PERMISSION_DENIED"),
    ]
    stranger = rows(database, "SELECT action, outcome, reason, user_id FROM chat.audit_events WHERE org_id = '?'")
    assert stranger == [("document.list", "refused", "API_KEY_INVALID", "")]


async def test_an_organisation_reads_its_own_events_in_pages(gateway: Gateway, database: Database) -> None:
    ada = bearer((await key_for(database, "acme", "ada"))["key"])
    eve = bearer((await key_for(database, "other", "eve"))["key"])
    for number in range(5):
        await gateway.http.get(f"/v1/documents/{number + 1}", headers=ada)
    await gateway.http.get("/v1/documents/77", headers=eve)
    assert [event["objects"] for event in await events_of(gateway, eve)] == [["document:77"]]
    pages: list[list[str]] = []
    token = ""
    for _ in range(3):
        params = {"page_size": 2, "action": "document.read", **({"page_token": token} if token else {})}
        page = (await gateway.http.get("/v1/admin/audit", params=params, headers=ada)).json()
        pages.append([event["objects"][0] for event in page["events"]])
        token = page["next_page_token"]
    assert pages == [["document:1", "document:2"], ["document:3", "document:4"], ["document:5"]]
    assert token == ""
    assert [event["user"] for event in await events_of(gateway, ada, object="document:3")] == ["ada"]
    assert await events_of(gateway, ada, user="eve") == []
    assert await events_of(gateway, ada, to="2020-01-01") == []
    for wrong in ({"action": "tea"}, {"from": "x"}, {"from": "2026-02-01", "to": "2026-01-01"}, {"page_token": "x"}):
        assert (await gateway.http.get("/v1/admin/audit", params=wrong, headers=ada)).status_code == 422, wrong
    assert (await audit.check_trail(database.owner_dsn)).problems == []


async def test_an_answer_that_breaks_off_is_recorded_as_failed(gateway: Gateway, database: Database) -> None:
    ada = bearer((await key_for(database, "acme", "ada"))["key"])

    async def break_off(request: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        del request
        yield started()
        yield delta("Revenue grew")
        raise Unavailable("gone", reason="PROVIDER_UNAVAILABLE")

    gateway.fakes.generator.script = break_off
    response = await gateway.http.post("/v1/chat", json=QUESTION, headers=ada)
    assert response.status_code == 200
    (event,) = await events_of(gateway, ada)
    assert (event["action"], event["outcome"]) == ("chat", "failed")
    assert event["reason"] == "PROVIDER_UNAVAILABLE"


async def test_a_full_required_trail_refuses_all_requests_but_probes(
    gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = bearer((await key_for(database, "acme", "ada"))["key"])

    def full(_trail: AuditTrail) -> None:
        raise Unavailable("full", reason="DATABASE_UNAVAILABLE")

    monkeypatch.setattr(AuditTrail, "check", full)
    assert (await gateway.http.get("/v1/documents", headers=ada)).status_code == 503
    assert (await gateway.http.get("/livez")).status_code == 200


async def test_access_logs_name_the_caller(gateway: Gateway, database: Database) -> None:
    made = await key_for(database, "acme", "ada")
    with structlog.testing.capture_logs() as logs:
        await gateway.http.get("/v1/documents", headers=bearer(made["key"]))
    (line,) = [log for log in logs if log["event"] == "http_request"]
    assert (line["org"], line["user"], line["key"]) == ("acme", "ada", made["id"])
