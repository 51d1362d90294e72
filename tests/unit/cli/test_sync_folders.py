"""`citewire sync` of folders that nobody tidied up: locked ones, odd names, links, and those that are gone."""

from __future__ import annotations

import json
import os
import pwd
import tempfile
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import pytest
from httpx._multipart import FileField  # the step between announcing a length and reading

from citewire_cli import ingest
from citewire_cli.errors import CliError
from citewire_cli.sync import watch
from citewire_cli.sync.folder import Folder, Listing
from cli_types import Run
from fake_gateway import FakeGateway, Reply, Request
from fake_library import FakeLibrary

NOBODY = 65_534


@contextmanager
def as_nobody() -> Generator[None]:
    """No mode keeps the administrator out."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def share() -> Iterator[Path]:
    """A folder that everybody can reach, unlike `tmp_path`."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


def reasons(listing: Listing, root: Path) -> dict[str, str]:
    return {entry.path.relative_to(root).as_posix(): entry.reason for entry in listing.left_out}


@pytest.mark.parametrize("mode", [0o000, 0o400, 0o444])
def test_a_folder_that_cannot_be_entered_is_listed_and_hides_nothing_else(share: Path, mode: int) -> None:
    for name in ("a/x.md", "locked/y.md", "locked/z/w.md", "other.md"):
        (share / name).parent.mkdir(parents=True, exist_ok=True)
        (share / name).write_text(name)
    (share / "locked").chmod(mode)
    try:
        with as_nobody():
            listing = Folder(share).read()
    finally:
        (share / "locked").chmod(0o755)
    assert sorted(listing.files) == ["a/x.md", "other.md"]
    assert reasons(listing, share) == {"locked": "it cannot be read: Permission denied"}
    assert listing.is_unseen("locked/y.md")


def test_names_that_cannot_be_sent_are_listed(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    library = FakeLibrary(gateway)
    folder = tmp_path / "folder"
    deep = folder.joinpath(*["d" * 200] * 4, f"{'too-deep' * 30}.md")
    deep.parent.mkdir(parents=True)
    deep.write_text("deep")
    for name in (b"latin-\xe4.md", b"two\nlines.md", b"back\\slash.md", b"-c.md", "ja\u0308hrlich.md".encode()):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(name)
    result = run("sync", str(folder), "-c", "notes")
    assert (result.exit_code, library.names()) == (0, ["-c.md", "ja\u0308hrlich.md"])
    lines = result.stderr.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("Left out: ") for line in lines)
    result = run("sync", str(folder), "-c", "notes", "--json")
    left_out = {Path(entry["path"]).name: entry["reason"] for entry in json.loads(result.stdout)["left_out"]}
    assert left_out == {
        "latin-\udce4.md": "its name isn't valid UTF-8",
        "two\nlines.md": "its path contains a backslash or a control character",
        "back\\slash.md": "its path contains a backslash or a control character",
        deep.name: "its path has more than 1000 characters",
    }


def test_a_link_is_read_by_those_who_can_reach_its_target(share: Path) -> None:
    """Otherwise whoever may write to a synced folder could publish what only the syncing user can read."""
    (share / "home/private").mkdir(parents=True)
    (share / "home/private/pay.md").write_text("salaries")
    (share / "home/private").chmod(0o700)
    (share / "synced").mkdir()
    (share / "synced/own.md").write_text("for all")
    (share / "synced/pay.md").symlink_to(share / "home/private/pay.md")
    (share / "synced/near.md").symlink_to("own.md")
    files = Folder(share / "synced", permissions=True).read().files
    me = f"user:{pwd.getpwuid(os.getuid()).pw_name}"
    assert {name: file.readers for name, file in files.items()} == {"near.md": (), "pay.md": (me,)}


