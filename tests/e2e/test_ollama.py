"""`OLLAMA_BASE_URL`, `EMBEDDING_MODEL` and `LLM_MODEL` give system E local models; the other systems keep theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

import httpx
import psycopg
import pytest
from psycopg import sql

from local_stack import LocalStack, local_stack, prepared
from ollama_server import DIMENSIONS, OllamaServer, ollama_server

TEXTS = {
    "refunds.md": "# Refunds\n\nA refund takes five days, and is paid to the card that was charged.\n",
    "parking.md": "# Parking\n\nVisitors park behind the mill; the gate closes at nine in the evening.\n",
}
QUESTION = "How many days does a refund take?"
EMBEDDING, CHAT = "nomic-embed-text:v1.5", "qwen-of-the-test"


@dataclass
class Local:
    """A stack whose environment only configures Ollama, with a small library that is embedded in both spaces."""

    stack: LocalStack
    ollama: OllamaServer
    http: httpx.Client

    def query(self, statement: LiteralString, *values: object) -> list[tuple[object, ...]]:
        with psycopg.connect(self.stack.dsn()) as connection:
            return list(connection.execute(statement, values).fetchall())

    def vectors(self, model: str) -> list[tuple[object, ...]]:
        """Returns the chunk and the document of each vector in a model's space."""
        ((table,),) = self.query("SELECT table_name FROM corpus.spaces WHERE model = %s", model)
        statement = sql.SQL("SELECT chunk_id, document_id FROM corpus.{}").format(sql.Identifier(str(table)))
        with psycopg.connect(self.stack.dsn()) as connection:
            return list(connection.execute(statement).fetchall())


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Iterator[Local]:
    with ollama_server(shared_data / "provider-transcripts" / "ollama") as ollama:
        names = {"OLLAMA_BASE_URL": ollama.url, "EMBEDDING_MODEL": EMBEDDING, "LLM_MODEL": CHAT}
        with (
            local_stack(prepared(tmp_path_factory.mktemp("ollama")), environ=names) as stack,
            httpx.Client(base_url=stack.base_url, trust_env=False, timeout=60) as http,
        ):
            made = Local(stack, ollama, http)
            for name, text in TEXTS.items():
                assert http.post("/v1/documents", files={"file": (name, text.encode())}).status_code == 202

            def embedded() -> bool | None:
                jobs = made.query("SELECT state FROM corpus.ingest_jobs WHERE kind = 'embed'")
                return (len(jobs) == len(TEXTS) and all(state == ("done",) for state in jobs)) or None

            stack.wait(embedded, "the documents were not embedded by Ollama")
            yield made


def test_documents_are_in_both_spaces(local: Local) -> None:
    spaces = local.query("SELECT model FROM corpus.spaces ORDER BY space_id")
    assert spaces == [("all-MiniLM-L6-v2",), (EMBEDDING,)]
    further = local.query(
        "SELECT s.model, s.revision, s.dimensions FROM corpus.further_spaces JOIN corpus.spaces s USING (space_id)"
    )
    assert further == [(EMBEDDING, "ollama", DIMENSIONS)]
    assert sorted(local.vectors(EMBEDDING)) == sorted(local.vectors("all-MiniLM-L6-v2"))
    assert len(local.vectors(EMBEDDING)) == len(TEXTS)
    documents = [text for _, text in local.ollama.embedded if text.startswith("search_document: ")]
    assert len(documents) == len(TEXTS)
    assert {model for model, _ in local.ollama.embedded} == {EMBEDDING}


def test_the_simple_chat_gives_ollama_the_results_of_its_space(local: Local) -> None:
    local.ollama.embedded.clear()
    response = local.http.post("/api/chat/query", json={"question": QUESTION})
    assert response.status_code == 200, response.text
    answer = response.json()
    assert answer["answer"] == local.ollama.answer
    assert answer["sources"][0]["filename"] == "refunds.md"
    assert local.ollama.embedded == [(EMBEDDING, f"search_query: {QUESTION}")]
    chat = local.ollama.chats[-1]
    assert chat["model"] == CHAT
    assert "A refund takes five days" in json.dumps(chat["messages"])


def test_the_simple_chat_streams(local: Local) -> None:
    with local.http.stream("POST", "/api/chat/", json={"question": QUESTION}) as response:
        frames = [json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line.startswith("data:")]
    assert "".join(frame.get("token", "") for frame in frames) == local.ollama.answer
    assert frames[-1]["done"] is True
    assert frames[-1]["sources"][0]["filename"] == "refunds.md"


def test_another_system_keeps_the_platforms_space(local: Local) -> None:
    local.ollama.embedded.clear()
    response = local.http.post("/v1/chat", json={"question": QUESTION, "stream": False})
    assert response.status_code == 200, response.text
    assert response.json()["citations"][0]["file_name"] == "refunds.md"
    assert local.ollama.embedded == []


def test_a_document_that_is_deleted_leaves_both_spaces(local: Local) -> None:
    stored = local.http.post("/v1/documents", files={"file": ("gone.md", b"# Gone\n\nIt will be gone soon.\n")}).json()

    def embedded() -> bool | None:
        result = local.query(
            "SELECT state FROM corpus.ingest_jobs WHERE kind = 'embed' AND document_id = %s", stored["id"]
        )
        return result == [("done",)] or None

    local.stack.wait(embedded, "the document was not embedded by Ollama")
    assert int(stored["id"]) in {document for _, document in local.vectors(EMBEDDING)}
    assert local.http.delete(f"/v1/documents/{stored['id']}").status_code == 204
    for model in ("all-MiniLM-L6-v2", EMBEDDING):
        assert int(stored["id"]) not in {document for _, document in local.vectors(model)}
