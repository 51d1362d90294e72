"""Pages of other origins may call and read only if their origins are listed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import httpx
import pytest
from pydantic import ValidationError

from citewire_gateway.settings import GatewaySettings
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database

LISTED = "https://app.example.org"
OTHER = "https://elsewhere.example.org"
ORIGINS = f"{LISTED}, http://localhost:3000"
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,x-stainless-lang",
}
QUESTION = {"question": "How much did it grow?"}


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with (
        running_fakes() as fakes,
        running_gateway(
            database, fakes, cors_origins=f"{LISTED}, http://localhost:3000", max_json_bytes=2048
        ) as running,
    ):
        yield running


async def preflight(gateway: Gateway, origin: str, **headers: str) -> httpx.Response:
    return await gateway.http.options("/v1/chat", headers={"Origin": origin, **PREFLIGHT, **headers})


def varies(response: httpx.Response) -> set[str]:
    return {name.strip().lower() for name in response.headers.get("vary", "").split(",")}


async def test_a_preflight_of_a_listed_origin_is_granted(gateway: Gateway) -> None:
    for origin in (LISTED, "http://localhost:3000"):
        response = await preflight(gateway, origin)
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == origin
        assert "POST" in response.headers["access-control-allow-methods"]
        assert "DELETE" in response.headers["access-control-allow-methods"]
        assert "x-stainless-lang" in response.headers["access-control-allow-headers"]
        assert response.headers["access-control-max-age"] == "600"
        assert "access-control-allow-credentials" not in response.headers
        assert "origin" in varies(response)


async def test_a_preflight_of_another_origin_is_refused(gateway: Gateway) -> None:
    for origin in (OTHER, "null", f"{LISTED}.evil.example", f"{LISTED}:444"):
        response = await preflight(gateway, origin)
        assert response.status_code == 400
        assert "access-control-allow-origin" not in response.headers
        assert "origin" in varies(response)


async def test_an_answer_names_the_origin_and_the_readable_headers(gateway: Gateway) -> None:
    response = await gateway.http.post("/v1/chat", json=QUESTION, headers={"Origin": LISTED})
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == LISTED
    exposed = {name.strip().lower() for name in response.headers["access-control-expose-headers"].split(",")}
    assert {"x-request-id", "retry-after", "location", "content-disposition"} <= exposed
    assert "origin" in varies(response)


async def test_an_answer_to_an_unlisted_origin_or_none_names_no_origin(gateway: Gateway) -> None:
    """It varies by origin all the same, so that a cache doesn't serve it to a page of a listed origin."""
    for headers in ({"Origin": OTHER}, {}):
        response = await gateway.http.get("/v1/profiles", headers=headers)
        assert "access-control-allow-origin" not in response.headers
        assert "origin" in varies(response)


async def test_vary_keeps_its_other_values(gateway: Gateway) -> None:
    response = await gateway.http.get("/v1/usage", headers={"Origin": LISTED})
    assert varies(response) == {"accept", "origin"}


async def test_a_page_can_read_errors_wherever_they_arise(gateway: Gateway) -> None:
    cases = [
        await gateway.http.post("/v1/chat", json={}, headers={"Origin": LISTED}),
        await gateway.http.post("/v1/chat", json={"question": "x" * 4096}, headers={"Origin": LISTED}),
        await gateway.http.get("/v1/nothing", headers={"Origin": LISTED}),
    ]
    assert [response.status_code for response in cases] == [422, 413, 404]
    for response in cases:
        assert response.headers["access-control-allow-origin"] == LISTED
        assert response.json()["request_id"] == response.headers["x-request-id"]


async def test_without_listed_origins_no_cors_headers_are_sent(database: Database) -> None:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as gateway:
        assert (await preflight(gateway, LISTED)).status_code == 405
        response = await gateway.http.get("/v1/profiles")
        assert not [name for name in response.headers if name.startswith("access-control")]
        assert "origin" not in varies(response)


async def test_credentials_are_allowed_if_the_operator_says_so(database: Database) -> None:
    settings = {"cors_origins": LISTED, "cors_credentials": True, "cors_seconds": 5}
    async with running_fakes() as fakes, running_gateway(database, fakes, **settings) as gateway:
        granted = await preflight(gateway, LISTED)
        answer = await gateway.http.get("/v1/profiles", headers={"Origin": LISTED})
    assert granted.headers["access-control-max-age"] == "5"
    for response in (granted, answer):
        assert response.headers["access-control-allow-credentials"] == "true"
        assert response.headers["access-control-allow-origin"] == LISTED


async def test_every_origin_may_call_if_the_list_is_a_star(database: Database) -> None:
    async with running_fakes() as fakes, running_gateway(database, fakes, cors_origins="*", auth="keys") as gateway:
        granted = await preflight(gateway, OTHER)
        refused = await gateway.http.get("/v1/profiles", headers={"Origin": OTHER})
    assert granted.headers["access-control-allow-origin"] == "*"
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "*")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"cors_origins": "https://app.example.org/"}, "CORS_ORIGINS"),
        ({"cors_origins": "app.example.org"}, "CORS_ORIGINS"),
        ({"cors_origins": "https://App.example.org"}, "CORS_ORIGINS"),
        ({"cors_origins": "*, https://app.example.org"}, "CORS_ORIGINS"),
        ({"cors_origins": "*", "cors_credentials": True}, "CORS_CREDENTIALS"),
    ],
)
def test_a_wrong_origin_ends_the_start(settings: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError, match=f"CITEWIRE_GATEWAY_{named}"):
        GatewaySettings.model_validate({"dsn": "", "auth": "keys", **settings})
