"""Every parameter is honoured or refused by name: in addresses, in bodies, and in requests of other APIs' clients."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from citewire.common.v1.common_pb2 import EmbeddingSpace
from citewire.retriever.v1 import corpus_pb2
from fastapi.routing import APIRoute

from citewire_gateway.api.routes import page
from citewire_gateway.app import ROUTES
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database

PAGE_ROUTES = page.router.routes
OPENAPI = Path(__file__).resolve().parents[2] / "docs" / "reference" / "openapi.json"
QUESTION = {"question": "How much did it grow?"}
COMPLETION: dict[str, Any] = {"model": "grounded", "messages": [{"role": "user", "content": "How much did it grow?"}]}


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


def fields_of(body: dict[str, Any]) -> list[str]:
    return [error["field"] for error in body["errors"]]


async def test_an_unknown_parameter_is_refused_by_every_route(gateway: Gateway, subtests: pytest.Subtests) -> None:
    routes = [route for module in ROUTES for route in module.router.routes if isinstance(route, APIRoute)]
    addresses = [
        (method, route)
        for route in routes
        for method in (route.methods or set()) - {"HEAD"}  # its answers have no body
        # An identity provider may add any parameter to the address to which it sends the browser back.
        if not route.path.startswith("/docs/")
        and not route.path.startswith("/v1/auth/callback")
        and not route.path.startswith("/v1/operator/")  # always refused without authentication, as here
        and route not in PAGE_ROUTES  # the page ignores parameters in links
    ]
    assert len(addresses) > 40
    for method, route in addresses:
        with subtests.test(method=method, path=route.path):
            path = re.sub(r"\{[^}]+\}", "7", route.path)
            response = await gateway.http.request(method, path, params={"nonsense": "1"})
            assert response.status_code == 422, response.text
            assert fields_of(response.json()) == ["nonsense"]


async def test_the_problem_lists_the_known_parameters(gateway: Gateway) -> None:
    response = await gateway.http.get("/v1/conversations", params={"limit": 2})
    assert fields_of(response.json()) == ["limit"]
    assert "it takes page_size, page_token, q" in response.json()["detail"]


async def test_a_repeated_parameter_is_refused(gateway: Gateway) -> None:
    response = await gateway.http.get("/v1/documents?page_size=1&page_size=2")
    assert (response.status_code, fields_of(response.json())) == (422, ["page_size"])


async def test_a_missing_key_is_reported_first(database: Database) -> None:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as gateway:
        assert (await gateway.http.get("/v1/documents?nonsense=1")).status_code == 401


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/chat", {**QUESTION, "nonsense": 1}, "nonsense"),
        ("/v1/chat", {"messages": [{"role": "user", "content": "x", "nonsense": 1}]}, "messages.0.nonsense"),
        ("/v1/chat", {"messages": [{"role": "user", "parts": [{"type": "file", "url": "x"}]}]}, "messages.0"),
        ("/api/chat/", {**QUESTION, "top_k": 3}, "top_k"),
        ("/api/chat/query", {**QUESTION, "stream": True}, "stream"),
        ("/api/rag-chat/stream", {"messages": [{"role": "user", "content": "x"}], "model": "m"}, "model"),
        ("/v1/embeddings", {"input": "a", "truncate": "END"}, "truncate"),
        ("/v1/rerank", {"query": "q", "documents": ["a"], "max_chunks_per_doc": 2}, "max_chunks_per_doc"),
        ("/v1/search", {"query": "q", "limit": 2}, "limit"),
    ],
)
async def test_an_unknown_member_of_a_body_is_named(
    gateway: Gateway, path: str, body: dict[str, Any], field: str
) -> None:
    response = await gateway.http.post(path, json=body)
    assert (response.status_code, fields_of(response.json())) == (422, [field])


REFUSED: dict[str, Any] = {
    "temperature": 5,
    "response_format": {"type": "grammar"},
    "top_p": 1.5,
    "frequency_penalty": 3,
    "presence_penalty": -3,
    "reasoning_effort": "utmost",
    "n": 2,
    "tools": [{"type": "function"}],
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "modalities": ["text", "audio"],
    "web_search_options": {},
    "stream_options": {"nonsense": True},
    "nonsense": 1,
}


@pytest.mark.parametrize("name", REFUSED)
async def test_unsupported_parameters_of_completions_are_refused(gateway: Gateway, name: str) -> None:
    response = await gateway.http.post("/v1/chat/completions", json={**COMPLETION, name: REFUSED[name]})
    assert response.status_code == 422, response.text
    (field,) = fields_of(response.json())
    assert field.partition(".")[0] == name
    assert response.json()["error"]["param"] == field
    assert gateway.fakes.generator.requests == []


async def test_values_that_change_nothing_are_accepted(gateway: Gateway) -> None:
    taken = {
        "n": 1, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "response_format": {"type": "text"},
        "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": None, "seed": None, "stop": None,
        "logprobs": False, "modalities": ["text"], "store": False, "service_tier": "auto", "user": "u-1",
        "metadata": {"team": "a"}, "safety_identifier": "s", "prompt_cache_key": "k",
    }  # fmt: skip
    response = await gateway.http.post("/v1/chat/completions", json={**COMPLETION, **taken})
    assert response.status_code == 200, response.text


async def test_an_answer_may_be_sent_back_unchanged(gateway: Gateway) -> None:
    first = (await gateway.http.post("/v1/chat/completions", json=COMPLETION)).json()["choices"][0]["message"]
    messages = [*COMPLETION["messages"], {**first, "tool_calls": None}, {"role": "user", "content": "Since when?"}]
    response = await gateway.http.post("/v1/chat/completions", json={**COMPLETION, "messages": messages})
    assert response.status_code == 200, response.text


async def test_a_temperature_reaches_the_generator(gateway: Gateway) -> None:
    for temperature in (0, 1.5, 2):
        await gateway.http.post("/v1/chat/completions", json={**COMPLETION, "temperature": temperature})
        assert gateway.fakes.generator.requests[-1].temperature == temperature
    await gateway.http.post("/v1/chat/completions", json=COMPLETION)
    assert not gateway.fakes.generator.requests[-1].HasField("temperature")


async def test_a_named_rerank_model_is_used(gateway: Gateway) -> None:
    body = {"query": "q", "documents": ["a", "b"], "model": "rerank-v4"}
    assert (await gateway.http.post("/v1/rerank", json=body)).json()["model"] == "rerank-v4"
    assert gateway.fakes.embedder.reranked[-1].model == "rerank-v4"


async def test_conversations_are_searched_and_listed_in_pages(gateway: Gateway) -> None:
    for question in ("Which meal did I save?", "What grew?", "Another MEAL, please?", "A meal for two?"):
        await gateway.http.post("/v1/chat", json={"question": question})
    listed = (await gateway.http.get("/v1/conversations", params={"q": "meal", "page_size": 2})).json()
    assert [conversation["title"] for conversation in listed["conversations"]] == [
        "A meal for two?",
        "Another MEAL, please?",
    ]
    rest = {"q": "meal", "page_size": 2, "page_token": listed["next_page_token"]}
    last = (await gateway.http.get("/v1/conversations", params=rest)).json()
    assert [conversation["title"] for conversation in last["conversations"]] == ["Which meal did I save?"]
    assert last["next_page_token"] == ""
    by_answer = (await gateway.http.get("/v1/conversations", params={"q": "revenue grew"})).json()["conversations"]
    assert len(by_answer) == 4
    assert (await gateway.http.get("/v1/conversations", params={"q": "100%"})).json()["conversations"] == []


async def test_lists_of_documents_and_collections_pass_on_the_search(gateway: Gateway) -> None:
    await gateway.http.get("/v1/documents", params={"q": "report"})
    assert gateway.fakes.corpus.lists[-1].q == "report"
    await gateway.http.get("/v1/collections", params={"q": "re"})
    assert gateway.fakes.corpus.collection_lists[-1].q == "re"


LISTS = {
    "/v1/profiles": "profiles",
    "/v1/models": "data",
    "/v1/providers": "providers",
    "/v1/budgets": "budgets",
    "/v1/spaces": "spaces",
    "/v1/documents": "documents",
    "/v1/collections": "collections",
    "/v1/conversations": "conversations",
}


def test_every_listing_has_pages_and_is_searched() -> None:
    document = json.loads(OPENAPI.read_text())
    listings: dict[str, set[str]] = {}
    for path, methods in document["paths"].items():
        content = methods.get("get", {"responses": {}})["responses"].get("200", {}).get("content", {})
        name = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
        members = document["components"]["schemas"].get(name, {}).get("properties", {})
        if name.endswith("List") or "next_page_token" in members:
            listings[path] = {parameter["name"] for parameter in methods["get"]["parameters"]}
    # The messages of a conversation come in pages too but can't be searched. Keys are listed only with authentication,
    # as are the lists for administrators.
    # A collection's grants are set and read as a whole, and their number is limited.
    whole = {"/v1/conversations/{conversation_id}", "/v1/collections/{name}/grants"}
    assert listings.keys() - whole == LISTS.keys() | {
        "/v1/keys",
        "/v1/admin/groups",
        "/v1/admin/groups/{name}/members",
        "/v1/admin/limits",
        "/v1/admin/audit",
        "/v1/admin/users",
        "/v1/erasures",
        "/v1/feedback",
        "/v1/operator/organisations",
        "/v1/operator/usage",
        "/v1/operator/audit",
    }
    administered = ("/v1/admin/groups", "/v1/admin/groups/{name}/members", "/v1/admin/limits")
    searched = (*LISTS, "/v1/keys", "/v1/erasures", "/v1/operator/organisations", *administered)
    assert [path for path in searched if not {"page_size", "page_token", "q"} <= listings[path]] == []


async def fill(gateway: Gateway) -> None:
    """Creates several profiles, providers, budgets and spaces."""
    for name in ("support", "sales", "support-2"):
        body = {"base": "grounded", "description": "Für unser Team."}
        assert (await gateway.http.put(f"/v1/profiles/{name}", json=body)).status_code == 200
    for path in ("chat", "chat?scope=org", "embedding", "rerank?scope=org"):
        provider = {"provider": "cohere" if "rerank" in path else "openai", "api_key": "k", "test": False}
        response = await gateway.http.put(f"/v1/providers/{path}", json=provider)
        assert response.status_code == 200, response.text
    for period in ("day", "month"):
        response = await gateway.http.put("/v1/budgets", json={"period": period, "limit_usd": 5})
        assert response.status_code == 200, response.text


LOOKED_UP = [
    ("/v1/profiles", "SUPPORT", 2),
    ("/v1/profiles", "für unser", 3),
    ("/v1/models", "s", 7),
    ("/v1/providers", "Chat", 2),
    ("/v1/providers", "cohere", 1),
    ("/v1/budgets", "month", 1),
    ("/v1/spaces", "m", 3),
]


async def test_short_lists_are_searched_and_listed_in_pages(gateway: Gateway) -> None:
    await fill(gateway)
    roles = (corpus_pb2.SPACE_ROLE_LIVE, corpus_pb2.SPACE_ROLE_NEXT, corpus_pb2.SPACE_ROLE_PREVIOUS)
    gateway.fakes.corpus.spaces = [
        corpus_pb2.SpaceInfo(space=EmbeddingSpace(model=f"m{role}"), role=role) for role in roles
    ]
    for path, q, matches in LOOKED_UP:
        name = LISTS[path]
        whole = (await gateway.http.get(path)).json()
        assert whole["next_page_token"] == ""
        assert len(whole[name]) >= 2
        for size in (1, 2, 7):
            assert await pages_of(gateway, path, size) == whole[name]
        assert len((await gateway.http.get(path, params={"q": q})).json()[name]) == matches
        assert (await gateway.http.get(path, params={"q": "100%"})).json()[name] == []


async def pages_of(gateway: Gateway, path: str, size: int) -> list[Any]:
    """Returns the items of all pages."""
    items: list[Any] = []
    token: str | None = None
    while token != "":
        page = (await gateway.http.get(path, params={"page_size": size, "page_token": token or ""})).json()
        assert 1 <= len(page[LISTS[path]]) <= size
        items += page[LISTS[path]]
        token = page["next_page_token"]
    return items


async def test_a_page_token_of_another_list_is_refused(gateway: Gateway) -> None:
    for token in ("nonsense", "e30=", "WzFd", "WyJhIiwgMV0=", "[" * 900):
        response = await gateway.http.get("/v1/profiles", params={"page_token": token})
        assert (response.status_code, fields_of(response.json())) == (422, ["page_token"])
    first = (await gateway.http.get("/v1/profiles", params={"page_size": 1})).json()["next_page_token"]
    other = await gateway.http.get("/v1/profiles", params={"page_token": first, "q": "s"})
    assert (other.status_code, other.json()["reason"]) == (422, "INVALID_PAGE_TOKEN")


async def test_changes_between_two_pages_shift_no_other_items(gateway: Gateway) -> None:
    for name in ("a", "c", "e"):
        await gateway.http.put(f"/v1/profiles/{name}", json={"base": "grounded"})
    first = (await gateway.http.get("/v1/profiles", params={"page_size": 8})).json()
    assert [profile["name"] for profile in first["profiles"]][-2:] == ["a", "c"]
    await gateway.http.delete("/v1/profiles/c")
    await gateway.http.put("/v1/profiles/b", json={"base": "grounded"})
    rest = {"page_size": 8, "page_token": first["next_page_token"]}
    assert [
        profile["name"] for profile in (await gateway.http.get("/v1/profiles", params=rest)).json()["profiles"]
    ] == ["e"]
