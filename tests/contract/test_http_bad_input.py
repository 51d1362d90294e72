"""Bad input: always a clear problem document that names the field, and nothing half-written."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from gateway_fake_servers import running_fakes
from gateway_process import Gateway, rows, running_gateway

if TYPE_CHECKING:
    from databases import Database

MIB = 1024 * 1024
JSON = {"Content-Type": "application/json"}
CHATS = ("/v1/chat", "/api/chat/", "/api/chat/query")


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes, default_profile="documents") as running:
        yield running


def assert_problem(response: httpx.Response, status: int, reason: str, field: str | None = None) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert set(problem) == {"type", "title", "status", "detail", "reason", "errors", "request_id"}
    assert problem["status"] == status
    assert problem["reason"] == reason
    assert problem["request_id"] == response.headers["x-request-id"]
    assert problem["title"]
    assert problem["detail"]
    assert "Traceback" not in response.text
    if field is not None:
        assert field in [error["field"] for error in problem["errors"]], problem
    return problem


def assert_nothing_written(gateway: Gateway, database: Database) -> None:
    for table in ("conversations", "messages", "idempotency_keys"):
        assert rows(database, f"SELECT count(*) FROM chat.{table}") == [(0,)], table  # noqa: S608 # names of our own tables, no input
    assert gateway.fakes.corpus.stored == {}


QUESTIONS: list[tuple[object, int, str, str | None]] = [
        ({}, 422, "INVALID_FIELD", "question"),
        ({"question": ""}, 422, "INVALID_FIELD", "question"),
        ({"question": " \n\t\u00a0 "}, 422, "INVALID_FIELD", "question"),
        ({"question": None}, 422, "INVALID_FIELD", "question"),
        ({"question": 7}, 422, "INVALID_FIELD", "question"),
        ({"question": "a\x00b"}, 422, "INVALID_FIELD", "question"),
        ({"question": "q" * (32 * 1024 + 1)}, 422, "INVALID_FIELD", "question"),
        ({"question": "ü" * (16 * 1024 + 1)}, 422, "INVALID_FIELD", "question"),
        ({"question": "x", "top_k": 0}, 422, "INVALID_FIELD", "top_k"),
        ({"question": "x", "top_k": 31}, 422, "INVALID_FIELD", "top_k"),
        ({"question": "x", "top_k": 10**9}, 422, "INVALID_FIELD", "top_k"),
        ({"question": "x", "top_k": 10**200}, 422, "INVALID_FIELD", "top_k"),
        ({"question": "x", "top_k": -1}, 422, "INVALID_FIELD", "top_k"),
        ({"question": "x", "top_k": 2.5}, 422, "INVALID_FIELD", "top_k"),
        ({"question": "x", "top_k": "5"}, 422, "INVALID_FIELD", "top_k"),
        ({"question": "x", "top_k": True}, 422, "INVALID_FIELD", "top_k"),
        ({"question": "x", "min_score": 1.5}, 422, "INVALID_FIELD", "min_score"),
        ({"question": "x", "min_score": -0.1}, 422, "INVALID_FIELD", "min_score"),
        ({"question": "x", "profile": "nonsense"}, 404, "PROFILE_NOT_FOUND", None),
        ({"question": "x", "topk": 5}, 422, "INVALID_FIELD", "topk"),
        ({"question": "x", "document_ids": 7}, 422, "INVALID_FIELD", "document_ids"),
        ({"question": "x", "document_ids": [0]}, 422, "INVALID_FIELD", "document_ids.0"),
        ({"question": "x", "document_ids": [7, 2**53]}, 422, "INVALID_FIELD", "document_ids.1"),
        ({"question": "x", "document_ids": [10**30]}, 422, "INVALID_FIELD", "document_ids.0"),
        ({"question": "x", "document_ids": [7, 404]}, 404, "DOCUMENT_NOT_FOUND", None),
        ({"question": "x", "collection": ""}, 422, "INVALID_FIELD", "collection"),
        ({"question": "x", "collection": "c" * 129}, 422, "INVALID_FIELD", "collection"),
        ({"question": "x", "collection": "a\x00"}, 422, "INVALID_FIELD", "collection"),
        ({"question": "x", "conversation_id": "nonsense"}, 422, "INVALID_FIELD", "conversation_id"),
        ({"question": "x", "conversation_id": "01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11", "profile": "simple"}, 422,
     "INVALID_FIELD", "conversation_id"),
    ({"question": "x", "include": ["nonsense"]}, 422, "INVALID_FIELD", "include.0"),
        ({"question": "x", "filter": {"some": []}}, 422, "INVALID_FILTER", "filter"),
        ({"question": "x", "filter": {"field": "tags", "op": "like", "value": 1}}, 422, "INVALID_FILTER", "filter.op"),
        ({"question": "x", "filter": {"all": [{"field": "a\ud800", "op": "eq", "value": 1}]}}, 422, "INVALID_FIELD",
         "filter.all.0.field"),
        ({"messages": []}, 422, "INVALID_FIELD", "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, 422, "INVALID_FIELD", "messages.0.role"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, 422, "INVALID_FIELD", None),
        ({"messages": [{"role": "user", "content": " "}]}, 422, "INVALID_FIELD", "messages.0.content"),
        ({"question": "x", "messages": [{"role": "user", "content": "x"}]}, 422, "INVALID_FIELD", "messages"),
        ([], 422, "INVALID_FIELD", "body"),
        ("x", 422, "INVALID_FIELD", "body"),
        (None, 422, "INVALID_FIELD", "body"),
]  # fmt: skip


async def test_bad_questions(gateway: Gateway, database: Database, subtests: pytest.Subtests) -> None:
    for body, status, reason, field in QUESTIONS:
        with subtests.test(body=str(body)[:80]):
            response = await gateway.http.post("/v1/chat", content=json.dumps(body).encode(), headers=JSON)
            problem = assert_problem(response, status, reason, field)
            if reason == "DOCUMENT_NOT_FOUND":
                assert "404" in problem["detail"]
            if reason == "PROFILE_NOT_FOUND":
                assert "documents, sources, self-rag" in problem["detail"]
    assert_nothing_written(gateway, database)
    assert gateway.fakes.generator.requests == []


BODIES: list[tuple[bytes, int, str]] = [
    (b"", 400, "INVALID_JSON"),
    (b'{"question": ', 400, "INVALID_JSON"),
    (b"{'question': 'x'}", 400, "INVALID_JSON"),
    (b"\xff\xfe", 400, "INVALID_JSON"),
    (b'{"question": "\xc3"}', 400, "INVALID_JSON"),
    (b'{"question": "x", "min_score": NaN}', 400, "INVALID_JSON"),
    (b'{"question": "x", "min_score": 1e999}', 400, "INVALID_JSON"),
    (b'{"question": "x", "top_k": ' + b"9" * 5000 + b"}", 400, "INVALID_JSON"),
    (b"[" * 100_000, 400, "INVALID_JSON"),
    (b'{"question": "\\ud800"}', 422, "INVALID_FIELD"),
    (b'{"question": "x", "\\udfff": 1}', 422, "INVALID_FIELD"),
    (b'{"question": "x\\u0000"}', 422, "INVALID_FIELD"),
    (b'{"question": "' + b"a" * MIB + b'"}', 413, "TOO_LARGE"),
]


@pytest.mark.parametrize("path", CHATS)
async def test_bad_bodies(gateway: Gateway, database: Database, path: str, subtests: pytest.Subtests) -> None:
    for body, status, reason in BODIES:
        with subtests.test(body=body[:40]):
            assert_problem(await gateway.http.post(path, content=body, headers=JSON), status, reason)
    assert_nothing_written(gateway, database)


async def test_a_body_of_unknown_length_is_stopped_at_the_limit(gateway: Gateway) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * (MIB // 32)

    response = await gateway.http.post("/v1/chat", content=endless(), headers=JSON)
    problem = assert_problem(response, 413, "TOO_LARGE")
    assert "1 MiB" in problem["detail"]


async def test_surrogates_that_make_a_pair_are_one_character(gateway: Gateway) -> None:
    response = await gateway.http.post("/v1/chat", content=b'{"question": "\\ud83d\\ude42"}', headers=JSON)
    assert response.status_code == 200
    assert list(gateway.fakes.embedder.requests[0].inputs) == ["🙂"]


@pytest.mark.parametrize("question", ["x" * (32 * 1024), "ü" * (16 * 1024)])
async def test_the_longest_question_is_answered(gateway: Gateway, question: str) -> None:
    assert (await gateway.http.post("/v1/chat", json={"question": question})).status_code == 200


async def test_another_media_type_is_415(gateway: Gateway) -> None:
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "nonsense"]:
        headers = {"Content-Type": content_type}
        response = await gateway.http.post("/v1/chat", content=b'{"question": "x"}', headers=headers)
        problem = assert_problem(response, 415, "UNSUPPORTED_MEDIA_TYPE")
        assert "application/json" in problem["detail"]


@pytest.mark.parametrize("top_k", [1, 30])
async def test_the_limits_of_top_k_are_inclusive(gateway: Gateway, top_k: int) -> None:
    assert (await gateway.http.post("/v1/chat", json={"question": "x", "top_k": top_k})).status_code == 200
    assert gateway.fakes.retriever.searches[0].top_k == top_k


SIMPLE: list[tuple[dict[str, Any], str]] = [
    ({"question": " "}, "question"),
    ({}, "question"),
    ({"question": "x", "document_ids": ["7"]}, "document_ids.0"),
    ({"question": "x", "document_ids": [True]}, "document_ids.0"),
]


@pytest.mark.parametrize("path", ["/api/chat/", "/api/chat/query"])
async def test_the_simple_api_refuses_as_clearly(gateway: Gateway, path: str) -> None:
    for body, field in SIMPLE:
        assert_problem(await gateway.http.post(path, json=body), 422, "INVALID_FIELD", field)


@pytest.mark.parametrize("path", ["/api/chat/", "/api/chat/query"])
async def test_unknown_documents_are_404_there_too(gateway: Gateway, path: str) -> None:
    response = await gateway.http.post(path, json={"question": "x", "document_ids": [404, 405]})
    problem = assert_problem(response, 404, "DOCUMENT_NOT_FOUND")
    assert "404, 405" in problem["detail"]


ADDRESSES: list[tuple[str, str, int, str]] = [
    ("GET", "/nothing", 404, "ROUTE_NOT_FOUND"),
    ("GET", "/v1/nothing", 404, "ROUTE_NOT_FOUND"),
    ("POST", "/v1/chat/", 404, "ROUTE_NOT_FOUND"),
    ("GET", "/v1/chat", 405, "METHOD_NOT_ALLOWED"),
    ("DELETE", "/v1/search", 405, "METHOD_NOT_ALLOWED"),
    ("POST", "/v1/documents/7", 405, "METHOD_NOT_ALLOWED"),
    ("GET", "/v1/documents/0", 404, "DOCUMENT_NOT_FOUND"),
    ("GET", "/v1/documents/x", 404, "DOCUMENT_NOT_FOUND"),
    ("GET", "/v1/documents/99999999999999999999", 404, "DOCUMENT_NOT_FOUND"),
    ("GET", "/v1/documents/9007199254740992", 404, "DOCUMENT_NOT_FOUND"),
    ("GET", "/v1/documents/404", 404, "DOCUMENT_NOT_FOUND"),
    ("GET", "/v1/documents/404/events", 404, "DOCUMENT_NOT_FOUND"),
    ("GET", "/v1/documents/404/content", 404, "DOCUMENT_NOT_FOUND"),
    ("POST", "/v1/documents/404:retry", 404, "DOCUMENT_NOT_FOUND"),
    ("DELETE", "/v1/documents/404", 404, "DOCUMENT_NOT_FOUND"),
    ("GET", "/v1/chunks/404", 404, "CHUNK_NOT_FOUND"),
    ("GET", "/v1/chunks/x", 404, "CHUNK_NOT_FOUND"),
    ("GET", "/v1/conversations/x", 404, "CONVERSATION_NOT_FOUND"),
    ("GET", "/v1/conversations/01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11", 404, "CONVERSATION_NOT_FOUND"),
    ("DELETE", "/v1/conversations/01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11", 404, "CONVERSATION_NOT_FOUND"),
    ("GET", "/v1/conversations?page_token=nonsense", 422, "INVALID_PAGE_TOKEN"),
    ("GET", "/v1/conversations?page_size=-1", 422, "INVALID_FIELD"),
    ("GET", "/v1/documents?page_size=x", 422, "INVALID_FIELD"),
    ("GET", "/v1/documents?page_size=1001", 422, "INVALID_FIELD"),
    ("GET", "/v1/documents?status=nonsense", 422, "INVALID_FIELD"),
    ("GET", "/v1/documents?tag=a%00b", 422, "INVALID_FIELD"),
    ("GET", "/v1/documents?filter=nonsense", 400, "INVALID_JSON"),
    ("DELETE", "/v1/collections/a%00b", 422, "INVALID_FIELD"),
    ("DELETE", "/v1/keys/a%00b", 422, "INVALID_FIELD"),
    ("GET", "/v1/admin/users/a%00b", 422, "INVALID_FIELD"),
    ("GET", "/v1/admin/groups/a%00b/members", 422, "INVALID_FIELD"),
]


async def test_bad_addresses(gateway: Gateway, subtests: pytest.Subtests) -> None:
    for method, path, status, reason in ADDRESSES:
        with subtests.test(method=method, path=path):
            response = await gateway.http.request(method, path)
            assert_problem(response, status, reason)
            if status == 405:
                assert response.headers["allow"]


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


DEEP = [
    ("/v1/documents", '{"type": "article", "title": "t", "content": "c", "metadata": DEEP}', "metadata"),
    (
        "/v1/chat",
        '{"question": "q", "tools": [{"type": "function", "function": {"name": "f", "parameters": DEEP}}]}',
        "",
    ),
    ("/v1/documents:batch", '{"operations": [{"op": "update", "id": 1, "document": {"metadata": DEEP}}]}', "metadata"),
]


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "k"}])
@pytest.mark.parametrize("depth", [17, 40, 150, 300, 900])
async def test_input_that_is_nested_too_deeply(
    gateway: Gateway, database: Database, subtests: pytest.Subtests, depth: int, key: dict[str, str]
) -> None:
    for path, body, field in DEEP:
        with subtests.test(path=path):
            content = body.replace("DEEP", nested(depth))
            if depth > 200:
                response = await gateway.http.post(path, content=content, headers=JSON | key)
                assert_problem(response, 400, "INVALID_JSON")
            elif field:
                response = await gateway.http.post(path, content=content, headers=JSON | key)
                answer: dict[str, Any] = response.json()
                problem = answer["results"][0]["error"] if "results" in answer else answer
                assert problem["status"] == 422
                assert [error["field"].rpartition(".")[2] for error in problem["errors"]] == [field]
    form = {"file": ("a.txt", b"text", "text/plain")}
    response = await gateway.http.post("/v1/documents", files=form, data={"metadata": nested(depth)}, headers=key)
    assert_problem(response, 422, "INVALID_FIELD", "metadata")
    assert_nothing_written(gateway, database)


async def test_an_internal_error_shows_no_traceback(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks(*_: object) -> None:
        raise RuntimeError("a secret of the implementation")

    monkeypatch.setattr(type(gateway.services.authenticator), "caller_of", breaks)
    response = await gateway.http.get("/v1/profiles")
    assert_problem(response, 500, "INTERNAL")
    assert "secret" not in response.text


async def test_a_request_id_is_accepted_and_returned(gateway: Gateway) -> None:
    response = await gateway.http.get("/livez", headers={"X-Request-Id": "abc-123"})
    assert response.headers["x-request-id"] == "abc-123"
    odd = await gateway.http.get("/livez", headers={"X-Request-Id": "not valid, with spaces"})
    assert len(odd.headers["x-request-id"]) == 32


async def test_without_auth_only_this_machine_may_call(gateway: Gateway) -> None:
    for headers in [
        {"Host": "evil.example"},
        {"Host": "evil.example:8080"},
        {"Host": "[::1].evil.example"},
        {"Host": "[::1]evil.example:8080"},
        {"Host": "127.0.0.1:80@evil.example"},
        {"Host": "127.0.0.1@evil.example"},
        {"Host": "evil@127.0.0.1"},
        {"Host": "localhost:8080:8080"},
        {"Origin": "http://[::1].evil.example"},
        {"Origin": "http://localhost:80@evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ]:
        response = await gateway.http.post("/v1/chat", json={"question": "x"}, headers=headers)
        assert_problem(response, 403, "PERMISSION_DENIED")


async def test_without_auth_names_of_this_machine_may_call(gateway: Gateway) -> None:
    for headers in [
        {"Host": "localhost:8080"},
        {"Host": "[::1]:8080"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://localhost:5173"},
    ]:
        assert (await gateway.http.get("/v1/profiles", headers=headers)).status_code == 200


SITES = {
    "a page of another server here": {"Origin": "http://localhost:3000"},
    "the same, as its browser says it": {"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"},
    "one that hides its origin": {"Sec-Fetch-Site": "cross-site"},
    "another scheme": {"Origin": "https://localhost:8080", "Host": "localhost:8081"},
}


@pytest.mark.parametrize("headers", SITES.values(), ids=SITES)
async def test_without_auth_a_form_from_another_origin_is_refused(gateway: Gateway, headers: dict[str, str]) -> None:
    """A browser sends a form without a preflight, so only its headers show where it comes from."""
    response = await gateway.http.post("/v1/documents", files={"file": ("a.md", b"# planted")}, headers=headers)
    assert_problem(response, 403, "PERMISSION_DENIED")
    assert gateway.fakes.corpus.uploads == 0


async def test_without_auth_a_form_from_its_own_page_is_accepted(gateway: Gateway) -> None:
    own = gateway.url.removeprefix("http://")
    for headers in [
        {},
        {"Origin": f"http://{own}"},
        {"Origin": f"http://{own}", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://localhost:5173", "Sec-Fetch-Site": "same-origin"},  # through the development server's proxy
    ]:
        response = await gateway.http.post("/v1/documents", files={"file": ("a.md", b"# mine")}, headers=headers)
        assert response.status_code == 202, response.text
