"""Tenants' own providers over HTTP: write-only secrets, permissions, what requests carry, missing providers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from citewire.common.v1 import common_pb2

from callers import keyed_environment
from citewire_accounts.tenants.identity import IdentityStore, make_key
from citewire_kit.errors import FieldViolation, InvalidArgument
from citewire_kit.postgres import open_pool
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, frames_of, rows, running_gateway

if TYPE_CHECKING:
    from databases import Database

Json = dict[str, Any]
CANARY, BASE = "sk-canary-5f1d", "https://canary-host.example/v1"
OWN: Json = {"provider": "openai-compatible", "model": "own-1", "api_key": CANARY, "api_base": BASE}
QUESTION = {"question": "How much did revenue grow?"}
OWN_SPACE = common_pb2.EmbeddingSpace(model="own-embedding", revision="r9", dimensions=8)


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


async def clients(database: Database, gateway: Gateway, *callers: tuple[str, str]) -> list[httpx.AsyncClient]:
    """Clients with keys of their own; the first user of an organisation owns it."""
    pool = await open_pool(database.dsn("citewire_chat"), max_size=1, name="test")
    made: list[httpx.AsyncClient] = []
    for org, user in callers:
        store, key = IdentityStore(pool), make_key()
        await store.ensure_user(org, user, "pro")
        await store.add_key(org, user, "test", key)
        headers = {"Authorization": f"Bearer {key.text}"}
        made.append(httpx.AsyncClient(base_url=gateway.url, headers=headers, trust_env=False, timeout=30))
    await pool.close()
    return made


async def put(http: httpx.AsyncClient, path: str, body: Json) -> Json:
    response = await http.put(f"/v1/providers/{path}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_provider_is_shown_without_its_secrets(gateway: Gateway, database: Database) -> None:
    shown = await put(gateway.http, "chat", OWN)
    assert shown.pop("updated_at")
    assert shown == {
        "type": "chat",
        "scope": "user",
        "name": "default",
        "active": True,
        "provider": "openai-compatible",
        "model": "own-1",
        "has_key": True,
        "has_api_base": True,
        "test": {"tried": True, "ok": True, "text": "The provider answered.", "status": 200},
        "fallbacks": [],
    }
    for path in ("/v1/providers/chat", "/v1/providers"):
        text = (await gateway.http.get(path)).text
        assert CANARY not in text
        assert "canary-host" not in text
    stored = str(rows(database, "SELECT p::text FROM chat.providers p"))
    assert CANARY not in stored
    (spec,) = gateway.fakes.generator.sealing.specs
    assert (spec.api_key, spec.api_base, spec.user_id) == (CANARY, BASE, "local")


async def test_a_failed_test_call_is_stored_and_reported(gateway: Gateway) -> None:
    gateway.fakes.generator.sealing.test = common_pb2.ProviderTest(
        tried=True, ok=False, reason="PROVIDER_AUTH", text="The model provider refused the credentials.", status=401
    )
    shown = await put(gateway.http, "chat", OWN)
    assert shown["test"] == {
        "tried": True,
        "ok": False,
        "reason": "PROVIDER_AUTH",
        "text": "The model provider refused the credentials.",
        "status": 401,
    }
    assert (await put(gateway.http, "chat", {**OWN, "test": False}))["test"] == {"tried": False}
    assert gateway.fakes.generator.sealing.specs[-1].skip_test


async def test_saving_again_replaces_a_provider_and_deleting_removes_it(gateway: Gateway) -> None:
    await put(gateway.http, "chat", {**OWN, "fallbacks": [{"model": "extractive"}, {"provider": "openai"}]})
    shown = await put(gateway.http, "chat", {"provider": "ollama", "api_base": BASE})
    assert (shown["has_key"], shown["model"], shown["fallbacks"]) == (False, "ollama-default", [])
    assert (await gateway.http.delete("/v1/providers/chat")).status_code == 204
    for response in (await gateway.http.get("/v1/providers/chat"), await gateway.http.delete("/v1/providers/chat")):
        assert response.status_code == 404
        assert response.json()["reason"] == "PROVIDER_NOT_FOUND"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("chat", {"model": "m"}, "provider"),
        ("chat", {**OWN, "key": "x"}, "key"),
        ("chat", {**OWN, "api_key": 1}, "api_key"),
        ("chat", {**OWN, "fallbacks": [{"model": ""}]}, "fallbacks.0.model"),
        ("chat", {**OWN, "fallbacks": [{"model": "m", "api_key": "k"}]}, "fallbacks.0.api_key"),
        ("chat", {**OWN, "fallbacks": [{"model": "m"}] * 5}, "fallbacks"),
        ("embedding", {**OWN, "fallbacks": [{"model": "m"}]}, "fallbacks"),
        ("embedding", {**OWN, "dimensions": 0}, "dimensions"),
        ("speech", OWN, "type"),
    ],
)
async def test_a_wrong_body_names_its_field_and_not_its_values(
    gateway: Gateway, path: str, body: Json, field: str
) -> None:
    response = await gateway.http.put(f"/v1/providers/{path}", json=body)
    assert response.status_code == 422, response.text
    assert field in {error["field"] for error in response.json()["errors"]}
    assert CANARY not in response.text


async def test_a_refusal_to_seal_is_reported_with_its_field(gateway: Gateway) -> None:
    sealing = gateway.fakes.generator.sealing
    sealing.seal_error = InvalidArgument("not there", reason="PROVIDER_ADDRESS")
    response = await gateway.http.put("/v1/providers/chat", json=OWN)
    assert (response.status_code, response.json()["reason"]) == (422, "PROVIDER_ADDRESS")
    sealing.seal_error = InvalidArgument(
        "api_key: is required", reason="INVALID_FIELD", violations=[FieldViolation("api_key", "is required")]
    )
    response = await gateway.http.put("/v1/providers/chat", json=OWN)
    assert response.json()["errors"] == [{"field": "api_key", "message": "is required"}]
    assert (await gateway.http.get("/v1/providers/chat")).status_code == 404


async def test_a_chat_carries_the_sealed_providers_and_their_fallbacks(gateway: Gateway) -> None:
    fakes = gateway.fakes
    fakes.embedder.own_space = fakes.retriever.space
    await put(gateway.http, "chat", {**OWN, "fallbacks": [{"model": "extractive"}, {"provider": "openai"}]})
    await put(gateway.http, "embedding", {**OWN, "dimensions": 4})
    await put(gateway.http, "rerank", OWN)
    await gateway.stream("/v1/chat", QUESTION)
    request = fakes.generator.requests[-1]
    assert (request.provider.provider, request.provider.model) == ("openai-compatible", "own-1")
    assert request.provider.sealed_key
    assert request.provider.user_id == "local"
    assert [fallback.model or fallback.provider.provider for fallback in request.fallbacks] == ["extractive", "openai"]
    embedded = fakes.embedder.requests[-1]
    assert (embedded.provider.type, embedded.provider.dimensions) == (common_pb2.PROVIDER_TYPE_EMBEDDING, 4)
    result = await gateway.http.post("/v1/search", json={"query": "revenue", "rerank": True})
    assert result.status_code == 200, result.text
    assert fakes.embedder.reranked[-1].provider.type == common_pb2.PROVIDER_TYPE_RERANK
    assert fakes.embedder.requests[-1].HasField("provider")


async def test_a_model_named_in_a_chat_is_a_model_of_the_own_provider(gateway: Gateway) -> None:
    await put(gateway.http, "chat", OWN)
    await gateway.stream("/v1/chat", {**QUESTION, "model": "own-2"})
    assert gateway.fakes.generator.requests[-1].provider.model == "own-2"


async def test_without_own_providers_a_call_carries_none(gateway: Gateway) -> None:
    await gateway.stream("/v1/chat", QUESTION)
    assert not gateway.fakes.generator.requests[-1].HasField("provider")
    assert not gateway.fakes.embedder.requests[-1].HasField("provider")


async def test_a_users_own_provider_precedes_the_organisations(database: Database) -> None:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as gateway:
        owner, member, other = await clients(database, gateway, ("acme", "ana"), ("acme", "bob"), ("other", "ana"))
        refused = await member.put("/v1/providers/chat?scope=org", json=OWN)
        assert (refused.status_code, refused.json()["reason"]) == (403, "PERMISSION_DENIED")
        assert (await put(owner, "chat?scope=org", {**OWN, "model": "org-1"}))["scope"] == "org"
        await put(member, "chat", {**OWN, "model": "bobs-1"})
        for client, model in ((owner, "org-1"), (member, "bobs-1"), (other, "")):
            response = await client.post("/v1/chat", json={**QUESTION, "stream": False})
            assert response.status_code == 200, response.text
            assert fakes.generator.requests[-1].provider.model == model
        assert (await member.get("/v1/providers/chat")).json()["scope"] == "user"
        assert (await member.get("/v1/providers/chat?scope=org")).json()["model"] == "org-1"
        assert len((await member.get("/v1/providers")).json()["providers"]) == 2
        nothing: dict[str, object] = {"require_own": False, "providers": [], "next_page_token": ""}
        assert (await other.get("/v1/providers")).json() == nothing
        assert (await member.delete("/v1/providers/chat?scope=org")).status_code == 403
        assert (await member.patch("/v1/providers", json={"require_own": True})).status_code == 403
        assert (await member.delete("/v1/providers/chat")).status_code == 204
        assert (await member.get("/v1/providers/chat")).json()["scope"] == "org"
        for client in (owner, member, other):
            await client.aclose()


async def check_missing(gateway: Gateway, path: str, body: Json, types: list[str]) -> None:
    response = await gateway.http.post(path, json=body)
    assert response.status_code == 400, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert (problem["reason"], problem["types"]) == ("PROVIDER_MISSING", types)
    assert problem["title"] == "A model provider is missing"
    assert [error["field"] for error in problem["errors"]] == types


@pytest.mark.parametrize("body", [{}, {"stream": False}, {"profile": "simple"}])
async def test_c10_missing_providers_are_named_before_any_frame(
    gateway: Gateway, database: Database, body: Json
) -> None:
    assert (await gateway.http.patch("/v1/providers", json={"require_own": True})).json() == {"require_own": True}
    await check_missing(gateway, "/v1/chat", {**QUESTION, **body}, ["chat", "embedding"])
    assert gateway.fakes.embedder.requests == []
    assert rows(database, "SELECT FROM chat.exchanges") == []
    await put(gateway.http, "chat", OWN)
    await check_missing(gateway, "/v1/chat", {**QUESTION, **body}, ["embedding"])
    gateway.fakes.embedder.own_space = gateway.fakes.retriever.space
    await put(gateway.http, "embedding", OWN)
    response = await gateway.http.post("/v1/chat", json={**QUESTION, **body})
    assert response.status_code == 200


async def test_c10_holds_for_the_simple_api_and_the_search(gateway: Gateway) -> None:
    await gateway.http.patch("/v1/providers", json={"require_own": True})
    await check_missing(gateway, "/api/chat/", QUESTION, ["chat", "embedding"])
    await check_missing(gateway, "/api/chat/query", QUESTION, ["chat", "embedding"])
    await check_missing(gateway, "/v1/search", {"query": "x"}, ["embedding"])
    await check_missing(gateway, "/v1/search", {"query": "x", "rerank": True}, ["embedding", "rerank"])
    await check_missing(gateway, "/v1/search", {"query": "x", "rerank": True, "mode": "lexical"}, ["rerank"])
    assert (await gateway.http.post("/v1/search", json={"query": "x", "mode": "lexical"})).status_code == 200


async def test_c10_an_operator_may_offer_no_models(database: Database) -> None:
    async with running_fakes() as fakes, running_gateway(database, fakes, offered_providers="embedding") as gateway:
        await check_missing(gateway, "/v1/chat", QUESTION, ["chat"])
        await put(gateway.http, "chat", OWN)
        frames = frames_of((await gateway.http.post("/v1/chat", json=QUESTION)).text)
        assert frames[-1].event == "done"


async def test_requiring_own_providers_hides_the_operators_models(gateway: Gateway) -> None:
    gateway.fakes.embedder.own_space = gateway.fakes.retriever.space
    await gateway.http.patch("/v1/providers", json={"require_own": True})
    await put(gateway.http, "chat", {**OWN, "fallbacks": [{"model": "extractive"}, {"provider": "openai"}]})
    await put(gateway.http, "embedding", OWN)
    await gateway.stream("/v1/chat", QUESTION)
    assert [fallback.provider.provider for fallback in gateway.fakes.generator.requests[-1].fallbacks] == ["openai"]


async def test_a_model_of_another_space_than_the_librarys_is_refused(gateway: Gateway) -> None:
    gateway.fakes.embedder.own_space = OWN_SPACE
    response = await gateway.http.put("/v1/providers/embedding", json=OWN)
    assert (response.status_code, response.json()["reason"]) == (409, "SPACE_MISMATCH")
    assert "test-model (4 dimensions)" in response.json()["detail"]
    assert "own-embedding" in response.json()["detail"]
    gateway.fakes.retriever.space = None  # nothing was ingested yet
    await put(gateway.http, "embedding", OWN)


async def test_a_library_in_the_operators_space_is_searched_there(gateway: Gateway) -> None:
    """The provider was saved before anything was ingested, and then the operator's model ingested first."""
    fakes = gateway.fakes
    fakes.embedder.own_space, fakes.retriever.space = OWN_SPACE, None
    await put(gateway.http, "embedding", OWN)
    fakes.retriever.space = common_pb2.EmbeddingSpace(model="small", revision="small-r", dimensions=4)
    await gateway.stream("/v1/chat", QUESTION)
    own, again = fakes.embedder.requests[-2:]
    assert own.HasField("provider")
    assert (again.HasField("provider"), again.model) == (False, "small")
    await put(gateway.http, "chat", OWN)
    await gateway.http.patch("/v1/providers", json={"require_own": True})
    response = await gateway.http.post("/v1/chat", json={**QUESTION, "stream": False})
    assert (response.status_code, response.json()["reason"]) == (503, "MODEL_NOT_FOUND")


