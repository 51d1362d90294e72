"""Bad input through the whole stack: a clear error that names what is wrong, and nothing half-written."""

import asyncio
import io
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from PIL import Image

from http_api import Json, wait_until_ended

MIB = 1 << 20


async def documents(api: httpx.AsyncClient) -> list[Json]:
    listed = (await api.get("/v1/documents", params={"page_size": 1000})).json()
    rows: list[Json] = listed["documents"]
    return rows


def assert_problem(response: httpx.Response, status: int, reason: str, field: str | None = None) -> Json:
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("application/problem+json")
    problem: Json = response.json()
    assert problem["reason"] == reason, problem
    assert {"type", "title", "status", "detail", "request_id"} <= problem.keys()
    assert "Traceback" not in response.text
    if field is not None:
        assert field in [error["field"] for error in problem["errors"]], problem
    return problem


async def test_an_empty_file_is_refused_and_not_stored(api: httpx.AsyncClient) -> None:
    before = await documents(api)
    for name in ("empty.md", "empty.pdf"):
        assert_problem(await api.post("/v1/documents", files={"file": (name, b"")}), 422, "EMPTY_UPLOAD")
    assert await documents(api) == before


async def test_300_mb_are_refused_during_the_upload_and_not_stored(api: httpx.AsyncClient) -> None:
    before = await documents(api)

    async def body() -> AsyncGenerator[bytes, None]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="big.txt"\r\n\r\n'
        for _ in range(300):
            yield b"0123456789abcdef" * (MIB // 16)
        yield b"\r\n--b--\r\n"

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    try:
        response = await api.post("/v1/documents", content=body(), headers=headers)
    except httpx.WriteError:
        pytest.fail("the connection was reset before the answer could be read")
    problem = assert_problem(response, 413, "TOO_LARGE")
    assert "256" in problem["detail"]
    assert await documents(api) == before


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("documents/constructed/header-only.pdf", "CORRUPT"),
        ("documents/pdf/libreoffice-writer-password.pdf", "PASSWORD_REQUIRED"),
    ],
)
async def test_files_that_cannot_be_read_fail_with_a_code(
    api: httpx.AsyncClient, shared_data: Path, file: str, code: str
) -> None:
    content = await asyncio.to_thread((shared_data / file).read_bytes)
    await assert_fails(api, Path(file).name, content, code)


async def test_a_picture_without_text_fails_with_a_code(api: httpx.AsyncClient) -> None:
    picture = io.BytesIO()
    Image.new("L", (600, 400), 255).save(picture, "PDF")
    await assert_fails(api, "empty.pdf", picture.getvalue(), "NO_TEXT")


async def assert_fails(api: httpx.AsyncClient, name: str, content: bytes, code: str) -> None:
    response = await api.post("/v1/documents", files={"file": (name, content)})
    assert response.status_code == 202, response.text
    document = await wait_until_ended(api, response.json()["id"])
    assert (document["status"], document["error"]["code"]) == ("failed", code)
    assert document["chunks"] == 0
    result = await api.post("/v1/search", json={"query": "anything", "document_ids": [document["id"]]})
    assert result.json()["results"] == []


async def test_a_truncated_pdf_fails_as_corrupt(api: httpx.AsyncClient, shared_data: Path) -> None:
    whole = await asyncio.to_thread((shared_data / "documents/pdf/pdflatex-4-pages.pdf").read_bytes)
    response = await api.post("/v1/documents", files={"file": ("half.pdf", whole[: len(whole) // 2])})
    document = await wait_until_ended(api, response.json()["id"])
    assert document["status"] == "failed"
    assert document["error"]["code"] == "CORRUPT"


async def test_a_pdf_with_an_empty_password_is_read(api: httpx.AsyncClient, shared_data: Path) -> None:
    content = await asyncio.to_thread((shared_data / "documents/pdf/copy-protected.pdf").read_bytes)
    response = await api.post("/v1/documents", files={"file": ("copy-protected.pdf", content)})
    document = await wait_until_ended(api, response.json()["id"])
    assert (document["status"], document["pages"]) == ("ready", 2), document


async def test_binary_junk_named_md_is_refused_with_the_upload(api: httpx.AsyncClient) -> None:
    junk = bytes(range(256)) * 64
    response = await api.post("/v1/documents", files={"file": ("notes.md", junk)})
    assert (response.status_code, response.json()["reason"]) == (415, "UNSUPPORTED_FORMAT")


@pytest.mark.parametrize(
    ("body", "status", "reason", "field"),
    [
        ({"question": "What?", "profile": "nonsense"}, 404, "PROFILE_NOT_FOUND", None),
        ({"question": "What?", "top_k": 0}, 422, "INVALID_FIELD", "top_k"),
        ({"question": "What?", "top_k": 10**9}, 422, "INVALID_FIELD", "top_k"),
        ({"question": "What?", "min_score": 1.5}, 422, "INVALID_FIELD", "min_score"),
        ({"question": "What?", "document_ids": [9007199254740991]}, 404, "DOCUMENT_NOT_FOUND", None),
        ({"question": "   \n\t "}, 422, "INVALID_FIELD", "question"),
        ({"question": "a\x00b"}, 422, "INVALID_FIELD", "question"),
        ({"question": "q" * (33 * 1024)}, 422, "INVALID_FIELD", "question"),
        ({}, 422, "INVALID_FIELD", "question"),
    ],
)
async def test_bad_questions_are_refused(
    api: httpx.AsyncClient, body: dict[str, object], status: int, reason: str, field: str | None
) -> None:
    problem = assert_problem(await api.post("/v1/chat", json=body), status, reason, field)
    if reason == "DOCUMENT_NOT_FOUND":
        assert "9007199254740991" in problem["detail"]


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b'{"question": ', 400, "INVALID_JSON"),
        (b"\xff\xfe", 400, "INVALID_JSON"),
        (b'{"question": "\\ud800"}', 422, "INVALID_FIELD"),
        (b'{"question": "' + b"a" * MIB + b'"}', 413, "TOO_LARGE"),
    ],
)
async def test_bad_bodies_are_refused(api: httpx.AsyncClient, body: bytes, status: int, reason: str) -> None:
    headers = {"Content-Type": "application/json"}
    assert_problem(await api.post("/v1/chat", content=body, headers=headers), status, reason)


async def test_the_simple_api_gives_clear_errors_too(api: httpx.AsyncClient) -> None:
    for path in ("/api/chat/", "/api/chat/query"):
        assert_problem(await api.post(path, json={"question": " "}), 422, "INVALID_FIELD", "question")
        assert_problem(
            await api.post(path, json={"question": "What?", "document_ids": [123456789012]}), 404, "DOCUMENT_NOT_FOUND"
        )
