"""`citewire ingest` against a real HTTP server: its requests, how it resumes, and its reports."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console
from rich.progress import Progress

from citewire_cli import ingest as engine
from citewire_cli.commands.ingest import IngestProgress
from citewire_cli.errors import CliError
from citewire_cli.files import Source, find_sources
from citewire_cli.ingest import Target, idempotency_key
from citewire_cli.outcomes import Outcome
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
        path.write_bytes(b"\xff\xd8\xff\xe0" if path.suffix == ".jpg" else f"content of {name}".encode())
    return root


def names(*paths: Path) -> list[str]:
    return [source.name for source in find_sources(paths)[0]]


def test_folder_is_walked_and_omitted_files_are_named_with_reasons(folder: Path) -> None:
    (folder / "nothing.md").touch()
    (folder / "broken.md").symlink_to(folder / "gone.md")
    (folder / "link").symlink_to(folder / "deep")
    os.mkfifo(folder / "pipe")
    sources, left_out = find_sources([folder])
    assert [source.name for source in sources] == ["docs/a.txt", "docs/b.md", "docs/deep/er/c.CSV"]
    assert {entry.path.relative_to(folder).as_posix(): entry.reason for entry in left_out} == {
        ".git": "it is hidden",
        ".hidden.md": "it is hidden",
        "broken.md": "it is a broken link",
        "link": "it is a link to a folder",
        "node_modules": "it is a folder of installed packages",
        "nothing.md": "it is empty",
        "photo.jpg": "it is a JPEG image",
        "pipe": "it isn't a regular file",
    }


def test_content_decides_and_not_the_name(tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    text = ("LICENSE", "Makefile", "a.ipynb", "a.org", "a.adoc", "main.tf", "go.mod", "x.unheard-of", "no-suffix")
    for name in text:
        (folder / name).write_text("Some text, größer.\n")
    (folder / "latin.dat").write_bytes("größer als zuvor\n".encode("latin-1"))
    (folder / "wide").write_bytes("wide text\n".encode("utf-16-le"))
    (folder / "paper").write_bytes(b"%PDF-1.7\n\0\1\2")
    binary = {
        "a.md": (b"\x89PNG\r\n\x1a\n\0", "it is a PNG image"),
        "b.txt": (b"7z\xbc\xaf\x27\x1c\0", "it is a 7z archive"),
        "c.py": (bytes(range(256)), "it contains binary data"),
        "d.csv": (b"\x01\x02\x03\x04" * 50, "it contains binary data"),
    }
    for name, (content, _) in binary.items():
        (folder / name).write_bytes(content)
    sources, left_out = find_sources([folder])
    assert {source.path.name for source in sources} == {*text, "latin.dat", "wide", "paper"}
    assert {entry.path.name: entry.reason for entry in left_out} == {n: reason for n, (_, reason) in binary.items()}


def test_unreadable_files_are_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object, **__: object) -> object:
        if path.name == ".citewireignore":
            raise FileNotFoundError
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "open", refuse)  # root could read a file of mode 0
    sources, left_out = find_sources([folder])
    assert sources == []
    assert ("b.md", "it cannot be read: Permission denied") in [(e.path.name, e.reason) for e in left_out]


def test_named_file_is_uploaded_once_whatever_its_type(folder: Path) -> None:
    (folder / ".git").rename(folder / "git")
    assert names(folder / "photo.jpg", folder / "b.md", folder) == [
        "photo.jpg",
        "b.md",
        "docs/a.txt",
        "docs/deep/er/c.CSV",
        "docs/git/d.md",
    ]


def test_names_begin_with_the_repository_from_any_folder_in_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ["docs/a.txt", "docs/b.md", "docs/deep/er/c.CSV"]
    assert names(folder) == whole  # it has a .git
    assert names(folder / "deep") == whole[2:]
    assert names(folder / "b.md") == ["docs/b.md"]
    monkeypatch.chdir(folder / "deep")
    assert names(Path()) == names(Path("../deep")) == whole[2:]


def test_folder_that_links_to_itself_is_walked_once(folder: Path) -> None:
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
        idempotency_key("h", "n", Target(fields={"valid_until": "2027-12-31"})),
        idempotency_key("h", "n", Target(), described={"metadata": '{"sync_source":"a"}'}),
        idempotency_key("h", "n", Target(), described={"metadata": '{"sync_source":"b"}'}),
        idempotency_key("h", "n", Target(None, ("c", "d"))),
    ]
    assert len(set(keys)) == len(keys)
    assert idempotency_key("h", "n", Target(None, ("d", "c"))) == keys[-1]


def test_upload_and_wait(library: FakeLibrary, run: Run, folder: Path) -> None:
    result = run("ingest", str(folder), "--collection", "hr", "--tag", "x", "--tag", "y, z")
    assert result.exit_code == 0, result.output
    assert result.stdout == "3 files: 3 ready (9 chunks), 4 left out.\n"
    assert f"Left out: {folder}/photo.jpg: it is a JPEG image\n" in result.stderr
    assert library.names() == ["docs/a.txt", "docs/b.md", "docs/deep/er/c.CSV"]
    for document in library.documents.values():
        assert document.form["collection"] == "hr"
        assert tags_of(document) == ["x", "y, z"]
    assert {document.content.decode() for document in library.documents.values()} == {
        "content of a.txt",
        "content of b.md",
        "content of deep/er/c.CSV",
    }
    roots = {tuple(json.loads(document.form["metadata"])) for document in library.documents.values()}
    assert roots == {("root",)}
    assert str(folder.parent) not in str([document.form for document in library.documents.values()])


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
    assert library.names() == ["docs/a.txt", "docs/b.md", "docs/b.md", "docs/deep/er/c.CSV"]


def test_an_outdated_version_that_stays_is_reported(library: FakeLibrary, run: Run, folder: Path) -> None:
    assert run("ingest", str(folder)).exit_code == 0
    (folder / "b.md").write_text("changed")
    assert "which --update would have replaced: docs/b.md" in run("ingest", str(folder)).stderr
    assert "--update" not in run("ingest", str(folder)).stderr
    assert len(library.documents) == 4


@pytest.mark.parametrize("repository", [True, False])
def test_update_from_any_folder_finds_the_document(
    library: FakeLibrary, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: bool
) -> None:
    root = tmp_path / "handbook"
    files = [root / "README.md", root / "hr/README.md", root / "hr/pay/README.md"]
    for number, file in enumerate(files):
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(f"first {number}")
    if repository:
        (root / ".git").mkdir()
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    # From a folder below, above or elsewhere, or with a single file, the same three documents are found.
    arguments = [(root / "hr", "."), (elsewhere, "../handbook"), (tmp_path, "handbook/hr/pay"), (root, "hr/README.md")]
    expected: list[str] = []
    for turn, (folder, path) in enumerate(arguments):
        monkeypatch.chdir(folder)
        for number, file in enumerate(files):
            file.write_text(f"turn {turn} {number}")
        assert run("ingest", path, "--update").exit_code == 0
        expected = expected or library.names()
        assert len(library.documents) == (2 if turn == 0 else 3)
    assert len(set(library.names())) == 3, "the names must differ"
    assert all(name in library.names() for name in expected), "the names must not change"


def test_two_folders_with_the_same_names_are_separate(library: FakeLibrary, run: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "README.md").write_text(name)
        assert run("ingest", str(tmp_path / name), "--update").exit_code == 0
    assert library.names() == ["one/README.md", "two/README.md"]


def test_deleted_document_is_uploaded_again(library: FakeLibrary, run: Run, folder: Path) -> None:
    assert run("ingest", str(folder / "b.md")).exit_code == 0
    library.documents.clear()
    assert run("ingest", str(folder / "b.md")).exit_code == 0
    assert library.names() == ["docs/b.md"]


def test_file_that_changes_back_and_forth_is_sent_each_time(library: FakeLibrary, run: Run, folder: Path) -> None:
    for content in (b"one", b"two", b"one", b"two"):
        (folder / "b.md").write_bytes(content)
        assert run("ingest", str(folder / "b.md"), "--update").exit_code == 0
        assert [document.content for document in library.documents.values()] == [content]


def test_failed_document_is_retried(gateway: FakeGateway, run: Run, folder: Path) -> None:
    library = FakeLibrary(gateway, lambda _name: ["pending", "failed"])
    assert run("ingest", str(folder / "b.md"), "--no-wait").exit_code == 0
    library.documents[1].steps = ["failed"]
    assert run("ingest", str(folder / "b.md")).exit_code == 0
    assert library.retried == [1]


def test_failures_are_named_and_the_rest_is_done(gateway: FakeGateway, run: Run, folder: Path) -> None:
    library = FakeLibrary(gateway, lambda name: ["pending", "pending", "failed" if name == "docs/b.md" else "ready"])
    (folder / "empty.md").touch()
    result = run("ingest", str(folder), str(folder / "empty.md"))
    assert result.exit_code == 1
    assert "b.md: The document cannot be read: The file is empty." in result.stderr
    assert "empty.md: The file is empty" in result.stderr
    assert "4 files: 2 ready (6 chunks), 2 failed" in result.stdout
    assert library.names() == ["docs/a.txt", "docs/b.md", "docs/deep/er/c.CSV"]


def test_json(gateway: FakeGateway, run: Run, folder: Path) -> None:
    FakeLibrary(gateway, lambda name: ["failed" if name == "docs/b.md" else "ready"], after_retry=["failed"])
    result = run("ingest", str(folder / "a.txt"), "--json")
    assert json.loads(result.stdout) == {
        "documents": [{"path": str(folder / "a.txt"), "name": "docs/a.txt", "id": 1, "status": "ready", "chunks": 3}],
        "skipped": 0,
        "left_out": [],
    }
    whole = json.loads(run("ingest", str(folder), "--json").stdout)
    assert {"path": str(folder / "photo.jpg"), "reason": "it is a JPEG image"} in whole["left_out"]
    assert whole["skipped"] == len(whole["left_out"]) == 4
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


def test_overload_is_retried_after_a_pause(
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


def test_lost_answer_does_not_duplicate_the_document(
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


def test_key_still_held_by_an_earlier_try_is_waited_for(
    library: FakeLibrary, gateway: FakeGateway, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "TRIES", 1)
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
    monkeypatch.setattr(engine, "TRIES", 1)
    assert run("ingest", str(folder), "--url", "http://127.0.0.1:1").exit_code == 3


def test_waiting_without_progress_ends(gateway: FakeGateway, run: Run, folder: Path) -> None:
    FakeLibrary(gateway, lambda _name: ["processing"])
    result = run("ingest", str(folder / "b.md"), "--patience", "1")
    assert result.exit_code == 1
    assert "Not ready yet (processing)" in result.stderr


def test_nothing_to_upload(run: Run, tmp_path: Path) -> None:
    assert run("ingest", str(tmp_path)).exit_code == 2


def test_progress_without_a_terminal_is_a_line_from_time_to_time() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=False)
    source = Source(Path("a.md"), "a.md", Path("/"))
    with IngestProgress(2, wait=True, quiet=False, console=console, every=0.001) as progress:
        progress.uploaded(Outcome(source))
        progress.uploaded(Outcome(source, error=CliError("refused")))
        while "2 uploaded, 1 ready of 2\n" not in written.getvalue():
            pass
    lines = len(written.getvalue())
    assert "\x1b" not in written.getvalue()
    assert len(written.getvalue()) == lines
    quiet = io.StringIO()
    with IngestProgress(1, wait=True, quiet=True, console=Console(file=quiet), every=0.001) as progress:
        progress.uploaded(Outcome(source))
    assert quiet.getvalue() == ""


def test_the_rate_and_the_remaining_time_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the last half minute: a file a second at first, ten later; nothing at the beginning and the end."""
    now = 0.0
    written = io.StringIO()
    console = Console(file=written, force_terminal=False, width=200)
    progress = IngestProgress(400, wait=True, quiet=False, console=console, every=0.001)
    bars = cast("Progress", vars(progress)["_progress"])
    monkeypatch.setattr(bars, "get_time", lambda: now)

    def lines() -> set[str]:
        written.seek(0)
        written.truncate()
        while written.getvalue().count("\n") < 3:
            time.sleep(0.001)
        return set(written.getvalue().splitlines()[1:-1])

    source = Source(Path("a.md"), "a.md", Path("/"))
    with progress:
        assert lines() == {"0 uploaded, 0 ready of 400"}
        for pause, count, expected in (
            (1.0, 100, "100 uploaded, 100 ready of 400, 1.0 a second, 5 min left"),
            (0.1, 299, "399 uploaded, 399 ready of 400, 10.0 a second, 1 s left"),
            (0.1, 1, "400 uploaded, 400 ready of 400"),
        ):
            for _ in range(count):
                now += pause
                progress.uploaded(Outcome(source))
                progress.settled(Outcome(source))
            assert lines() == {expected}


