"""CorpusService over a real gRPC server and a real Postgres: documents and their content, errors and their reasons."""

from __future__ import annotations

import psycopg
import pytest
from citewire.retriever.v1 import corpus_pb2 as pb
from google.protobuf.field_mask_pb2 import FieldMask

from citewire_kit.errors import CitewireError, Code
from corpus_calls import LIMITS, assert_nothing_stored, metadata, rows
from retriever_process import Caller


@pytest.fixture
def retriever_settings() -> dict[str, int]:
    return LIMITS


async def test_spans_count_in_the_text_of_a_version(me: Caller, owner: psycopg.Connection) -> None:
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


WRONG_HEADERS: list[tuple[str, pb.UploadHeader]] = [
    ("file_name", pb.UploadHeader()),
    *(("file_name", pb.UploadHeader(file_name=name)) for name in ("/a", "a/", "a//b", "../a", "a/./b", "a\\b")),
    ("file_name", pb.UploadHeader(file_name="f/" * 500 + "f")),
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


async def test_unknown_and_foreign_documents_look_the_same(me: Caller, them: Caller) -> None:
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


async def test_an_update_changes_only_the_fields_in_the_mask(me: Caller, owner: psycopg.Connection) -> None:
    document = await me.put("Old", tags=["a"], collection="One", url="https://old.test", metadata=metadata(a=1))
    expected = pb.Document(document_id=document.document_id, title="ignored", tags=["b", "c"], metadata=metadata(b=2))

    async def update(*paths: str) -> pb.Document:
        request = pb.UpdateDocumentRequest(document=expected, update_mask=FieldMask(paths=paths))
        return (await me.unary(me.running.corpus.UpdateDocument, request)).document

    changed = await update("tags", "metadata")
    assert (changed.title, list(changed.tags), changed.metadata) == ("Old", ["b", "c"], metadata(b=2))
    assert (changed.collection, changed.url, changed.version) == ("One", "https://old.test", 1)
    assert changed.updated_at.ToDatetime() > document.updated_at.ToDatetime()
    assert changed.created_at == document.created_at
    emptied = await update("collection", "url")
    assert (emptied.collection, emptied.url) == ("", "")
    expected.collection = "Two"
    assert (await update("collection")).collection == "Two"

    expected.title = "New"
    assert ((await update("title")).title, (await me.get(document.document_id)).version) == ("New", 1)  # still pending
    owner.execute("UPDATE corpus.versions SET status = 'ready'")
    owner.execute("UPDATE corpus.documents SET live_version = 1")
    expected.title = "Newer"
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
    expected.title = " "
    with pytest.raises(CitewireError) as blank:
        await update("title")
    assert [violation.field for violation in blank.value.violations] == ["document.title"]


async def test_a_moved_file_keeps_its_document(me: Caller, owner: psycopg.Connection) -> None:
    named = await me.upload(pb.UploadHeader(file_name="old/plan.md"), b"# Words")
    titled = await me.upload(pb.UploadHeader(file_name="old/b.md", title="Given"), b"# Words")
    owner.execute("UPDATE corpus.versions SET status = 'ready'")
    owner.execute("UPDATE corpus.documents SET live_version = 1")

    async def move(document_id: int, name: str) -> pb.Document:
        document = pb.Document(document_id=document_id, file_name=name)
        request = pb.UpdateDocumentRequest(document=document, update_mask=FieldMask(paths=["file_name"]))
        return (await me.unary(me.running.corpus.UpdateDocument, request)).document

    moved = await move(titled.document_id, "new/b.MD")
    assert (moved.file_name, moved.title, moved.version) == ("new/b.MD", "Given", 1)
    header = (
        await me.stream(me.running.corpus.DownloadDocument, pb.DownloadDocumentRequest(document_id=titled.document_id))
    )[0].header
    assert header.file_name == "new/b.MD"
    renamed = await move(named.document_id, "new/plan.md")
    # Chunks are embedded with the title, which was the file's name here.
    assert (renamed.file_name, renamed.title, renamed.version) == ("new/plan.md", "new/plan.md", 2)
    names = rows(owner, "SELECT file_name FROM corpus.versions ORDER BY 1")
    assert names == [("new/b.MD",), ("new/plan.md",), ("new/plan.md",)]
    for name in ("plan.py", "plan", "../plan.md", ""):
        with pytest.raises(CitewireError) as refused:
            await move(named.document_id, name)
        assert [violation.field for violation in refused.value.violations] == ["document.file_name"]


async def test_a_deleted_document_leaves_nothing(me: Caller, owner: psycopg.Connection) -> None:
    document = await me.upload(pb.UploadHeader(file_name="f"), b"x")
    request = pb.DeleteDocumentRequest(document_id=document.document_id)
    await me.unary(me.running.corpus.DeleteDocument, request)
    assert_nothing_stored(owner)


async def test_only_failed_documents_are_retried(me: Caller, owner: psycopg.Connection) -> None:
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
    beyond = pb.DownloadDocumentRequest(document_id=document.document_id, version=(1 << 32) - 1)
    with pytest.raises(CitewireError) as refused:
        await me.stream(me.running.corpus.DownloadDocument, beyond)
    assert refused.value.code is Code.INVALID_ARGUMENT