def test_an_empty_folder_deletes_nothing(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    """Where a share isn't mounted, its folder is empty."""
    library = FakeLibrary(gateway)
    folder = tmp_path / "share"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text(name)
    command = ("sync", str(folder), "-c", "notes")
    assert run(*command).exit_code == 0
    folder.rename(tmp_path / "away")
    folder.mkdir()
    result = run(*command)
    assert (result.exit_code, library.names()) == (2, ["a.md", "b.md"])
    assert "2 of 2 documents would be deleted" in result.stderr
    dry = run(*command, "--dry-run")
    assert (dry.exit_code, library.names()) == (2, ["a.md", "b.md"])
    assert sorted(dry.stdout.splitlines()) == ["- a.md", "- b.md", "2 deleted, 0 unchanged. Nothing was done."]
    assert "2 of 2 documents would be deleted" in dry.stderr
    assert run(*command, "--allow-deletions").exit_code == 0
    assert library.names() == []


def test_two_sources_may_hold_the_same_file(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    """Such as a licence: the gateway refuses a key that was used for another request."""
    library = FakeLibrary(gateway)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "LICENSE").write_text("Permission is hereby granted")
        result = run("sync", str(tmp_path / name), "-c", "code", "--name", name)
        assert result.exit_code == 0, result.stderr
    assert library.names() == ["LICENSE", "LICENSE"]
    assert "1 unchanged" in run("sync", str(tmp_path / "two"), "-c", "code", "--name", "two").stdout


@pytest.mark.parametrize("size", [5, 2_000_000], ids=["shorter", "longer"])
def test_a_file_that_changes_while_it_is_sent_is_one_failure(
    run: Run, gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Such as one that is still being copied: its length was announced before its bytes are read."""
    library = FakeLibrary(gateway)
    for name in ("a.md", "changing.md", "z.md"):
        (tmp_path / name).write_text(f"{name} " * 20_000)
    render = FileField.render_data

    def render_later(field: FileField) -> Iterator[bytes]:
        if field.filename == "changing.md":
            with (tmp_path / "changing.md").open("r+b") as file:
                file.truncate(size)
        yield from render(field)

    with monkeypatch.context() as patched:
        patched.setattr(FileField, "render_data", render_later)
        result = run("sync", str(tmp_path), "-c", "notes")
    assert (result.exit_code, library.names()) == (1, ["a.md", "z.md"])
    assert "changing.md  The file cannot be read: it changed while it was being sent" in result.stderr
    (tmp_path / "changing.md").write_text("whole")
    assert run("sync", str(tmp_path), "-c", "notes").exit_code == 0
    assert library.names() == ["a.md", "changing.md", "z.md"]


def test_rules_with_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    """Windows' editor writes one; git ignores it too."""
    for name in ("secret.md", "open.md"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".citewireignore").write_text("secret.md\n", encoding="utf-8-sig")
    assert list(Folder(tmp_path).read().files) == ["open.md"]


async def test_a_locked_folder_does_not_end_watching(share: Path) -> None:
    (share / "locked").mkdir(mode=0o000)
    with as_nobody():
        async with aclosing(watch.ticks(share, polling=False, pause=lambda: 0.5)) as ticks:
            await anext(ticks)  # by the pause: what is to be watched is known by then, or an error
            await anext(ticks)


async def test_a_limit_of_watches_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_more(*_: object, **__: object) -> AsyncGenerator[object]:
        raise OSError("OS file watch limit reached")
        yield

    monkeypatch.setattr(watch, "awatch", no_more)
    async with aclosing(watch.ticks(tmp_path, polling=False, pause=lambda: 60)) as ticks:
        with pytest.raises(CliError, match=r"can't be watched: OS file watch limit reached.*--poll"):
            await anext(ticks)


def test_folders_without_end_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a script makes them that copies a folder into itself."""
    (tmp_path / "top.md").write_text("top")
    monkeypatch.chdir(tmp_path)
    for _ in range(1200):
        os.mkdir("d")  # noqa: PTH102 # their path is too long to be named
        os.chdir("d")
    try:
        listing = Folder(tmp_path).read()
    finally:
        for _ in range(1200):  # what removes the tests' folders can't
            os.chdir("..")
            os.rmdir("d")  # noqa: PTH106 # their path is too long to be named
    assert list(listing.files) == ["top.md"]
    assert [entry.reason for entry in listing.left_out] == ["its path has more than 1000 characters"]


def test_a_file_that_the_gateway_breaks_off_is_one_failure(
    run: Run, gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for one that is too large: its sender still sends when the connection is closed, and reads no response."""
    monkeypatch.setattr(ingest, "TRIES", 2)
    library = FakeLibrary(gateway)
    store = gateway.answer_of("POST", "/v1/documents")

    def refuse(request: Request) -> Reply:
        return Reply(413, chunks=(b"{}",), cut=True) if b"too much" in request.body else store(request)

    gateway.on("POST", "/v1/documents", refuse)
    for name, content in {"a.md": "a", "big.md": "too much", "z.md": "z"}.items():
        (tmp_path / name).write_text(content)
    result = run("sync", str(tmp_path), "-c", "notes")
    assert (result.exit_code, library.names()) == (1, ["a.md", "z.md"])
    assert "upload  big.md  The upload broke off each time" in result.stderr
