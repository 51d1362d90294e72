"""`citewire ingest` against a real HTTP server: what is sent, how it resumes, how it reports."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from citewire_cli import ingest as engine
from citewire_cli.errors import CliError
from citewire_cli.ingest import Target, find_sources, idempotency_key
from cli_types import Run
from fake_gateway import FakeGateway, Reply, Request, reply_problem
from fake_library import FakeLibrary, tags_of


@pytest.fixture
def library(gateway: FakeGateway) -> FakeLibrary:
    return FakeLibrary(gateway)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    for name in ("b.md", "a.txt", "deep/er/c.CSV", "photo.jpg", ".hidden.md", ".git/d.md", "node_modules/e.js"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {name}")
    return root


def test_folder_is_walked(folder: Path) -> None:
    sources, skipped = find_sources([folder])
    assert [source.name for source in sources] == ["a.txt", "b.md", "deep/er/c.CSV"]
    assert skipped == 1


def test_named_file_is_taken_whatever_its_type_and_once(folder: Path) -> None:
    sources, _ = find_sources([folder / "photo.jpg", folder / "b.md", folder])
    assert [source.name for source in sources] == ["photo.jpg", "b.md", "a.txt", "deep/er/c.CSV"]


def test_folder_that_contains_itself_by_a_link_ends(folder: Path) -> None:
    (folder / "deep" / "loop").symlink_to(folder)
    sources, _ = find_sources([folder])
    assert len(sources) == 3


def test_missing_path_is_wrong_usage(folder: Path) -> None:
    with pytest.raises(CliError, match=r"No such file.*nothing\.md"):
        find_sources([folder / "nothing.md"])


def test_key_depends_on_everything_that_is_sent() -> None:
    keys = [
        idempotency_key("h", "n", Target()),
        idempotency_key("i", "n", Target()),
        idempotency_key("h", "m", Target()),
        idempotency_key("h", "n", Target("c")),
        idempotency_key("h", "n", Target(None, ("c",))),
        idempotency_key("h", "n", Target(None, ("c", "d"))),
    ]
    assert len(set(keys)) == len(keys)
    assert idempotency_key("h", "n", Target(None, ("d", "c"))) == keys[-1]


def test_upload_and_wait(library: FakeLibrary, run: Run, folder: Path) -> None:
    result = run("ingest", str(folder), "--collection", "hr", "--tag", "x", "--tag", "y, z")
    assert result.exit_code == 0, result.output
    assert result.stdout == "3 files: 3 ready (9 chunks), 1 files of other types left out.\n"
    assert library.names() == ["a.txt", "b.md", "c.CSV"]
    for document in library.documents.values():
        assert document.form["collection"] == "hr"
        assert tags_of(document) == ["x", "y, z"]
    assert {document.content.decode() for document in library.documents.values()} == {
        "content of a.txt",
        "content of b.md",
        "content of deep/er/c.CSV",
    }
    paths = {document.file_name: document.form.get("metadata") for document in library.documents.values()}
    assert paths == {"a.txt": None, "b.md": None, "c.CSV": '{"path": "deep/er/c.CSV"}'}


def test_second_run_sends_nothing_twice(library: FakeLibrary, gateway: FakeGateway, run: Run, folder: Path) -> None:
    assert run("ingest", str(folder)).exit_code == 0
    posts = len(gateway.received("POST", "/v1/documents"))
    assert posts == 3
    result = run("ingest", str(folder))
    assert result.exit_code == 0
    assert "3 ready" in result.stdout
    assert len(gateway.received("POST", "/v1/documents")) == posts
    assert len(library.documents) == 3


def test_same_file_in_another_collection_is_another_document(library: FakeLibrary, run: Run, folder: Path) -> None:
    for collection in ([], ["-c", "one"], ["-c", "two"], ["-c", "two"]):
        assert run("ingest", str(folder / "b.md"), *collection).exit_code == 0
    assert [document.form.get("collection") for document in library.documents.values()] == [None, "one", "two"]


def test_changed_file_is_another_document_unless_it_is_an_update(library: FakeLibrary, run: Run, folder: Path) -> None:
    assert run("ingest", str(folder)).exit_code == 0
    (folder / "b.md").write_text("changed")
    (folder / "deep/er/c.CSV").write_text("changed,too")
    assert run("ingest", str(folder), "--update").exit_code == 0
    assert (len(library.documents), library.versions) == (3, 2)
    assert {document.content for document in library.documents.values()} == {
        b"content of a.txt",
        b"changed",
        b"changed,too",
    }
    (folder / "b.md").write_text("changed again")
    assert run("ingest", str(folder)).exit_code == 0
    assert library.names() == ["a.txt", "b.md", "b.md", "c.CSV"]


def test_document_that_was_deleted_comes_back(library: FakeLibrary, run: Run, folder: Path) -> None:
    assert run("ingest", str(folder / "b.md")).exit_code == 0
    library.documents.clear()
    assert run("ingest", str(folder / "b.md")).exit_code == 0
    assert library.names() == ["b.md"]


def test_document_that_failed_is_tried_again(gateway: FakeGateway, run: Run, folder: Path) -> None:
    library = FakeLibrary(gateway, lambda _name: ["pending", "failed"])
    assert run("ingest", str(folder / "b.md"), "--no-wait").exit_code == 0
    library.documents[1].steps = ["failed"]
    assert run("ingest", str(folder / "b.md")).exit_code == 0
    assert library.retried == [1]


def test_failures_are_named_and_the_rest_is_done(gateway: FakeGateway, run: Run, folder: Path) -> None:
    library = FakeLibrary(gateway, lambda name: ["pending", "pending", "failed" if name == "b.md" else "ready"])
    (folder / "empty.md").touch()
    result = run("ingest", str(folder))
    assert result.exit_code == 1
    assert "b.md: The document cannot be read: The file is empty." in result.stderr
    assert "empty.md: The file is empty" in result.stderr
    assert "4 files: 2 ready (6 chunks), 2 failed" in result.stdout
    assert library.names() == ["a.txt", "b.md", "c.CSV"]


def test_json(gateway: FakeGateway, run: Run, folder: Path) -> None:
    FakeLibrary(gateway, lambda name: ["failed" if name == "b.md" else "ready"], after_retry=["failed"])
    result = run("ingest", str(folder / "a.txt"), "--json")
    assert json.loads(result.stdout) == {
        "documents": [{"path": str(folder / "a.txt"), "id": 1, "status": "ready", "chunks": 3}],
        "skipped": 0,
    }
    result = run("ingest", str(folder / "b.md"), "--json")
    assert result.exit_code == 1
    (document,) = json.loads(result.stdout)["documents"]
    assert document["status"] == "failed"
    assert document["error"]["reason"] == "DOCUMENT_EMPTY"


def test_no_wait(library: FakeLibrary, gateway: FakeGateway, run: Run, folder: Path) -> None:
    result = run("ingest", str(folder), "--no-wait")
    assert result.exit_code == 0
    assert "3 accepted" in result.stdout
    assert len(library.documents) == 3
    del gateway


def test_overload_is_waited_out(
    library: FakeLibrary, gateway: FakeGateway, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def no_sleep(seconds: float) -> None:
        pauses.append(seconds)

    answers = iter([Reply(503, headers={"Retry-After": "3"}), Reply(502), None])

    def overloaded(request: Request) -> Reply:
        return next(answers) or library_post(request)

    library_post = gateway.answer_of("POST", "/v1/documents")
    gateway.on("POST", "/v1/documents", overloaded)
    monkeypatch.setattr(asyncio, "sleep", no_sleep)
    assert run("ingest", str(folder / "b.md")).exit_code == 0
    assert pauses[:2] == [3.0, 6.0]
    requests = gateway.received("POST", "/v1/documents")
    assert len(requests) == 3
    assert len({(request.headers["idempotency-key"], request.body) for request in requests}) == 1


def test_lost_answer_does_not_double_the_document(
    library: FakeLibrary, gateway: FakeGateway, run: Run, folder: Path
) -> None:
    library_post = gateway.answer_of("POST", "/v1/documents")
    lost = threading.Event()

    def lossy(request: Request) -> Reply:
        answer = library_post(request)
        if lost.is_set():
            return answer
        lost.set()
        return Reply(202, chunks=(b'{"id"',), cut=True)

    gateway.on("POST", "/v1/documents", lossy)
    assert run("ingest", str(folder / "b.md")).exit_code == 0
    assert len(library.documents) == 1


def test_key_that_an_earlier_try_still_holds_is_waited_for(
    library: FakeLibrary, gateway: FakeGateway, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "UPLOAD_TRIES", 1)
    library_post = gateway.answer_of("POST", "/v1/documents")
    busy = reply_problem(409, "Conflict", reason="IDEMPOTENCY_IN_PROGRESS")
    answers = iter([busy, None])
    gateway.on("POST", "/v1/documents", lambda request: next(answers) or library_post(request))
    assert run("ingest", str(folder / "b.md")).exit_code == 0
    gateway.on("POST", "/v1/documents", busy)
    monkeypatch.setattr(engine, "KEY_LEASE_SECONDS", 0.1)
    result = run("ingest", str(folder / "a.txt"))
    assert result.exit_code == 1
    assert len(library.documents) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_not_authorised_ends_at_once(
    library: FakeLibrary, gateway: FakeGateway, run: Run, folder: Path, method: str
) -> None:
    gateway.on(method, "/v1/documents", Reply(401))
    assert run("ingest", str(folder)).exit_code == 4
    assert library.documents == {}


def test_unreachable(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "UPLOAD_TRIES", 1)
    assert run("ingest", str(folder), "--url", "http://127.0.0.1:1").exit_code == 3


def test_waiting_without_progress_ends(gateway: FakeGateway, run: Run, folder: Path) -> None:
    FakeLibrary(gateway, lambda _name: ["processing"])
    result = run("ingest", str(folder / "b.md"), "--patience", "1")
    assert result.exit_code == 1
    assert "Not ready yet (processing)" in result.stderr


def test_nothing_to_upload(run: Run, tmp_path: Path) -> None:
    assert run("ingest", str(tmp_path)).exit_code == 2
