"""The OpenAPI document is valid, complete, and right about streams and errors; and the page that shows it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from gateway_fake_servers import running_fakes
from gateway_process import Gateway, running_gateway
from openapi_checks import UndescribedError, check_response

if TYPE_CHECKING:
    from databases import Database

ROUTES = {
    ("get", "/v1/admin/audit"),
    ("get", "/v1/admin/organisation"),
    ("get", "/v1/admin/users"),
    ("get", "/v1/admin/groups"),
    ("post", "/v1/admin/groups"),
    ("delete", "/v1/admin/groups/{name}"),
    ("get", "/v1/admin/groups/{name}/members"),
    ("put", "/v1/admin/groups/{name}/members/{user}"),
    ("delete", "/v1/admin/groups/{name}/members/{user}"),
    ("get", "/v1/admin/limits"),
    ("put", "/v1/admin/limits"),
    ("delete", "/v1/admin/limits"),
    ("get", "/v1/admin/retention"),
    ("put", "/v1/admin/retention"),
    ("post", "/v1/admin/users"),
    ("get", "/v1/admin/users/{user}"),
    ("post", "/v1/admin/users/{user}:disable"),
    ("post", "/v1/admin/users/{user}:enable"),
    ("get", "/v1/operator/organisations"),
    ("post", "/v1/operator/organisations"),
    ("get", "/v1/operator/organisations/{organisation}"),
    ("delete", "/v1/operator/organisations/{organisation}"),
    ("put", "/v1/operator/organisations/{organisation}/plan"),
    ("put", "/v1/operator/organisations/{organisation}/audit-days"),
    ("post", "/v1/operator/organisations/{organisation}:suspend"),
    ("post", "/v1/operator/organisations/{organisation}:resume"),
    ("get", "/v1/operator/organisations/{organisation}/erasure"),
    ("get", "/v1/operator/organisations/{organisation}/limits"),
    ("put", "/v1/operator/organisations/{organisation}/limits/{measure}"),
    ("delete", "/v1/operator/organisations/{organisation}/limits/{measure}"),
    ("get", "/v1/operator/plans"),
    ("get", "/v1/operator/usage"),
    ("get", "/v1/operator/audit"),
    ("get", "/v1/erasures"),
    ("post", "/v1/erasures"),
    ("get", "/v1/erasures/{erasure_id}"),
    ("get", "/v1/users/{user}/export"),
    ("put", "/v1/admin/users/{user}/role"),
    ("get", "/v1/conversations/{conversation_id}/sharing"),
    ("put", "/v1/conversations/{conversation_id}/sharing"),
    ("put", "/v1/conversations/{conversation_id}/answers/{exchange_id}/feedback"),
    ("delete", "/v1/conversations/{conversation_id}/answers/{exchange_id}/feedback"),
    ("get", "/v1/feedback"),
    ("get", "/v1/auth/login"),
    ("get", "/v1/auth/callback"),
    ("get", "/v1/auth/callback/{issuer}"),
    ("get", "/v1/auth/session"),
    ("post", "/v1/auth/refresh"),
    ("post", "/v1/auth/logout"),
    ("get", "/v1/keys"),
    ("post", "/v1/keys"),
    ("get", "/v1/keys/{key_id}"),
    ("delete", "/v1/keys/{key_id}"),
    ("post", "/v1/keys/{key_id}:rotate"),
    ("post", "/v1/chat"),
    ("get", "/v1/chat/{run_id}/events"),
    ("get", "/v1/chat/{chat_id}/stream"),
    ("post", "/v1/chat/{run_id}/cancel"),
    ("post", "/api/chat/"),
    ("post", "/api/chat/query"),
    ("post", "/v1/search"),
    ("get", "/v1/chunks/{chunk_id}"),
    ("post", "/v1/verify"),
    ("post", "/v1/documents"),
    ("post", "/v1/documents:batch"),
    ("get", "/v1/documents"),
    ("put", "/v1/documents/{document_id}"),
    ("get", "/v1/documents/{document_id}"),
    ("patch", "/v1/documents/{document_id}"),
    ("delete", "/v1/documents/{document_id}"),
    ("post", "/v1/documents/{document_id}:retry"),
    ("get", "/v1/documents/{document_id}/content"),
    ("get", "/v1/documents/{document_id}/text"),
    ("get", "/v1/documents/{document_id}/events"),
    ("get", "/v1/documents/{document_id}/locate"),
    ("get", "/v1/documents/{document_id}/tables"),
    ("post", "/v1/documents/{document_id}/tables:query"),
    ("get", "/v1/collections"),
    ("post", "/v1/collections"),
    ("patch", "/v1/collections/{name}"),
    ("delete", "/v1/collections/{name}"),
    ("get", "/v1/collections/{name}/grants"),
    ("put", "/v1/collections/{name}/grants"),
    ("get", "/v1/spaces"),
    ("post", "/v1/spaces:prepare"),
    ("post", "/v1/spaces:switch"),
    ("put", "/v1/spaces/calibration"),
    ("get", "/v1/conversations"),
    ("get", "/v1/conversations/{conversation_id}"),
    ("get", "/v1/conversations/{conversation_id}/export"),
    ("patch", "/v1/conversations/{conversation_id}"),
    ("delete", "/v1/conversations/{conversation_id}"),
    ("get", "/v1/profiles"),
    ("get", "/v1/profiles/{name}"),
    ("put", "/v1/profiles/{name}"),
    ("delete", "/v1/profiles/{name}"),
    ("get", "/v1/usage"),
    ("get", "/v1/budgets"),
    ("get", "/v1/limits"),
    ("put", "/v1/budgets"),
    ("delete", "/v1/budgets"),
    ("post", "/api/rag-chat/stream"),
    ("post", "/api/rag-chat"),
    ("post", "/v1/chat/completions"),
    ("post", "/anthropic/v1/messages"),
    ("post", "/anthropic/v1/messages/count_tokens"),
    ("get", "/anthropic/v1/models"),
    ("get", "/anthropic/v1/models/{name}"),
    ("post", "/v1/responses"),
    ("get", "/v1/vector_stores"),
    ("post", "/v1/vector_stores"),
    ("get", "/v1/vector_stores/{name}"),
    ("delete", "/v1/vector_stores/{name}"),
    ("post", "/v1/vector_stores/{name}/search"),
    ("get", "/v1/vector_stores/{name}/files"),
    ("post", "/v1/vector_stores/{name}/files"),
    ("get", "/v1/vector_stores/{name}/files/{file_id}"),
    ("delete", "/v1/vector_stores/{name}/files/{file_id}"),
    ("get", "/v1/files"),
    ("post", "/v1/files"),
    ("get", "/v1/files/{file_id}"),
    ("delete", "/v1/files/{file_id}"),
    ("get", "/v1/files/{file_id}/content"),
    ("get", "/v1/responses/{response_id}"),
    ("delete", "/v1/responses/{response_id}"),
    ("post", "/v1/responses/{response_id}/cancel"),
    ("get", "/v1/responses/{response_id}/input_items"),
    ("post", "/v1/embeddings"),
    ("get", "/v1/models"),
    ("get", "/v1/models/{name}"),
    ("post", "/v1/rerank"),
    ("get", "/v1/providers"),
    ("patch", "/v1/providers"),
    ("get", "/v1/providers/{type}"),
    ("put", "/v1/providers/{type}"),
    ("delete", "/v1/providers/{type}"),
    ("get", "/v1/providers/{type}/{name}"),
    ("put", "/v1/providers/{type}/{name}"),
    ("delete", "/v1/providers/{type}/{name}"),
    ("post", "/v1/providers/{type}/{name}:activate"),
    ("post", "/v1/providers/{type}/{name}:test"),
    ("post", "/v1/providers/{type}:deactivate"),
    ("get", "/livez"),
    ("get", "/readyz"),
}


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


async def schema_of(gateway: Gateway) -> dict[str, Any]:
    response = await gateway.http.get("/openapi.json")
    assert response.status_code == 200
    return response.json()


def references(value: object) -> set[str]:
    return set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(value)))


async def test_every_route_is_described(gateway: Gateway) -> None:
    schema = await schema_of(gateway)
    routes = {(method, path) for path, operations in schema["paths"].items() for method in operations}
    assert routes == ROUTES
    assert schema["openapi"].startswith("3.1")
    assert schema["info"]["title"] == "Citewire"
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (method, path)
            assert operation["description"], (method, path)
            assert len(operation["tags"]) == 1, (method, path)


async def test_every_reference_resolves_and_no_schema_is_unused(gateway: Gateway) -> None:
    schema = await schema_of(gateway)
    known = {f"#/components/schemas/{name}" for name in schema["components"]["schemas"]}
    used = references(schema)
    assert used - known == set()
    assert known - used == set()


async def test_streams_are_described_with_their_events(gateway: Gateway) -> None:
    schema = await schema_of(gateway)
    streams = (
        "/v1/chat",
        "/api/chat/",
        "/api/rag-chat/stream",
        "/v1/chat/completions",
        "/v1/responses",
        "/anthropic/v1/messages",
    )
    for method, path in (*(("post", path) for path in streams), ("get", "/v1/documents/{document_id}/events")):
        content = schema["paths"][path][method]["responses"]["200"]["content"]["text/event-stream"]
        assert content["schema"]["x-event-schema"]["$ref"]
        assert content["example"].endswith("\n\n")
    chat = schema["paths"]["/v1/chat"]["post"]["responses"]["200"]["content"]
    assert set(chat) == {"text/event-stream", "application/json"}
    events = [event["properties"]["event"]["const"] for event in schema["components"]["schemas"]["ChatEvent"]["oneOf"]]
    assert events == [
        "conversation",
        "step",
        "decision",
        "citations",
        "token",
        "tool_call",
        "citation",
        "uncited",
        "sources",
        "assessment",
        "usage",
        "error",
        "done",
    ]


async def test_no_body_and_no_event_is_untyped(gateway: Gateway) -> None:
    schema = await schema_of(gateway)
    schemas = schema["components"]["schemas"]

    def resolve(value: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in value:
            value = schemas[value["$ref"].rpartition("/")[2]]
        return value

    def is_typed(value: dict[str, Any]) -> bool:
        resolved = resolve(value)
        if "oneOf" in resolved:
            return all(is_typed(member) for member in resolved["oneOf"])
        if resolved.get("type") == "object":
            return isinstance(resolved.get("properties"), dict)  # it may have no members
        return "type" in resolved or "const" in resolved or "enum" in resolved

    streams = 0
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            for status, response in operation["responses"].items():
                for media_type, content in response.get("content", {}).items():
                    assert is_typed(content["schema"]), (method, path, status, media_type)
                    if media_type == "text/event-stream":
                        streams += 1
                        frames = [name for name in content["schema"] if name.startswith("x-event-schema")]
                        for name in frames:
                            frame = resolve(content["schema"][name])
                            assert is_typed(frame), (method, path, name)
                            for member in map(resolve, frame["oneOf"]):
                                assert is_typed(member["properties"].get("data", member)), (method, path, name)
                elsewhere = {"204"} if method == "delete" else {"303", "204"}  # redirects have no content
                assert "content" in response or status in elsewhere, (method, path, status)
    assert streams == 9


@pytest.mark.parametrize(
    ("method", "url", "body"),
    [
        ("GET", "/livez", {"status": "fine"}),
        ("GET", "/livez", {"status": "ok", "more": 1}),
        ("GET", "/v1/models/x", {"id": "x", "object": "model", "created": 1}),
    ],
)
def test_an_undescribed_answer_is_detected(method: str, url: str, body: object) -> None:
    response = httpx.Response(200, json=body, request=httpx.Request(method, f"http://test{url}"))
    with pytest.raises(UndescribedError):
        check_response(response)


async def test_errors_are_problem_documents_everywhere(gateway: Gateway) -> None:
    schema = await schema_of(gateway)
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    content = response["content"]
                    assert set(content) == {"application/problem+json"}, (method, path, status)
                    assert content["application/problem+json"]["schema"] == {"$ref": "#/components/schemas/Problem"}


async def test_bodies_are_described(gateway: Gateway) -> None:
    schema = await schema_of(gateway)
    chat = schema["paths"]["/v1/chat"]["post"]
    assert chat["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/ChatRequest")
    assert [parameter["name"] for parameter in chat["parameters"]] == ["dialect", "Idempotency-Key"]
    upload = schema["paths"]["/v1/documents"]["post"]["requestBody"]["content"]
    assert set(upload) == {"multipart/form-data", "application/json"}
    assert {"question", "document_ids", "top_k", "stream", "profile"} <= set(
        schema["components"]["schemas"]["ChatRequest"]["properties"]
    )


async def test_keys_are_required_where_they_are_needed(gateway: Gateway) -> None:
    schema = await schema_of(gateway)
    assert schema["paths"]["/livez"]["get"]["security"] == []
    assert schema["paths"]["/v1/chat"]["post"]["security"] == [{"key": []}, {"session": []}]
    assert schema["components"]["securitySchemes"]["key"]["scheme"] == "bearer"


async def test_the_page_needs_nothing_from_elsewhere(gateway: Gateway) -> None:
    response = await gateway.http.get("/docs")
    assert response.status_code == 200
    page = response.text
    assert re.findall(r"""(?:src|href)=["']https?://""", page) == []
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self';" in policy
    assert "style-src 'self' 'unsafe-inline'" in policy
    files = re.findall(r"""(?:src|href)=["']([^"']+)["']""", page)
    assert files == ["docs/swagger-ui.css", "docs/swagger-ui-bundle.js", "docs/start.js"]
    for file in files:
        asset = await gateway.http.get(f"/{file}")
        assert asset.status_code == 200
        assert asset.headers["content-type"].startswith("text/css" if file.endswith(".css") else "text/javascript")
    assert 'url: "openapi.json"' in (await gateway.http.get("/docs/start.js")).text
    assert (await gateway.http.get("/docs/other.js")).json()["reason"] == "ROUTE_NOT_FOUND"
