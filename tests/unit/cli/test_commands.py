"""`citewire search`, `documents`, `keys`, `--version` and the help."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cli_types import Run
from fake_gateway import FakeGateway, Reply, reply_json
from fake_library import FakeLibrary, StoredDocument

RESULT = {
    "chunk_id": 1,
    "document_id": 2,
    "content": "A long text " * 40,
    "score": 0.42,
    "file_name": "x.pdf",
    "url": "https://example.com/x",
    "page_number": 3,
    "section": "S",
}


def fill(gateway: FakeGateway, count: int) -> FakeLibrary:
    library = FakeLibrary(gateway)
    for number in range(1, count + 1):
        state = "ready" if number % 2 else "failed"
        library.documents[number] = StoredDocument(number, f"d{number}.md", b"x", {}, str(number), [state])
    return library


def test_search(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/search", reply_json({"results": [RESULT]}))
    result = run("search", "what", "-k", "5", "--mode", "hybrid", "--min-score", "0.2", "-d", "7", "-c", "hr")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[:2] == ["[1] x.pdf, page 3, § S  0.42", "    https://example.com/x"]
    assert len(lines[2]) <= 164
    assert lines[2].endswith("…")
    assert gateway.requests[0].json() == {
        "query": "what",
        "top_k": 5,
        "mode": "hybrid",
        "min_score": 0.2,
        "document_ids": [7],
        "collection": "hr",
    }


def test_search_json(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/search", reply_json({"results": [RESULT], "space": "s"}))
    assert json.loads(run("search", "what", "--json").stdout) == {"results": [RESULT], "space": "s"}


def test_search_without_results_exits_with_5(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/search", reply_json({"results": []}))
    result = run("search", "what")
    assert (result.exit_code, result.stdout) == (5, "Nothing found.\n")


@pytest.mark.parametrize("arguments", [("--top-k", "0"), ("--top-k", "201"), ("--mode", "x"), ("-d", "abc")])
def test_search_usage(run: Run, arguments: tuple[str, ...]) -> None:
    assert run("search", "what", *arguments).exit_code == 2


def test_documents_are_listed_over_all_pages(gateway: FakeGateway, run: Run) -> None:
    fill(gateway, 1250)
    result = run("documents")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["id", "status", "type", "chunks", "name", "collection"]
    assert len(lines) == 1001
    assert lines[1].split() == ["1", "ready", "file", "3", "d1.md"]
    assert len(gateway.requests) == 2  # only as many pages as the limit of 1000 needs


def test_documents_filter_limit_and_json(gateway: FakeGateway, run: Run) -> None:
    fill(gateway, 10)
    result = run("documents", "list", "--status", "ready", "--limit", "2", "--json")
    assert [document["id"] for document in json.loads(result.stdout)["documents"]] == [1, 3]
    assert gateway.requests[0].query == {"status": "ready", "page_size": "500"}


def test_empty_library_says_what_to_do(gateway: FakeGateway, run: Run) -> None:
    fill(gateway, 0)
    result = run("documents", "list")
    assert result.exit_code == 0
    assert "citewire ingest" in result.stdout


def test_show(gateway: FakeGateway, run: Run) -> None:
    fill(gateway, 1)
    assert "d1.md" in run("documents", "show", "1").stdout
    assert json.loads(run("documents", "show", "1", "--json").stdout)["file_name"] == "d1.md"
    result = run("documents", "show", "99", "--json")
    assert result.exit_code == 5
    assert json.loads(result.stderr)["error"]["reason"] == "DOCUMENT_NOT_FOUND"


def test_delete_needs_a_confirmation(gateway: FakeGateway, run: Run) -> None:
    library = fill(gateway, 3)
    assert run("documents", "delete", "1").exit_code == 2
    assert len(library.documents) == 3


def test_delete(gateway: FakeGateway, run: Run) -> None:
    library = fill(gateway, 3)
    result = run("documents", "delete", "1", "77", "2", "--yes")
    assert result.exit_code == 5
    assert result.stdout == "Deleted 1.\nDeleted 2.\n"
    assert result.stderr == "No document 77.\n"
    assert list(library.documents) == [3]
    assert json.loads(run("documents", "delete", "3", "-y", "--json").stdout) == {"deleted": [3], "not_found": []}


def test_keys_are_passed_to_the_gateways_own_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[list[str], dict[str, str]]] = []

    def fake_run(command: list[str], *, env: dict[str, str], check: bool) -> subprocess.CompletedProcess[bytes]:
        assert not check
        calls.append((command, env))
        return subprocess.CompletedProcess(command, 5)

    monkeypatch.setattr(subprocess, "run", fake_run)
    monkeypatch.setenv("CITEWIRE_GATEWAY_DSN", "postgresql://somewhere")
    result = run("keys", "create", "--org", "acme", "--user", "ann", "--plan", "pro", "--name", "laptop", "--json")
    assert result.exit_code == 5
    ((command, environ),) = calls
    assert command[:3] == [sys.executable, "-m", "citewire_gateway"]
    expected = ["keys", "create", "--org", "acme", "--user", "ann", "--plan", "pro", "--name", "laptop", "--json"]
    assert command[3:] == expected
    assert environ["CITEWIRE_GATEWAY_DSN"] == "postgresql://somewhere"


def test_keys_need_a_database(run: Run) -> None:
    result = run("keys", "list")
    assert result.exit_code == 3
    assert "CITEWIRE_GATEWAY_DSN" in result.stderr


def test_help_documents_the_exit_codes(run: Run) -> None:
    text = " ".join(run("--help").stdout.split())
    for part in ("0 done", "1 the answer", "2 wrong usage", "3 the gateway", "4 not authorised", "5 not found", "130"):
        assert part in text


def test_version(run: Run) -> None:
    assert run("--version").stdout.startswith("citewire 0.")


def test_response_that_is_not_json(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/search", Reply(content_type="text/html", chunks=(b"<html>",)))
    result = run("search", "x")
    assert result.exit_code == 3
    assert "not a Citewire gateway" in result.stderr


def test_eval_without_its_package_says_how_to_install_it() -> None:
    # In a fresh process, because the command is looked up when the module is loaded.
    code = "\n".join(
        [
            "import importlib.metadata as metadata, sys",
            "metadata.entry_points = lambda **_: ()",
            "from citewire_cli.app import app",
            "app(['eval', 'questions/', '--answers'])",
        ]
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "citewire-eval is missing" in done.stderr
    assert "make install" in done.stderr