def test_the_gateway_fetches_an_address_once(library: FakeLibrary, run: Run, folder: Path) -> None:
    address = "https://example.org/report.pdf?x=1"
    result = run("ingest", str(folder / "a.txt"), address, address, "--collection", "hr", "--tag", "x")
    assert result.exit_code == 0, result.output
    assert result.stdout == "2 files: 2 ready (6 chunks).\n"
    fetched = next(document for document in library.documents.values() if document.form.get("url"))
    assert (fetched.form["url"], fetched.form["collection"], tags_of(fetched)) == (address, "hr", ["x"])

    assert run("ingest", address, "--collection", "hr").stdout == "1 file: 1 ready (3 chunks).\n"
    assert (len(library.documents), library.versions) == (2, 0)
    assert run("ingest", address, "--collection", "hr", "--update").exit_code == 0
    assert (len(library.documents), library.versions) == (2, 1)


def test_a_refused_address_is_reported(gateway: FakeGateway, run: Run) -> None:
    FakeLibrary(gateway)
    why = "url: the server at this address answered 404"
    gateway.on("POST", "/v1/documents", lambda _: reply_problem(422, why, reason="SOURCE_FAILED"))
    result = run("ingest", "https://example.org/gone")
    assert result.exit_code == 1
    assert "https://example.org/gone" in result.stderr
    assert "answered 404" in result.stderr