def rotate(database: Database, gateway: Gateway, *, keyed: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "citewire_gateway", "rotate"],
        env={
            "PATH": os.environ["PATH"],
            **(keyed_environment() if keyed else {}),
            "CITEWIRE_GATEWAY_DSN": database.dsn("citewire_chat"),
            "CITEWIRE_GATEWAY_EMBEDDER_TARGET": gateway.fakes.target("embedder"),
            "CITEWIRE_GATEWAY_GENERATOR_TARGET": gateway.fakes.target("generator"),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_rotation_rewraps_every_tenants_rows(database: Database) -> None:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as gateway:
        fakes.embedder.own_space = fakes.retriever.space
        ana, bob = await clients(database, gateway, ("acme", "ana"), ("other", "bob"))
        await put(ana, "chat?scope=org", {**OWN, "fallbacks": [{"model": "extractive"}, {"provider": "openai"}]})
        await put(ana, "chat", OWN)
        await put(bob, "embedding", OWN)
        with psycopg.connect(database.dsn("postgres")) as connection:  # as a gateway of the previous version stored it
            connection.execute(
                "UPDATE chat.providers SET sealed_api_base = 'k1:base', has_key = NULL, has_api_base = NULL"
                " WHERE type = 'embedding'"
            )
        shown = (await bob.get("/v1/providers/embedding")).json()
        assert (shown["has_key"], shown["has_api_base"]) == (True, True)
        fakes.generator.sealing.master_key = fakes.embedder.sealing.master_key = "k2"
        done = await asyncio.to_thread(rotate, database, gateway, keyed=False)
        assert "4 failed" in done.stdout
        assert "set CITEWIRE_CALLER_KEY" in done.stdout + done.stderr
        done = await asyncio.to_thread(rotate, database, gateway)
        assert done.returncode == 0, done.stderr
        assert "4 rewrapped, 0 already" in done.stdout
        sealed = rows(database, "SELECT sealed_key, sealed_api_base FROM chat.providers WHERE sealed_key <> ''")
        assert len(sealed) == 4
        assert all(key.startswith(b"k2:") and not base for key, base in sealed)
        assert (await bob.get("/v1/providers/embedding")).json() == shown
        done = await asyncio.to_thread(rotate, database, gateway)
        assert "0 rewrapped, 4 already" in done.stdout
        response = await bob.post("/v1/chat", json={**QUESTION, "stream": False})
        assert response.status_code == 200
        assert fakes.embedder.requests[-1].provider.sealed_key.startswith(b"k2:")
        await fakes.kill("embedder")
        done = await asyncio.to_thread(rotate, database, gateway)
        assert done.returncode == 1
        assert "1 failed" in done.stdout
        for client in (ana, bob):
            await client.aclose()
