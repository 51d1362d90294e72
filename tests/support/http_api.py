"""Common steps of end-to-end tests over the HTTP API."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx

Json = dict[str, Any]


async def upload(api: httpx.AsyncClient, path: Path) -> Json:
    """Uploads a file and waits until it is ready; fails with the document if ingest fails."""
    return await upload_bytes(api, path.name, await asyncio.to_thread(path.read_bytes))


async def upload_bytes(api: httpx.AsyncClient, name: str, content: bytes) -> Json:
    """Uploads bytes under a file name and waits until they are ready; fails with the document if ingest fails."""
    response = await api.post("/v1/documents", files={"file": (name, content)})
    assert response.status_code == 202, response.text
    document = await wait_until_ended(api, response.json()["id"])
    assert document["status"] == "ready", document
    return document


async def wait_until_ended(api: httpx.AsyncClient, document_id: int, *, seconds: float = 120) -> Json:
    """Polls a document until its latest version is ready or failed."""
    end = time.monotonic() + seconds
    while True:
        response = await api.get(f"/v1/documents/{document_id}")
        assert response.status_code == 200, response.text
        document: Json = response.json()
        if document["status"] in ("ready", "failed"):
            return document
        assert time.monotonic() < end, f"still {document['status']} after {seconds} s"
        await asyncio.sleep(0.05)


async def ask(api: httpx.AsyncClient, question: str, **fields: object) -> Json:
    """Asks without streaming; returns the body."""
    response = await api.post("/v1/chat", json={"question": question, "stream": False, **fields})
    assert response.status_code == 200, response.text
    body: Json = response.json()
    return body
