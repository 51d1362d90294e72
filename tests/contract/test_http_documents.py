"""`/v1/documents` and `/v1/collections` over real HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest
from citewire.common.v1 import place_pb2
from citewire.retriever.v1 import corpus_pb2

from citewire_kit.errors import InvalidArgument, invalid_field
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, frames_of, running_gateway
from waiting import wait_until

if TYPE_CHECKING:
    from databases import Database

MIB = 1024 * 1024
LIMIT = 8 * MIB
TEXT = {"type": "article", "title": "Notes", "content": "# Words\n\nMore words."}


@pytest.fixture
async def gateway(database: Database, tmp_path: Path) -> AsyncIterator[Gateway]:
    async with (
        running_fakes() as fakes,
        running_gateway(database, fakes, max_upload_bytes=LIMIT, spool_dir=str(tmp_path)) as running,
    ):
        yield running


def content_of(gateway: Gateway, document_id: int, org: str = "local") -> bytes:
    return gateway.fakes.corpus.stored[org, document_id].content


async def test_a_file_is_stored_and_answered_with_its_address(gateway: Gateway) -> None:
    content = os.urandom(3 * MIB)
    response = await gateway.http.post("/v1/documents", files={"file": ("report.pdf", content, "application/pdf")})
    assert response.status_code == 202
    document = response.json()
    assert response.headers["location"] == f"/v1/documents/{document['id']}"
    assert (document["file_name"], document["media_type"], document["status"]) == (
        "report.pdf",
        "application/pdf",
        "pending",
    )
    assert (document["version"], document["size_bytes"], document["type"]) == (1, len(content), "file")
    assert content_of(gateway, document["id"]) == content


@pytest.mark.parametrize("fields_first", [True, False])
async def test_fields_may_come_before_or_after_the_file(gateway: Gateway, fields_first: bool) -> None:
    fields = [
        ("collection", (None, "reports")),
        ("tags", (None, "2025, final")),
        ("tags", (None, '["a,b"]')),
        ("metadata", (None, '{"year": 2025, "nested": {"list": [1, 2.5, true, null, "x"]}}')),
        ("title", (None, "Annual report")),
        ("url", (None, "https://example.org/r")),
        ("type", (None, "article")),
    ]
    file: list[Any] = [("file", ("report.md", b"x" * (2 * MIB), "text/markdown"))]
    response = await gateway.http.post("/v1/documents", files=[*fields, *file] if fields_first else [*file, *fields])
    document = response.json()
    assert response.status_code == 202, response.text
    header = gateway.fakes.corpus.headers[0]
    assert (header.collection, header.title, header.url, header.type) == (
        "reports",
        "Annual report",
        "https://example.org/r",
        "article",
    )
    assert document["tags"] == ["2025", "final", "a,b"]
    assert document["metadata"] == {"year": 2025, "nested": {"list": [1, 2.5, True, None, "x"]}}
    assert document["collection"] == "reports"


async def test_lists_and_citations_show_a_files_path(gateway: Gateway) -> None:
    files = {"file": ("a.md", b"x", "text/markdown")}
    sent = await gateway.http.post("/v1/documents", files=files, data={"path": "handbook/harbour/a.md"})
    assert sent.status_code == 202, sent.text
    document = sent.json()
    assert document["file_name"] == "handbook/harbour/a.md"
    original = await gateway.http.get(f"/v1/documents/{document['id']}/content")
    assert original.headers["content-disposition"].endswith("filename*=UTF-8''a.md")


async def test_a_body_with_an_address_and_no_content_is_fetched(gateway: Gateway) -> None:
    body = {
        "url": "https://example.org/report.pdf",
        "collection": "web",
        "tags": ["2026"],
        "metadata": {"year": 2026},
        "valid_until": "2027-12-31",
    }
    headers = {"Idempotency-Key": "fetch-1"}
    response = await gateway.http.post("/v1/documents", json=body, headers=headers)
    assert response.status_code == 202, response.text
    document = response.json()
    assert response.headers["location"] == f"/v1/documents/{document['id']}"
    header = gateway.fakes.corpus.headers[0]
    assert (header.source_url, header.url, header.file_name, header.type) == (body["url"], body["url"], "", "file")
    assert (header.collection, list(header.tags), header.metadata["year"]) == ("web", ["2026"], 2026)
    assert header.valid_until.ToJsonString() == "2028-01-01T00:00:00Z"
    assert content_of(gateway, document["id"]) == b"fetched from https://example.org/report.pdf"
    again = await gateway.http.post("/v1/documents", json=body, headers=headers)
    assert (again.json()["id"], len(gateway.fakes.corpus.headers)) == (document["id"], 1)

    version = {"url": "https://example.org/b.pdf", "file_name": "b.pdf", "title": "B"}
    replaced = await gateway.http.put(f"/v1/documents/{document['id']}", json=version)
    assert (replaced.status_code, replaced.json()["version"], replaced.json()["title"]) == (202, 2, "B")
    batch = {"operations": [{"op": "create", "document": {"url": "https://example.org/c.pdf", "file_name": "c.pdf"}}]}
    result = (await gateway.http.post("/v1/documents:batch", json=batch)).json()["results"][0]
    assert (result["status"], result["document"]["url"]) == (202, "https://example.org/c.pdf")


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"url": ""}, ["url"]),
        ({"url": 7}, ["url"]),
        ({"url": "https://example.org/" + "x" * 2048}, ["url"]),
        ({"url": "https://example.org/", "content": ""}, ["type", "title", "content"]),
        ({"url": "https://example.org/", "source_url": "x", "tags": "a"}, ["tags", "source_url"]),
        ({"type": "article", "title": "T"}, ["content"]),
    ],
)
async def test_an_invalid_address_is_refused_by_its_field(
    gateway: Gateway, body: dict[str, Any], fields: list[str]
) -> None:
    response = await gateway.http.post("/v1/documents", json=body)
    assert response.status_code == 422
    assert sorted(error["field"] for error in response.json()["errors"]) == sorted(fields)
    assert gateway.fakes.corpus.headers == []


async def test_a_failed_fetch_names_the_field_of_the_body(gateway: Gateway) -> None:
    message = "the server at this address answered 404"
    gateway.fakes.corpus.fetch_error = invalid_field("source_url", message, reason="SOURCE_FAILED")
    response = await gateway.http.post("/v1/documents", json={"url": "https://example.org/gone"})
    assert (response.status_code, response.json()["reason"]) == (422, "SOURCE_FAILED")
    assert response.json()["detail"] == f"url: {message}"
    assert response.json()["errors"] == [{"field": "url", "message": message}]


@pytest.mark.parametrize("path", ["/etc/passwd", "a/../b", "a//b", "a\\b", "./a", "a/\x1b", "x" * 1001])
async def test_a_path_that_leaves_its_folder_is_refused(gateway: Gateway, path: str) -> None:
    response = await gateway.http.post("/v1/documents", files={"file": ("a.md", b"x")}, data={"path": path})
    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == ["path"]


@pytest.mark.parametrize(
    ("sent", "stored"),
    [("a.md", "a.md"), ("folder/a.md", "a.md"), ("C:\\folder\\a.md", "a.md"), ("Übersicht 📄.md", "Übersicht 📄.md")],
)
async def test_a_file_name_loses_its_folders(gateway: Gateway, sent: str, stored: str) -> None:
    boundary = b"b"
    body = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="' + sent.encode() + b'"\r\n\r\nx\r\n--b--\r\n'
    )
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary.decode()}"}
    response = await gateway.http.post("/v1/documents", content=body, headers=headers)
    assert response.status_code == 202, response.text
    assert response.json()["file_name"] == stored


BAD_FORMS: list[tuple[bytes, int, str, str | None]] = [
    (b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n\r\n--b--\r\n', 422, "EMPTY_UPLOAD",
     None),
    (b'--b\r\nContent-Disposition: form-data; name="tags"\r\n\r\nx\r\n--b--\r\n', 422, "INVALID_FIELD", "file"),
    (b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--b--\r\n', 422, "INVALID_FIELD", "file"),
    (b'--b\r\nContent-Disposition: form-data; name="file"; filename=""\r\n\r\nx\r\n--b--\r\n', 422, "INVALID_FIELD",
     "file"),
    (b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nx', 422, "INVALID_FIELD", "body"),
    (b"nonsense", 422, "INVALID_FIELD", "body"),
    (b"--b\r\n\r\nx\r\n--b--\r\n", 422, "INVALID_FIELD", "body"),
    (b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\ny\r\n'
     b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nx\r\n--b--\r\n', 422,
     "INVALID_FIELD", "x"),
    (b'--b\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n[1]\r\n'
     b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nx\r\n--b--\r\n', 422,
     "INVALID_FIELD", "metadata"),
    (b'--b\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n{"a": "\\ud800"}\r\n'
     b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nx\r\n--b--\r\n', 422,
     "INVALID_FIELD", "metadata"),
    (b'--b\r\nContent-Disposition: form-data; name="title"\r\n\r\na\x00b\r\n'
     b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nx\r\n--b--\r\n', 422,
     "INVALID_FIELD", "title"),
    (b'--b\r\nContent-Disposition: form-data; name="title"\r\n\r\n\xff\r\n'
     b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nx\r\n--b--\r\n', 422,
     "INVALID_FIELD", "title"),
    (b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nx\r\n'
     b'--b\r\nContent-Disposition: form-data; name="file"; filename="b.md"\r\n\r\nx\r\n--b--\r\n', 422,
     "INVALID_FIELD", "file"),
    (b'--b\r\nContent-Disposition: form-data; name="title"\r\n\r\n' + b"x" * (300 * 1024) + b"\r\n"
     b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nx\r\n--b--\r\n', 413,
     "TOO_LARGE", None),
]  # fmt: skip


async def test_bad_forms(gateway: Gateway, subtests: pytest.Subtests) -> None:
    for body, status, reason, field in BAD_FORMS:
        with subtests.test(body=body[:120]):
            headers = {"Content-Type": "multipart/form-data; boundary=b"}
            response = await gateway.http.post("/v1/documents", content=body, headers=headers)
            assert response.status_code == status, response.text
            assert response.json()["reason"] == reason
            if field is not None:
                assert field in [error["field"] for error in response.json()["errors"]], response.text
    assert gateway.fakes.corpus.uploads == 0


async def test_an_upload_beyond_the_limit_is_413_and_nothing_is_stored(gateway: Gateway) -> None:
    files = {"file": ("big.bin", b"x" * (LIMIT + 1))}
    response = await gateway.http.post("/v1/documents", files=files)
    assert (response.status_code, response.json()["reason"]) == (413, "TOO_LARGE")
    assert "8 MiB" in response.json()["detail"]
    assert gateway.fakes.corpus.uploads == 0
    assert (await gateway.http.post("/v1/documents", files={"file": ("a", b"x" * LIMIT)})).status_code == 202


async def test_an_upload_of_unknown_length_is_stopped_at_the_limit(gateway: Gateway) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'
        for _ in range(64):
            sent += MIB
            yield b"x" * MIB

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    response = await gateway.http.post("/v1/documents", content=endless(), headers=headers)
    assert response.status_code == 413
    assert gateway.fakes.corpus.uploads == 0


async def test_an_upload_is_not_held_in_memory(gateway: Gateway) -> None:
    process = psutil.Process()
    piece = os.urandom(MIB)
    before = process.memory_info().rss

    async def big() -> AsyncIterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'
        for _ in range(LIMIT // MIB - 1):
            yield piece
        # All but its end has arrived and is on disk.
        await asyncio.sleep(0.2)
        grown.append(process.memory_info().rss - before)
        yield b"\r\n--b--\r\n"

    grown: list[int] = []
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    assert (await gateway.http.post("/v1/documents", content=big(), headers=headers)).status_code == 202
    assert grown[0] < 5 * MIB


async def test_an_interrupted_upload_leaves_nothing(gateway: Gateway) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n' + b"x" * MIB
        raise ConnectionResetError

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    with pytest.raises(ConnectionResetError):
        await gateway.http.post("/v1/documents", content=broken(), headers=headers)
    assert gateway.fakes.corpus.uploads == 0
    # The slot is free again, also for the last of them.
    assert (await gateway.http.post("/v1/documents", files={"file": ("a.md", b"x")})).status_code == 202


async def test_one_upload_too_many_is_refused_at_once(gateway: Gateway) -> None:
    waiting = asyncio.Event()

    async def gate() -> None:
        await waiting.wait()

    gateway.fakes.corpus.upload_gate = gate
    slots = gateway.services.settings.max_uploads
    uploads = [
        asyncio.create_task(gateway.http.post("/v1/documents", files={"file": ("a.md", b"x")})) for _ in range(slots)
    ]
    await wait_until(lambda: gateway.fakes.corpus.uploads == slots, 20)
    refused = await gateway.http.post("/v1/documents", files={"file": ("a.md", b"x")})
    assert (refused.status_code, refused.json()["reason"]) == (503, "OVERLOADED")
    waiting.set()
    assert [answer.status_code for answer in await asyncio.gather(*uploads)] == [202] * slots


async def test_a_refusal_of_the_retriever_is_passed_on(gateway: Gateway) -> None:
    async def refuse() -> None:
        raise InvalidArgument("no such format", reason="UNSUPPORTED_FORMAT", metadata={"supported": "md, pdf"})

    gateway.fakes.corpus.upload_gate = refuse
    response = await gateway.http.post("/v1/documents", files={"file": ("a.exe", b"MZ")})
    assert (response.status_code, response.json()["reason"]) == (415, "UNSUPPORTED_FORMAT")


async def test_a_text_is_stored(gateway: Gateway) -> None:
    body = {**TEXT, "url": "https://example.org", "tags": ["a"], "metadata": {"k": 1}, "collection": "notes"}
    response = await gateway.http.post("/v1/documents", json=body)
    assert response.status_code == 202
    document = response.json()
    assert response.headers["location"] == f"/v1/documents/{document['id']}"
    put = gateway.fakes.corpus.puts[0]
    assert (put.type, put.title, put.content, put.url) == ("article", "Notes", TEXT["content"], "https://example.org")
    assert document["metadata"] == {"k": 1}


BAD_TEXTS: list[tuple[dict[str, Any], str]] = [
    ({**TEXT, "type": "nonsense"}, "type"),
    ({**TEXT, "title": ""}, "title"),
    ({**TEXT, "title": "x" * 501}, "title"),
    ({**TEXT, "content": ""}, "content"),
    ({**TEXT, "content": " \n"}, "content"),
    ({**TEXT, "content": "a\x00"}, "content"),
    ({**TEXT, "tags": ["x"] * 51}, "tags"),
    ({**TEXT, "tags": ["x" * 65]}, "tags.0"),
    ({**TEXT, "metadata": [1]}, "metadata"),
    ({**TEXT, "metadata": {"a": {"b": "\x00"}}}, "metadata.a.b"),
    ({**TEXT, "nonsense": 1}, "nonsense"),
    ({"title": "x"}, "type"),
]


async def test_bad_texts(gateway: Gateway, subtests: pytest.Subtests) -> None:
    for body, field in BAD_TEXTS:
        with subtests.test(field=field):
            response = await gateway.http.post("/v1/documents", json=body)
            assert response.status_code == 422, response.text
            assert field in [error["field"] for error in response.json()["errors"]]
    response = await gateway.http.post("/v1/documents", content=b"x", headers={"Content-Type": "application/pdf"})
    assert (response.status_code, response.json()["reason"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert gateway.fakes.corpus.stored == {}


async def test_put_makes_a_new_version(gateway: Gateway) -> None:
    first = (await gateway.http.post("/v1/documents", files={"file": ("a.md", b"one")})).json()
    path = f"/v1/documents/{first['id']}"
    second = (await gateway.http.put(path, files={"file": ("a.md", b"two")})).json()
    third = (await gateway.http.put(path, json=TEXT)).json()
    assert [document["version"] for document in (first, second, third)] == [1, 2, 3]
    assert {document["id"] for document in (first, second, third)} == {first["id"]}
    assert (await gateway.http.put("/v1/documents/404", json=TEXT)).status_code == 404


async def test_a_document_is_read_changed_retried_and_deleted(gateway: Gateway) -> None:
    created = (await gateway.http.post("/v1/documents", json=TEXT)).json()
    path = f"/v1/documents/{created['id']}"
    assert (await gateway.http.get(path)).json() == created
    patched = await gateway.http.patch(path, json={"tags": ["new"], "metadata": {"a": 1}, "collection": None})
    assert patched.json()["tags"] == ["new"]
    assert sorted(gateway.fakes.corpus.updates[0].update_mask.paths) == ["collection", "metadata", "tags"]
    moved = await gateway.http.patch(path, json={"file_name": "b/a.md"})
    assert (moved.status_code, list(gateway.fakes.corpus.updates[1].update_mask.paths)) == (200, ["file_name"])
    for body in ({}, {"title": None}, {"title": ""}, {"nonsense": 1}, {"file_name": None}, {"file_name": ""}):
        assert (await gateway.http.patch(path, json=body)).status_code == 422
    retried = await gateway.http.post(f"{path}:retry")
    assert (retried.status_code, retried.headers["location"]) == (202, path)
    deleted = await gateway.http.delete(path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert (await gateway.http.get(path)).status_code == 404


async def test_documents_are_listed_by_query_parameters(gateway: Gateway) -> None:
    for _ in range(2):
        await gateway.http.post("/v1/documents", json=TEXT)
    condition = {"field": "tags", "op": "contains", "value": "x"}
    params = {
        "page_size": "2",
        "page_token": "t",
        "collection": "c",
        "type": "article",
        "status": "ready",
        "tag": "x",
        "filter": json.dumps(condition),
    }
    response = await gateway.http.get("/v1/documents", params=params)
    assert [document["title"] for document in response.json()["documents"]] == ["Notes", "Notes"]
    assert response.json()["next_page_token"] == "next"
    asked = gateway.fakes.corpus.lists[0]
    assert (asked.page_size, asked.page_token, asked.collection, asked.type, asked.tag) == (2, "t", "c", "article", "x")
    assert asked.status == corpus_pb2.DOCUMENT_STATUS_READY
    assert asked.filter.comparison.field == "tags"


@pytest.mark.parametrize(
    ("media_type", "shown_as", "disposition"),
    [
        ("application/pdf", "application/pdf", "inline"),
        ("text/markdown", "text/plain; charset=utf-8", "inline"),
        ("text/html", "text/html", "attachment"),
        ("application/octet-stream", "application/octet-stream", "attachment"),
        ("image/svg+xml", "image/svg+xml", "attachment"),
    ],
)
async def test_the_original_comes_back(gateway: Gateway, media_type: str, shown_as: str, disposition: str) -> None:
    content = os.urandom(100_000)
    files = {"file": ("ü report.bin", content, media_type)}
    created = (await gateway.http.post("/v1/documents", files=files)).json()
    response = await gateway.http.get(f"/v1/documents/{created['id']}/content?version=1")
    assert response.content == content
    assert response.headers["content-type"] == shown_as
    assert response.headers["content-disposition"] == f"{disposition}; filename*=UTF-8''%C3%BC%20report.bin"
    assert response.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
    assert response.headers["x-document-version"] == "1"
    assert ("sandbox" in response.headers["content-security-policy"]) == (media_type != "application/pdf")
    missing = await gateway.http.get(f"/v1/documents/{created['id']}/content?version=9")
    assert (missing.status_code, missing.json()["reason"]) == (404, "VERSION_NOT_FOUND")


async def test_the_extracted_text_comes_as_plain_text(gateway: Gateway) -> None:
    created = (await gateway.http.post("/v1/documents", files={"file": ("a.html", "<b>ü🙂</b>".encode())})).json()
    response = await gateway.http.get(f"/v1/documents/{created['id']}/text")
    assert response.text == "<b>ü🙂</b>"
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert "sandbox" in response.headers["content-security-policy"]
    assert response.headers["x-document-version"] == "1"
    missing = await gateway.http.get(f"/v1/documents/{created['id']}/text?version=9")
    assert (missing.status_code, missing.json()["reason"]) == (404, "VERSION_NOT_FOUND")


async def test_an_original_that_breaks_off_is_an_incomplete_body(gateway: Gateway) -> None:
    created = (await gateway.http.post("/v1/documents", files={"file": ("a.md", b"x" * 1000)})).json()
    gateway.fakes.corpus.cut_download = True
    with pytest.raises(httpx.RemoteProtocolError):
        await gateway.http.get(f"/v1/documents/{created['id']}/content")


async def test_progress_is_streamed_until_ingestion_is_done(gateway: Gateway) -> None:
    created = (await gateway.http.post("/v1/documents", json=TEXT)).json()
    document = corpus_pb2.Document(
        document_id=created["id"],
        status=corpus_pb2.DOCUMENT_STATUS_PROCESSING,
        version=1,
        type="file",
        progress=corpus_pb2.IngestProgress(stage=corpus_pb2.INGEST_STAGE_EMBED, done=1, total=4),
    )
    ready = corpus_pb2.Document(
        document_id=created["id"], status=corpus_pb2.DOCUMENT_STATUS_READY, version=1, type="file"
    )
    gateway.fakes.corpus.progress = [
        corpus_pb2.WatchDocumentResponse(
            document=document, stage=corpus_pb2.INGEST_STAGE_EMBED, done=1, total=4, attempt=1
        ),
        corpus_pb2.WatchDocumentResponse(document=ready),
    ]
    response = await gateway.http.get(f"/v1/documents/{created['id']}/events")
    assert response.headers["content-type"].startswith("text/event-stream")
    frames = frames_of(response.text)
    assert [frame.event for frame in frames] == ["progress", "progress", "done"]
    first, second = frames[0].data, frames[1].data
    assert (first["stage"], first["done"], first["total"], first["attempt"]) == ("embed", 1, 4, 1)
    assert first["document"]["status"] == "processing"
    assert first["document"]["progress"] == {"stage": "embed", "done": 1, "total": 4}
    assert "progress" not in second["document"]
    assert (second["stage"], second["total"], second["document"]["status"]) == (None, None, "ready")


async def test_collections_are_made_renamed_listed_and_deleted(gateway: Gateway) -> None:
    expected = {"name": "reports", "documents": 0, "enrich": False, "access": "read"}
    made = await gateway.http.post("/v1/collections", json={"name": "a/b c"})
    assert (made.status_code, made.json()) == (201, expected | {"name": "a/b c"})
    renamed = await gateway.http.patch("/v1/collections/a%2Fb%20c", json={"name": "reports"})
    assert (renamed.status_code, renamed.json()["name"]) == (200, "reports")
    listed = await gateway.http.get("/v1/collections")
    assert listed.json() == {"collections": [expected], "next_page_token": ""}
    deleted = await gateway.http.delete("/v1/collections/reports?force=true")
    assert (deleted.status_code, deleted.json()) == (200, {"documents_deleted": 0})
    missing = await gateway.http.delete("/v1/collections/reports")
    assert (missing.status_code, missing.json()["reason"]) == (404, "COLLECTION_NOT_FOUND")
    assert (await gateway.http.post("/v1/collections", json={"name": ""})).status_code == 422


async def test_grants_are_replaced_and_read(gateway: Gateway) -> None:
    await gateway.http.post("/v1/collections", json={"name": "a/b c"})
    path = "/v1/collections/a%2Fb%20c/grants"
    assert (await gateway.http.get(path)).json() == {"grants": []}
    grants = [{"subject": "group:hr", "access": "manage"}, {"subject": "everyone", "access": "read"}]
    replaced = await gateway.http.put(path, json={"grants": grants})
    assert (replaced.status_code, replaced.json()) == (200, {"grants": grants})
    assert (await gateway.http.get(path)).json() == {"grants": grants}
    wrong = await gateway.http.put(path, json={"grants": [{"subject": "group:hr", "access": "own"}]})
    assert wrong.status_code == 422
    assert wrong.json()["errors"][0]["field"] == "grants.0.access"
    missing = await gateway.http.get("/v1/collections/none/grants")
    assert (missing.status_code, missing.json()["reason"]) == (404, "COLLECTION_NOT_FOUND")


async def test_readers_are_set_and_returned_with_a_document(gateway: Gateway) -> None:
    body = {"type": "article", "title": "T", "content": "x", "readers": ["group:hr"]}
    document = await gateway.http.post("/v1/documents", json=body)
    assert document.status_code == 202
    assert list(gateway.fakes.corpus.puts[-1].readers) == ["group:hr"]
    form = await gateway.http.post(
        "/v1/documents", files={"file": ("a.md", b"x")}, data={"readers": ["group:a, b", '["user:zoe"]']}
    )
    assert form.status_code == 202
    assert list(gateway.fakes.corpus.headers[-1].readers) == ["group:a, b", "user:zoe"]


async def test_a_quote_is_located(gateway: Gateway) -> None:
    document = (await gateway.http.post("/v1/documents", json=TEXT)).json()
    box = place_pb2.Box(left=72, top=100.5, right=300, bottom=112)
    boxes = place_pb2.PageBoxes(width=612, height=792, boxes=[box])
    gateway.fakes.corpus.places = [place_pb2.Place(page=3, boxes=boxes), place_pb2.Place(row=7)]
    path = f"/v1/documents/{document['id']}/locate"
    response = await gateway.http.get(path, params={"char_start": 0, "char_end": 9, "version": 1})
    shown = {"width": 612, "height": 792, "boxes": [{"left": 72, "top": 100.5, "right": 300, "bottom": 112}]}
    assert response.json() == {"version": 1, "places": [{"page_number": 3, "boxes": shown}, {"row_number": 7}]}
    assert gateway.fakes.corpus.located == [
        corpus_pb2.LocateSpanRequest(document_id=document["id"], version=1, char_start=0, char_end=9)
    ]
    for params in ({"char_start": 0}, {"char_start": -1, "char_end": 4}, {"char_start": "a", "char_end": 4}):
        assert (await gateway.http.get(path, params=params)).status_code == 422
    gone = await gateway.http.get("/v1/documents/999/locate", params={"char_start": 0, "char_end": 4})
    assert (gone.status_code, gone.json()["reason"]) == (404, "DOCUMENT_NOT_FOUND")


async def test_validity_is_read_in_every_body(gateway: Gateway) -> None:
    """A date means its beginning or end in UTC, a time has an offset, and null removes a bound."""
    for text, start, end in (
        ("2026-10-25", "2026-10-25T00:00:00Z", "2026-10-26T00:00:00Z"),
        ("2026-10-25T02:30:00+02:00", "2026-10-25T00:30:00Z", "2026-10-25T00:30:00Z"),
        ("2026-10-25T02:30:00", "2026-10-25T02:30:00Z", "2026-10-25T02:30:00Z"),
    ):
        fields = {"valid_from": text, "valid_until": text}
        assert (await gateway.http.post("/v1/documents", files={"file": ("a.md", b"x")}, data=fields)).is_success
        assert (await gateway.http.post("/v1/documents", json=TEXT | fields)).is_success
        patched = await gateway.http.patch("/v1/documents/101", json=fields)
        assert patched.is_success
        corpus = gateway.fakes.corpus
        for message in (corpus.headers[-1], corpus.puts[-1], corpus.updates[-1].document):
            assert (message.valid_from.ToJsonString(), message.valid_until.ToJsonString()) == (start, end), text
    assert (await gateway.http.patch("/v1/documents/101", json={"valid_until": None})).is_success
    update = gateway.fakes.corpus.updates[-1]
    assert (list(update.update_mask.paths), update.document.HasField("valid_until")) == (["valid_until"], False)


@pytest.mark.parametrize("text", ["soon", "2026-02-30", "2026-13-01T00:00:00Z", "9999-12-31", "", 7, "1" * 200])
async def test_an_invalid_bound_is_named(gateway: Gateway, text: object) -> None:
    answers = [await gateway.http.post("/v1/documents", json=TEXT | {"valid_until": text})]
    if isinstance(text, str) and text:
        form = {"valid_until": text}
        answers.append(await gateway.http.post("/v1/documents", files={"file": ("a.md", b"x")}, data=form))
    for answer in answers:
        assert answer.status_code == 422
        assert [error["field"] for error in answer.json()["errors"]] == ["valid_until"]
    assert (await gateway.http.get("/v1/documents", params={"as_of": "soon"})).status_code == 422
