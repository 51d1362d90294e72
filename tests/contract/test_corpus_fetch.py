"""Uploads that name an address, over a real gRPC server and a real Postgres: the retriever fetches the file."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import psycopg
import pytest
from aiohttp import web
from citewire.retriever.v1 import corpus_pb2 as pb

from citewire_kit.errors import CitewireError, Code
from corpus_calls import LIMITS, MIB, MINE, UPLOAD_LIMIT, assert_nothing_stored
from local_http import serving
from retriever_process import Caller, running_retriever

if TYPE_CHECKING:
    from databases import Database

REPORT = b"%PDF-1.7 " + bytes(range(256)) * 5000


@pytest.fixture
def retriever_settings() -> dict[str, object]:
    return {**LIMITS, "fetch_allow": "127.0.0.1", "fetch_seconds": 2}


@pytest.fixture
async def site() -> AsyncIterator[str]:
    """A web server: `/report` is a PDF, `/old` redirects to it, `/large` is too large, `/gif` isn't a document."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/old":
            raise web.HTTPFound("/report")
        if request.path == "/slow":
            await asyncio.sleep(30)
        bodies = {"/report": REPORT, "/empty": b"", "/large": bytes(UPLOAD_LIMIT + 1), "/gif": b"GIF89a" + bytes(MIB)}
        if request.path not in bodies:
            raise web.HTTPNotFound
        name = {"Content-Disposition": "attachment; filename*=UTF-8''Bericht%202026.pdf"}
        headers = name if request.path == "/report" else {}
        return web.Response(body=bodies[request.path], content_type="application/pdf", headers=headers)

    app = web.Application()
    app.router.add_get("/{tail:.*}", answer)
    async with serving(app) as port:
        yield f"http://127.0.0.1:{port}"


async def test_a_file_is_fetched_and_stored_with_its_address(me: Caller, site: str) -> None:
    document = await me.upload(pb.UploadHeader(source_url=f"{site}/old?year=2026", collection="Web", tags=["t"]))
    assert (document.file_name, document.media_type) == ("Bericht 2026.pdf", "application/pdf")
    assert (document.url, document.collection, list(document.tags)) == (f"{site}/old?year=2026", "Web", ["t"])
    assert (document.size_bytes, document.sha256) == (len(REPORT), hashlib.sha256(REPORT).hexdigest())
    assert document.status == pb.DOCUMENT_STATUS_PENDING

    header = pb.UploadHeader(
        document_id=document.document_id,
        source_url=f"{site}/report",
        file_name="web/own.pdf",
        media_type="application/x-own",
        url="https://example.org/shown",
    )
    second = await me.upload(header)
    assert (second.version, second.file_name, second.media_type, second.url) == (
        2,
        "web/own.pdf",
        "application/x-own",
        "https://example.org/shown",
    )
    request = pb.DownloadDocumentRequest(document_id=document.document_id, version=2)
    responses = await me.stream(me.running.corpus.DownloadDocument, request)
    assert b"".join(response.data for response in responses[1:]) == REPORT


async def test_a_repeated_request_creates_nothing(me: Caller, site: str, owner: psycopg.Connection) -> None:
    header = pb.UploadHeader(source_url=f"{site}/report", request_id="r-1")
    assert (await me.upload(header)).document_id == (await me.upload(header)).document_id
    assert owner.execute("SELECT count(*) FROM corpus.versions").fetchone() == (1,)


async def test_a_failed_fetch_leaves_nothing(me: Caller, site: str, owner: psycopg.Connection) -> None:
    expected = {
        f"{site}/gone": (Code.INVALID_ARGUMENT, "SOURCE_FAILED"),
        f"{site}/slow": (Code.INVALID_ARGUMENT, "SOURCE_FAILED"),
        f"{site}/empty": (Code.INVALID_ARGUMENT, "EMPTY_UPLOAD"),
        f"{site}/gif": (Code.INVALID_ARGUMENT, "UNSUPPORTED_FORMAT"),
        f"{site}/large": (Code.RESOURCE_EXHAUSTED, "TOO_LARGE"),
        "http://169.254.169.254/latest/meta-data": (Code.INVALID_ARGUMENT, "INVALID_FIELD"),
        "ftp://example.org/a": (Code.INVALID_ARGUMENT, "INVALID_FIELD"),
    }
    for address, error in expected.items():
        with pytest.raises(CitewireError) as refused:
            await me.upload(pb.UploadHeader(source_url=address, collection="New"))
        assert (refused.value.code, refused.value.reason) == error, address
    with pytest.raises(CitewireError) as missing:
        await me.upload(pb.UploadHeader(source_url=f"{site}/report", document_id=12345))
    assert missing.value.reason == "DOCUMENT_NOT_FOUND"
    assert_nothing_stored(owner)


async def test_no_data_may_follow_an_address(me: Caller, site: str, owner: psycopg.Connection) -> None:
    with pytest.raises(CitewireError) as refused:
        await me.upload(pb.UploadHeader(source_url=f"{site}/report"), b"data")
    assert [violation.field for violation in refused.value.violations] == ["source_url"]
    with pytest.raises(CitewireError) as unnamed:
        await me.upload(pb.UploadHeader(), b"data")
    assert [violation.field for violation in unnamed.value.violations] == ["file_name"]
    assert_nothing_stored(owner)


async def test_an_operator_may_switch_fetching_off(database: Database, site: str, owner: psycopg.Connection) -> None:
    async with running_retriever(database, fetch=False, fetch_allow="127.0.0.1") as running:
        with pytest.raises(CitewireError) as refused:
            await Caller(running, MINE).upload(pb.UploadHeader(source_url=f"{site}/report"))
    assert (refused.value.reason, "doesn't fetch files" in refused.value.message) == ("SOURCE_FAILED", True)
    assert_nothing_stored(owner)
