"""The page at `/`: its files, their types and caching, and what a browser may do with them."""

from __future__ import annotations

import gzip
import re
from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway_fake_servers import running_fakes
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database

PAGE = Path(str(resources.files("citewire_gateway"))) / "page"
FIRST_VIEW_BYTES = 60_000
"""The most bytes of compressed script to load before a user can ask a question."""


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


def linked_files(html: str) -> list[str]:
    """The files that the page itself links."""
    return [path.removeprefix("./") for path in re.findall(r'(?:src|href)="(\./[^"]+)"', html)]


async def test_the_page_and_all_that_it_links_are_served(gateway: Gateway, subtests: pytest.Subtests) -> None:
    page = await gateway.http.get("/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["cache-control"] == "no-cache"
    types = {
        "js": "text/javascript",
        "mjs": "text/javascript",
        "css": "text/css",
        "svg": "image/svg+xml",
        "txt": "text/plain",
        "pfb": "application/octet-stream",
        "bcmap": "application/octet-stream",
    }
    files = [path.relative_to(PAGE).as_posix() for path in (PAGE / "assets").rglob("*.*") if path.is_file()]
    assert {path.rpartition(".")[2] for path in files} == {"js", "mjs", "css", "svg", "pfb", "bcmap"}
    for path in {*linked_files(page.text), *files, "licences.txt"}:
        with subtests.test(path=path):
            response = await gateway.http.get(f"/{path}")
            assert response.status_code == 200
            assert response.headers["content-type"].startswith(types[path.rpartition(".")[2]])
            caching = "public, max-age=31536000, immutable" if path.startswith("assets/") else "no-cache"
            assert response.headers["cache-control"] == caching
            assert response.content == (PAGE / path).read_bytes()


async def test_no_text_can_become_a_script(gateway: Gateway) -> None:
    page = await gateway.http.get("/")
    policy = dict(rule.split(" ", 1) for rule in page.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "img-src", "font-src", "connect-src")} == {"'self'"}
    assert (policy["require-trusted-types-for"], policy["trusted-types"]) == ("'script'", "citewire-worker")
    assert "unsafe" not in page.headers["content-security-policy"]
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", page.text), "nothing is inline"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["x-frame-options"] == "DENY"


async def test_a_cached_page_is_not_sent_again(gateway: Gateway) -> None:
    first = await gateway.http.get("/", headers={"Accept-Encoding": "identity"})
    again = await gateway.http.get("/", headers={"If-None-Match": f'"other", {first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert "content-security-policy" in again.headers
    assert (await gateway.http.get("/", headers={"If-None-Match": '"other"'})).status_code == 200


async def test_a_link_may_contain_a_question(gateway: Gateway) -> None:
    assert (await gateway.http.get("/", params={"q": "How much?", "from": "elsewhere"})).status_code == 200


async def test_the_page_is_compressed_if_the_client_accepts_it(gateway: Gateway) -> None:
    plain = await gateway.http.get("/", headers={"Accept-Encoding": "identity"})
    packed = await gateway.http.get("/", headers={"Accept-Encoding": "gzip, br"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert packed.content == plain.content


async def test_the_page_allows_only_reading(gateway: Gateway) -> None:
    for path in ("/", f"/{linked_files((await gateway.http.get('/')).text)[-1]}"):
        head = await gateway.http.head(path, headers={"Accept-Encoding": "identity"})
        whole = await gateway.http.get(path, headers={"Accept-Encoding": "identity"})
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(len(whole.content))
        refused = await gateway.http.post(path)
        assert (refused.status_code, refused.json()["reason"]) == (405, "METHOD_NOT_ALLOWED")
    for path in ("/assets/other.js", "/assets/../index.html", "/assets/%2e%2e%2findex.html", "/index.html"):
        missing = await gateway.http.get(path)
        assert (missing.status_code, missing.json()["reason"]) == (404, "ROUTE_NOT_FOUND"), path


def test_the_first_view_is_small() -> None:
    scripts = [path for path in linked_files((PAGE / "index.html").read_text()) if path.endswith(".js")]
    assert scripts
    packed = sum(len(gzip.compress((PAGE / path).read_bytes())) for path in scripts)
    assert packed <= FIRST_VIEW_BYTES, f"{packed} bytes of script"
