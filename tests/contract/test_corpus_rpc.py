"""CorpusService over a real gRPC server and a real Postgres: documents and their content, errors and their reasons."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
from citewire.retriever.v1 import corpus_pb2 as pb
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct
from opentelemetry import trace
from psycopg import sql

from citewire_kit import client
from citewire_kit.errors import CitewireError, Code
from citewire_kit.tenant import Tenant, use_request_id, use_tenant
from retriever_process import Caller, running_retriever

if TYPE_CHECKING:
    from conftest import Database

MINE = Tenant("acme", "ada", "pro")
THEIRS = Tenant("other", "eve", "pro")
MIB = 1024 * 1024
LIMIT = 3 * MIB


@pytest.fixture
async def me(database: Database) -> AsyncIterator[Caller]:
    limits = {"upload_max_bytes": LIMIT, "text_max_bytes": 1000, "watch_poll_seconds": 30}
    async with running_retriever(database, **limits) as running:
        yield Caller(running, MINE)


@pytest.fixture
def them(me: Caller) -> Caller:
    return Caller(me.running, THEIRS)


@pytest.fixture
def owner(database: Database) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        yield connection


def rows(owner: psycopg.Connection, statement: str) -> list[tuple[object, ...]]:
    return owner.execute(statement.encode()).fetchall()


def assert_nothing_stored(owner: psycopg.Connection) -> None:
    for table in ("documents", "versions", "originals", "ingest_jobs", "collections"):
        statement = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier("corpus", table))
        assert owner.execute(statement).fetchone() == (0,), table


def metadata(**values: object) -> Struct:
    struct = Struct()
    struct.update(cast("dict[str, Any]", values))
    return struct


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


async def test_the_text_of_a_version_is_what_spans_count_from(me: Caller, owner: psycopg.Connection) -> None:
    document = await me.upload(pb.UploadHeader(file_name="a.md"), b"original")
    request = pb.DownloadDocumentRequest(document_id=document.document_id, text=True)
    with pytest.raises(CitewireError) as early:
        await me.stream(me.running.corpus.DownloadDocument, request)
    assert (early.value.code, early.value.reason) == (Code.FAILED_PRECONDITION, "WRONG_STATE")
    parts = [f"{number} ü🙂\r\n" for number in range(9)]
    starts = [sum(map(len, parts[:number])) for number in range(9)]
    owner.execute("UPDATE corpus.versions SET status = 'ready' WHERE document_id = %s", (document.document_id,))
    for number, (start, part) in enumerate(zip(starts, parts, strict=True)):
        owner.execute(
            "INSERT INTO corpus.texts (org_id, document_id, version, part, char_start, body)"
            " SELECT org_id, document_id, version, %s, %s, %s FROM corpus.versions WHERE document_id = %s",
            (number, start, part, document.document_id),
        )
    responses = await me.stream(me.running.corpus.DownloadDocument, request)
    data = b"".join(response.data for response in responses[1:])
    assert data.decode() == "".join(parts)
    assert responses[0].header == pb.DownloadHeader(
        file_name="a.md", media_type="text/plain; charset=utf-8", size_bytes=len(data), version=1
    )
    request.version = 2
    with pytest.raises(CitewireError) as missing:
        await me.stream(me.running.corpus.DownloadDocument, request)
    assert missing.value.reason == "VERSION_NOT_FOUND"


async def test_an_upload_without_a_title_is_called_as_its_file(me: Caller) -> None:
    document = await me.upload(pb.UploadHeader(file_name="notes.md", title="  "), b"text")
    assert document.title == "notes.md"


async def test_a_new_version_keeps_what_it_does_not_say(me: Caller, owner: psycopg.Connection) -> None:
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
    assert large.value.metadata == {"limit_bytes": str(LIMIT)}
    with pytest.raises(CitewireError) as large_text:
        await me.put(content="é" * 501)
    assert large_text.value.metadata == {"limit_bytes": "1000"}
    with pytest.raises(CitewireError) as blank:
        await me.put(content=" \n\t")
    assert blank.value.reason == "EMPTY_UPLOAD"
    assert_nothing_stored(owner)
    assert (await me.upload(header, *[b"x" * MIB] * 3)).size_bytes == LIMIT


async def test_a_broken_off_upload_leaves_nothing(me: Caller, owner: psycopg.Connection) -> None:
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


async def test_an_upload_must_begin_with_its_header_and_have_one(me: Caller, owner: psycopg.Connection) -> None:
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


WRONG_HEADERS: list[tuple[str, pb.UploadHeader]] = [
    ("file_name", pb.UploadHeader()),
    ("file_name", pb.UploadHeader(file_name="a/b.txt")),
    ("file_name", pb.UploadHeader(file_name="x" * 256)),
    ("title", pb.UploadHeader(file_name="f", title="nul \0")),
    ("title", pb.UploadHeader(file_name="f", title="x" * 501)),
    ("tags[1]", pb.UploadHeader(file_name="f", tags=["ok", "nul \0"])),
    ("tags[0]", pb.UploadHeader(file_name="f", tags=[""])),
    ("tags", pb.UploadHeader(file_name="f", tags=[str(n) for n in range(51)])),
    ("metadata.a.b[0]", pb.UploadHeader(file_name="f", metadata=metadata(a={"b": ["nul \0"]}))),
    ("metadata", pb.UploadHeader(file_name="f", metadata=metadata(**{"nul \0": 1}))),
    ("metadata.a", pb.UploadHeader(file_name="f", metadata=metadata(a=float("nan")))),
    ("metadata", pb.UploadHeader(file_name="f", metadata=metadata(a="x" * 65536))),
    ("collection", pb.UploadHeader(file_name="f", collection=" ")),
    ("collection", pb.UploadHeader(file_name="f", collection="x" * 129)),
    ("type", pb.UploadHeader(file_name="f", type="book")),
    ("url", pb.UploadHeader(file_name="f", url="x" * 2049)),
    ("document_id", pb.UploadHeader(file_name="f", document_id=0)),
]


async def test_wrong_fields_are_named(me: Caller, owner: psycopg.Connection) -> None:
    for field, header in WRONG_HEADERS:
        with pytest.raises(CitewireError) as refused:
            await me.upload(header, b"data")
        assert (refused.value.code, refused.value.reason) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")
        assert [violation.field for violation in refused.value.violations] == [field]
    assert_nothing_stored(owner)


async def test_typed_text_needs_type_and_title(me: Caller) -> None:
    with pytest.raises(CitewireError) as refused:
        await me.put(title=" ", type="", content="nul \0")
    assert {violation.field for violation in refused.value.violations} == {"type", "title", "content"}


async def test_unknown_and_foreign_documents_are_one_and_the_same(me: Caller, them: Caller) -> None:
    theirs = (await them.put()).document_id
    corpus = me.running.corpus
    changed = pb.UpdateDocumentRequest(
        document=pb.Document(document_id=theirs, title="Mine"), update_mask=FieldMask(paths=["title"])
    )
    for document_id in (theirs, 2**53):
        changed.document.document_id = document_id
        errors: list[CitewireError] = []
        for call in (
            me.unary(corpus.GetDocument, pb.GetDocumentRequest(document_id=document_id)),
            me.unary(corpus.DeleteDocument, pb.DeleteDocumentRequest(document_id=document_id)),
            me.unary(corpus.RetryDocument, pb.RetryDocumentRequest(document_id=document_id)),
            me.unary(corpus.UpdateDocument, changed),
            me.stream(corpus.WatchDocument, pb.WatchDocumentRequest(document_id=document_id)),
            me.stream(corpus.DownloadDocument, pb.DownloadDocumentRequest(document_id=document_id)),
            me.upload(pb.UploadHeader(file_name="f", document_id=document_id), b"x"),
            me.put(document_id=document_id),
        ):
            with pytest.raises(CitewireError) as refused:
                await call
            errors.append(refused.value)
        assert {(error.code, error.reason) for error in errors} == {(Code.NOT_FOUND, "DOCUMENT_NOT_FOUND")}
        assert {error.metadata["document_ids"] for error in errors} == {str(document_id)}
        assert {error.message for error in errors} == {f"no such document: {document_id}"}
    assert (await them.get(theirs)).title == "Title"
    with pytest.raises(CitewireError) as missing:
        await me.get(0)
    assert missing.value.reason == "INVALID_FIELD"


async def test_an_update_changes_what_the_mask_names(me: Caller, owner: psycopg.Connection) -> None:
    document = await me.put("Old", tags=["a"], collection="One", url="https://old.test", metadata=metadata(a=1))
    wanted = pb.Document(document_id=document.document_id, title="ignored", tags=["b", "c"], metadata=metadata(b=2))

    async def update(*paths: str) -> pb.Document:
        request = pb.UpdateDocumentRequest(document=wanted, update_mask=FieldMask(paths=paths))
        return (await me.unary(me.running.corpus.UpdateDocument, request)).document

    changed = await update("tags", "metadata")
    assert (changed.title, list(changed.tags), changed.metadata) == ("Old", ["b", "c"], metadata(b=2))
    assert (changed.collection, changed.url, changed.version) == ("One", "https://old.test", 1)
    assert changed.updated_at.ToDatetime() > document.updated_at.ToDatetime()
    assert changed.created_at == document.created_at
    emptied = await update("collection", "url")
    assert (emptied.collection, emptied.url) == ("", "")
    wanted.collection = "Two"
    assert (await update("collection")).collection == "Two"

    wanted.title = "New"
    assert ((await update("title")).title, (await me.get(document.document_id)).version) == ("New", 1)  # still pending
    owner.execute("UPDATE corpus.versions SET status = 'ready'")
    owner.execute("UPDATE corpus.documents SET live_version = 1")
    wanted.title = "Newer"
    renamed = await update("title")
    assert (renamed.title, renamed.version, renamed.live_version) == ("Newer", 2, 1)
    assert renamed.status == pb.DOCUMENT_STATUS_PENDING
    assert (renamed.sha256, renamed.size_bytes) == (document.sha256, document.size_bytes)
    assert (await update("title")).version == 2  # nothing changes
    assert rows(owner, "SELECT version FROM corpus.ingest_jobs ORDER BY 1") == [(1,), (2,)]
    assert rows(owner, "SELECT version, bytes FROM corpus.originals ORDER BY 1") == [(1, b"# Words"), (2, b"# Words")]

    for paths in ([], ["owner"], ["title", "version"]):
        with pytest.raises(CitewireError) as refused:
            await update(*paths)
        assert [violation.field for violation in refused.value.violations] == ["update_mask"]
    wanted.title = " "
    with pytest.raises(CitewireError) as blank:
        await update("title")
    assert [violation.field for violation in blank.value.violations] == ["document.title"]


async def test_a_deleted_document_leaves_nothing(me: Caller, owner: psycopg.Connection) -> None:
    document = await me.upload(pb.UploadHeader(file_name="f"), b"x")
    request = pb.DeleteDocumentRequest(document_id=document.document_id)
    await me.unary(me.running.corpus.DeleteDocument, request)
    assert_nothing_stored(owner)


async def test_only_what_has_failed_is_tried_again(me: Caller, owner: psycopg.Connection) -> None:
    document = await me.put()
    request = pb.RetryDocumentRequest(document_id=document.document_id)
    with pytest.raises(CitewireError) as refused:
        await me.unary(me.running.corpus.RetryDocument, request)
    assert (refused.value.code, refused.value.reason) == (Code.FAILED_PRECONDITION, "WRONG_STATE")

    owner.execute(
        "UPDATE corpus.versions SET status = 'failed', error_code = 'CORRUPT', error_message = 'It is cut.',"
        " attempt = 3"
    )
    owner.execute("UPDATE corpus.ingest_jobs SET state = 'failed', attempts = 3, fence = 3")
    failed = await me.get(document.document_id)
    assert failed.status == pb.DOCUMENT_STATUS_FAILED
    assert failed.error == pb.IngestError(code="CORRUPT", message="It is cut.")

    retried = (await me.unary(me.running.corpus.RetryDocument, request)).document
    assert retried.status == pb.DOCUMENT_STATUS_PENDING
    assert not retried.HasField("error")
    assert rows(owner, "SELECT state, attempts, fence FROM corpus.ingest_jobs") == [("queued", 0, 4)]


async def test_a_version_that_does_not_exist_is_not_found(me: Caller) -> None:
    document = await me.put()
    request = pb.DownloadDocumentRequest(document_id=document.document_id, version=2)
    with pytest.raises(CitewireError) as refused:
        await me.stream(me.running.corpus.DownloadDocument, request)
    assert (refused.value.code, refused.value.reason) == (Code.NOT_FOUND, "VERSION_NOT_FOUND")


async def test_the_same_request_again_makes_nothing(me: Caller, them: Caller, owner: psycopg.Connection) -> None:
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


async def test_the_same_requests_at_the_same_time_make_one_document(me: Caller, owner: psycopg.Connection) -> None:
    header = pb.UploadHeader(file_name="a.md", request_id="r-1")
    made = await asyncio.gather(*(me.upload(header, b"text") for _ in range(8)))
    assert len({one.document_id for one in made}) == 1
    assert rows(owner, "SELECT count(*) FROM corpus.documents") == [(1,)]
