"""After a deletion, nothing of a document is found in any table or file; before the deletion, it is found."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING

import httpx
import psycopg

from http_api import ask, upload_bytes, wait_until_ended
from local_stack import LocalStack

if TYPE_CHECKING:
    from pathlib import Path


def search(dsn: str, folder: Path, text: str) -> tuple[int, str]:
    """Searches everything as an operator would; returns the exit code and the output."""
    done = subprocess.run(
        [sys.executable, "-m", "citewire_kit.canary", "-", "--dsn", dsn, "--folder", str(folder)],
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode != 2, done.stderr
    assert text not in done.stdout.replace(str(folder), "")
    return done.returncode, done.stdout


async def test_nothing_of_a_deleted_document_is_left(stack: LocalStack, api: httpx.AsyncClient) -> None:
    word, canary = "quibberdole", f"Quibber{uuid.uuid4().hex}"
    text = f"The watchword of the {word} is {canary}. It is changed each Monday by the {word}'s keeper."
    document = await upload_bytes(api, f"{canary}.txt", text.encode())
    article = {"type": "article", "title": f"On {canary}", "content": text, "tags": [canary], "metadata": {"a": canary}}
    key = {"Idempotency-Key": f"upload-{uuid.uuid4()}"}
    response = await api.post("/v1/documents", json={**article, "collection": "watchwords"}, headers=key)
    second = await wait_until_ended(api, response.json()["id"])
    assert second["status"] == "ready"
    # An older version, which is stored for a while.
    renewed = await api.put(f"/v1/documents/{document['id']}", files={"file": ("b.txt", f"{text} Twice.".encode())})
    assert renewed.status_code == 202
    await wait_until_ended(api, document["id"])
    question = {"question": f"What is the watchword of the {word}?", "profile": "grounded", "stream": False}
    chat_key = {"Idempotency-Key": f"chat-{uuid.uuid4()}"}
    answer = (await api.post("/v1/chat", json=question, headers=chat_key)).json()
    assert canary in answer["answer"]
    untouched = await ask(api, "Who sings at noon?", document_ids=[], profile="documents")

    dsn, folder = stack.dsn(), stack.data_dir
    code, printed = await asyncio.to_thread(search, dsn, folder, canary)
    assert code == 1
    for table in ("corpus.originals", "corpus.chunks", "corpus.documents", "corpus.document_values", "chat.messages"):
        assert f"table {table}:" in printed, printed
    assert "table chat.idempotency_keys:" in printed

    for number in (document["id"], second["id"]):
        assert (await api.delete(f"/v1/documents/{number}")).status_code == 204
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ANALYZE")  # the planner's statistics contain column values until they are refreshed
        code, printed = await asyncio.to_thread(search, dsn, folder, canary)
        assert (code, printed) == (0, "nothing found\n")
        left = connection.execute("SELECT count(*) FROM corpus.term_counts WHERE chunks <= 0").fetchone()
        assert left == (0,)
    read = (await api.get(f"/v1/conversations/{answer['conversation_id']}")).json()["messages"][1]
    assert read["withheld"] is True
    assert "erased" in read["content"]
    assert read["usage"]["completion_tokens"] == answer["usage"]["completion_tokens"]  # its usage is still known
    other = (await api.get(f"/v1/conversations/{untouched['conversation_id']}")).json()["messages"][1]
    assert "withheld" not in other
    # Repeated requests neither reveal nor restore what was erased.
    again = await api.post("/v1/documents", json={**article, "collection": "watchwords"}, headers=key)
    assert (again.status_code, again.json()["reason"]) == (404, "DOCUMENT_NOT_FOUND")
    asked_again = (await api.post("/v1/chat", json=question, headers=chat_key)).json()
    assert canary not in str(asked_again)
