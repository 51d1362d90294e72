"""Uploads to CorpusService over a real gRPC server and a real Postgres: content, limits, interruptions, retries."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator

import psycopg
import pytest
from citewire.retriever.v1 import corpus_pb2 as pb
from opentelemetry import trace

from citewire_kit import client
from citewire_kit.errors import CitewireError, Code
from citewire_kit.tenant import use_request_id, use_tenant
from corpus_calls import LIMITS, MIB, MINE, UPLOAD_LIMIT, assert_nothing_stored, metadata, rows
from retriever_process import Caller


@pytest.fixture
def retriever_settings() -> dict[str, int]:
    return LIMITS


async def test_an_upload_is_stored_with_its_bytes_and_a_job(me: Caller, owner: psycopg.Connection) -> None:
    data = bytes(range(256)) * 5000  # not a multiple of the part size
    header = pb.UploadHeader(
        file_name="report.pdf",
        media_type="application/pdf",
        title="The report",
        collection="Reports",
        tags=["b", "a", "b"],
        metadata=metadata(year=2024, deep={"list": [1, "two", None, True, 1.5]}),
        url="https://example.org/report.pdf",
    )
    span = trace.NonRecordingSpan(trace.SpanContext(trace_id=0xABC, span_id=0xDEF, is_remote=False))
    with use_request_id("request-7"), trace.use_span(span):
        document = await me.upload(header, data[:1000], b"", data[1000:])
    assert document.document_id > 0
    assert document.status == pb.DOCUMENT_STATUS_PENDING
    assert (document.version, document.live_version, document.chunks) == (1, 0, 0)
    assert (document.title, document.file_name, document.type) == ("The report", "report.pdf", "file")
    assert (document.collection, list(document.tags), document.owner) == ("Reports", ["b", "a"], "ada")
    assert document.url == "https://example.org/report.pdf"
    assert document.metadata == metadata(year=2024, deep={"list": [1, "two", None, True, 1.5]})
    assert document.size_bytes == len(data)
    assert document.sha256 == hashlib.sha256(data).hexdigest()
    assert not document.HasField("pages")
    assert not document.HasField("error")
    assert await me.get(document.document_id) == document

    jobs = rows(
        owner,
        "SELECT org_id, document_id, version, kind, state, attempts, user_id, plan,"
        " trace_context ->> 'x-request-id', substr(trace_context ->> 'traceparent', 1, 35) FROM corpus.ingest_jobs",
    )
    traced = f"00-{0xABC:032x}"
    assert jobs == [("acme", document.document_id, 1, "ingest", "queued", 0, "ada", "pro", "request-7", traced)]
    parts = rows(owner, "SELECT part, length(bytes) FROM corpus.originals ORDER BY part")
    assert parts == [(0, MIB), (1, len(data) - MIB)]

    responses = await me.stream(
        me.running.corpus.DownloadDocument, pb.DownloadDocumentRequest(document_id=document.document_id)
    )
    assert responses[0].header == pb.DownloadHeader(
        file_name="report.pdf",
        media_type="application/pdf",
        size_bytes=len(data),
        sha256=document.sha256,
        version=1,
    )
    assert b"".join(response.data for response in responses[1:]) == data
    assert all(0 < len(response.data) <= MIB for response in responses[1:])


async def test_an_upload_without_a_title_is_named_after_its_file(me: Caller) -> None:
    document = await me.upload(pb.UploadHeader(file_name="notes.md", title="  "), b"text")
    assert document.title == "notes.md"


async def test_a_new_version_keeps_fields_that_it_does_not_set(me: Caller, owner: psycopg.Connection) -> None:
    header = pb.UploadHeader(file_name="a.md", title="First", collection="C", tags=["t"], metadata=metadata(a=1))
    first = await me.upload(header, b"one")
    second = await me.upload(pb.UploadHeader(document_id=first.document_id, file_name="b.md"), b"two")
    assert second.document_id == first.document_id
    assert (second.version, second.title, second.collection) == (2, "First", "C")
    assert (second.file_name, list(second.tags), second.metadata) == ("b.md", ["t"], metadata(a=1))
    third = await me.upload(
        pb.UploadHeader(document_id=first.document_id, file_name="b.md", title="Third", metadata=metadata()), b"three"
    )
    assert (third.version, third.title, third.metadata) == (3, "Third", metadata())
    assert rows(owner, "SELECT version FROM corpus.ingest_jobs ORDER BY version") == [(1,), (2,), (3,)]

    request = pb.DownloadDocumentRequest(document_id=first.document_id, version=1)
    responses = await me.stream(me.running.corpus.DownloadDocument, request)
    assert responses[0].header.file_name == "a.md"
    assert responses[1].data == b"one"


async def test_typed_text_is_stored(me: Caller) -> None:
    document = await me.put("An article", content="# Grüße 𝒳", tags=["x"], collection="Feed", url="https://x.test")
    assert (document.type, document.media_type, document.file_name) == ("article", "text/markdown", "")
    assert document.size_bytes == len("# Grüße 𝒳".encode())
    request = pb.DownloadDocumentRequest(document_id=document.document_id)
    responses = await me.stream(me.running.corpus.DownloadDocument, request)
    assert responses[1].data.decode() == "# Grüße 𝒳"
    again = await me.put("An article", document_id=document.document_id, content="new")
    assert (again.version, again.url, list(again.tags)) == (2, "https://x.test", ["x"])


async def test_empty_and_too_large_content_is_refused_and_leaves_nothing(me: Caller, owner: psycopg.Connection) -> None:
    header = pb.UploadHeader(file_name="f.txt", collection="New")
    for parts in ([], [b""], [b"", b""]):
        with pytest.raises(CitewireError) as empty:
            await me.upload(header, *parts)
        assert (empty.value.code, empty.value.reason) == (Code.INVALID_ARGUMENT, "EMPTY_UPLOAD")
    with pytest.raises(CitewireError) as large:
        await me.upload(header, *[b"x" * MIB] * 3, b"x")
    assert (large.value.code, large.value.reason) == (Code.RESOURCE_EXHAUSTED, "TOO_LARGE")
    assert large.value.metadata == {"limit_bytes": str(UPLOAD_LIMIT)}
    with pytest.raises(CitewireError) as large_text:
        await me.put(content="é" * 501)
    assert large_text.value.metadata == {"limit_bytes": "1000"}
    with pytest.raises(CitewireError) as blank:
        await me.put(content=" \n\t")
    assert blank.value.reason == "EMPTY_UPLOAD"
    assert_nothing_stored(owner)
    assert (await me.upload(header, *[b"x" * MIB] * 3)).size_bytes == UPLOAD_LIMIT


@pytest.mark.parametrize(
    ("head", "name", "says"),
    [
        (b"GIF89a", "logo.gif", "The file is a GIF image"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "letter.doc", r"an old Word document: save it as \.docx"),
    ],
)
async def test_an_unsupported_format_is_refused_at_upload(
    me: Caller, owner: psycopg.Connection, head: bytes, name: str, says: str
) -> None:
    for parts in ([head], [head[:3], head[3:] + bytes(100_000), b"x" * MIB]):
        with pytest.raises(CitewireError, match=says) as refused:
            await me.upload(pb.UploadHeader(file_name=name), *parts)
        assert (refused.value.code, refused.value.reason) == (Code.INVALID_ARGUMENT, "UNSUPPORTED_FORMAT")
        assert "Word (DOCX)" in refused.value.metadata["supported"]
    assert_nothing_stored(owner)


async def test_an_interrupted_upload_leaves_nothing(me: Caller, owner: psycopg.Connection) -> None:
    half_way = asyncio.Event()

    async def messages() -> AsyncGenerator[pb.UploadDocumentRequest]:
        yield pb.UploadDocumentRequest(header=pb.UploadHeader(file_name="f.txt"))
        yield pb.UploadDocumentRequest(data=b"first half")
        half_way.set()
        await asyncio.Event().wait()

    with use_tenant(MINE):
        call = asyncio.create_task(client.client_stream(me.running.corpus.UploadDocument, messages(), timeout=30))
        await half_way.wait()
        await me.running.in_flight(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    await me.running.in_flight(0)
    assert_nothing_stored(owner)


async def test_an_upload_must_begin_with_its_only_header(me: Caller, owner: psycopg.Connection) -> None:
    data, header = pb.UploadDocumentRequest(data=b"x"), pb.UploadDocumentRequest(header=pb.UploadHeader(file_name="f"))

    async def send(*messages: pb.UploadDocumentRequest) -> None:
        async def requests() -> AsyncGenerator[pb.UploadDocumentRequest]:
            for message in messages:
                yield message

        with use_tenant(MINE):
            await client.client_stream(me.running.corpus.UploadDocument, requests(), timeout=10)

    for messages, reason in (
        ([data], "INVALID_FIELD"),
        ([header, data, header], "INVALID_FIELD"),
        ([pb.UploadDocumentRequest()], "INVALID_FIELD"),
        ([], "EMPTY_UPLOAD"),
    ):
        with pytest.raises(CitewireError) as refused:
            await send(*messages)
        assert (refused.value.code, refused.value.reason) == (Code.INVALID_ARGUMENT, reason)
    assert_nothing_stored(owner)


async def test_typed_text_needs_type_and_title(me: Caller) -> None:
    with pytest.raises(CitewireError) as refused:
        await me.put(title=" ", type="", content="nul \0")
    assert {violation.field for violation in refused.value.violations} == {"type", "title", "content"}


async def test_a_repeated_request_creates_nothing(me: Caller, them: Caller, owner: psycopg.Connection) -> None:
    header = pb.UploadHeader(file_name="a.md", request_id="r-1")
    first = await me.upload(header, b"text")
    again, beside = await asyncio.gather(me.upload(header, b"text"), me.upload(header, b"text"))
    assert first.document_id == again.document_id == beside.document_id
    assert rows(owner, "SELECT count(*) FROM corpus.documents") == [(1,)]
    assert (await them.upload(header, b"text")).document_id != first.document_id
    version = pb.UploadHeader(file_name="a.md", request_id="r-2", document_id=first.document_id)
    assert [(await me.upload(version, b"new")).version for _ in range(2)] == [2, 2]
    owner.execute("UPDATE corpus.versions SET created_at = now() - interval '25 hours'")
    assert (await me.upload(header, b"text")).document_id != first.document_id


async def test_simultaneous_repeats_create_one_document(me: Caller, owner: psycopg.Connection) -> None:
    header = pb.UploadHeader(file_name="a.md", request_id="r-1")
    made = await asyncio.gather(*(me.upload(header, b"text") for _ in range(8)))
    assert len({entry.document_id for entry in made}) == 1
    assert rows(owner, "SELECT count(*) FROM corpus.documents") == [(1,)]