def test_documents_get_their_validity(library: FakeLibrary, run: Run, folder: Path) -> None:
    file = str(folder / "a.txt")
    assert run("ingest", file, "--valid-from", "2027-01-01", "--valid-until", "2027-12-31").exit_code == 0
    form = library.documents[1].form
    assert (form["valid_from"], form["valid_until"]) == ("2027-01-01", "2027-12-31")
    before = datetime.now(UTC)
    assert run("ingest", file, "https://example.org/a", "--expires", "30d").exit_code == 0  # one is there already
    assert [document.form["url"] for document in library.documents.values() if "url" in document.form]
    for document in library.documents.values():
        end = datetime.fromisoformat(document.form["valid_until"])
        assert timedelta(days=30) - timedelta(seconds=1) <= end - before < timedelta(days=30, minutes=5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--valid-from", "soon"], "--valid-from is neither a day nor a time: soon"),
        (["--valid-until", "31.12.2027"], "Write a day (2027-12-31)"),
        (["--expires", "a month"], "such as 12h, 30d or 8w"),
        (["--expires", "30d", "--valid-until", "2027-12-31"], "be combined"),
    ],
)
def test_a_validity_that_cannot_be_read_is_wrong_usage(run: Run, folder: Path, options: list[str], says: str) -> None:
    result = run("ingest", str(folder / "a.txt"), *options)
    assert result.exit_code == 2
    assert says in " ".join(result.stderr.split())
