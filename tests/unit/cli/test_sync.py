"""`citewire sync`: comparison, refusals, and the requests to a real HTTP server."""

from __future__ import annotations

import grp
import json
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_cli.files import Source, find_sources, sha256_of
from citewire_cli.jsonio import JsonObject
from citewire_cli.sync import readers
from citewire_cli.sync.folder import Folder
from citewire_cli.sync.plan import SyncFile, compare
from cli_types import Run
from fake_gateway import FakeGateway, reply_problem
from fake_library import FakeLibrary

NAMES = [f"{folder}{name}{ending}" for folder in ("", "a/", "b/") for name in "xy" for ending in (".md", ".txt")]


def sync_file(name: str, content: str, url: str = "", readers: tuple[str, ...] = ()) -> SyncFile:
    return SyncFile(Source(Path("/f") / name, name, Path("/f")), content, url, readers)


def stored_document(number: int, name: str, content: str, **more: object) -> JsonObject:
    return {"id": number, "file_name": name, "sha256": content, "status": "ready", "readers": [], **more}


def nothing_unseen(_: str) -> bool:
    return False


contents = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["1", "2", "3"]))


@given(before=contents, after=contents, doubled=st.lists(st.sampled_from(NAMES), max_size=3))
def test_a_plan_makes_the_library_equal_to_the_folder(
    before: dict[str, str], after: dict[str, str], doubled: list[str]
) -> None:
    documents = [stored_document(number, name, content) for number, (name, content) in enumerate(before.items(), 10)]
    documents += [stored_document(number, name, "old") for number, name in enumerate(doubled, 100) if name in before]
    plan = compare({name: sync_file(name, content) for name, content in after.items()}, documents, nothing_unseen)
    library = {
        int(str(document["id"])): (str(document["file_name"]), str(document["sha256"])) for document in documents
    }
    for file, document in plan.moved:
        number = int(str(document["id"]))
        assert library[number][1] == file.sha256
        assert library[number][0].rpartition(".")[2] == file.source.name.rpartition(".")[2]
        library[number] = (file.source.name, file.sha256)
    for document in plan.vanished:
        del library[int(str(document["id"]))]
    for file in plan.changed:
        (number,) = (number for number, (name, _) in library.items() if name == file.source.name)
        library[number] = (file.source.name, file.sha256)
    for number, file in enumerate(plan.new, 1000):
        library[number] = (file.source.name, file.sha256)
    assert sorted(library.values()) == sorted(after.items())
    assert plan.unchanged == len(before.items() & after.items())


def test_documents_that_cannot_be_seen_now_stay() -> None:
    documents = [stored_document(1, "share/a.md", "1"), stored_document(2, "shared.md", "2")]
    plan = compare({}, documents, lambda path: path.startswith("share/"))
    assert [document["id"] for document in plan.vanished] == [2]


def test_descriptions_are_compared_too() -> None:
    files = {
        "a.md": sync_file("a.md", "1", url="https://w/a.md", readers=("group:hr",)),
        "b.md": sync_file("b.md", "2"),
    }
    documents = [stored_document(1, "a.md", "1"), stored_document(2, "b.md", "old", url="https://w/b.md")]
    plan = compare(files, documents, nothing_unseen)
    assert [file.source.name for file, _ in plan.redescribed] == ["a.md", "b.md"]
    assert [file.source.name for file in plan.changed] == ["b.md"]


def test_rules_of_a_folder_apply_below_it(tmp_path: Path) -> None:
    for name in ("a.log", "b.md", "keep/a.log", "keep/c.log", "deep/build/x.md", "deep/x.md", "deep/er/x.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    (tmp_path / ".citewireignore").write_text("# comments\n*.log\nbuild/\n/deep/er\n")
    (tmp_path / "keep/.citewireignore").write_text("!a.log\n")
    sources, left_out = find_sources([tmp_path], tmp_path)
    assert [source.name for source in sources] == ["b.md", "deep/x.md", "keep/a.log"]
    reasons = {entry.path.relative_to(tmp_path).as_posix(): entry.reason for entry in left_out}
    assert reasons.keys() == {"a.log", "keep/c.log", "deep/build", "deep/er"}
    assert "citewireignore" in reasons["deep/er"]


def test_rules_that_cannot_be_read_are_an_error(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    FakeLibrary(gateway)
    (tmp_path / ".citewireignore").write_bytes(b"\xff\xfe*")
    result = run("sync", str(tmp_path), "-c", "notes")
    assert (result.exit_code, gateway.received("GET", "/v1/documents")) == (2, [])
    assert ".citewireignore cannot be read" in result.stderr


def test_modes_become_readers(tmp_path: Path) -> None:
    (tmp_path / "open.md").write_text("for all")
    (tmp_path / "team.md").write_text("for the group")
    (tmp_path / "own.md").write_text("for me")
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed/open.md").write_text("in a folder that lets only its owner in")
    for name, mode in {"open.md": 0o644, "team.md": 0o640, "own.md": 0o600, "closed": 0o700}.items():
        (tmp_path / name).chmod(mode)
    (tmp_path / "closed/open.md").chmod(0o644)
    tmp_path.chmod(0o755)
    files = Folder(tmp_path, permissions=True).read().files
    me, us = (
        f"user:{pwd.getpwuid(os.getuid()).pw_name}",
        f"group:{grp.getgrgid((tmp_path / 'team.md').stat().st_gid).gr_name}",
    )
    assert {name: set(file.readers) for name, file in files.items()} == {
        "open.md": set(),
        "team.md": {me, us},
        "own.md": {me},
        "closed/open.md": {me},
    }


def test_readers_are_the_users_who_can_reach_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accounts made up here: ann and bob in `staff`, bob in `board` too, cat in neither."""
    users = {"root": (0, 0), "ann": (7001, 7101), "bob": (7002, 7102), "cat": (7003, 7103)}
    groups = {"staff": (7201, ["ann", "bob"]), "board": (7202, ["bob"])}

    def user(name: str) -> SimpleNamespace:
        return SimpleNamespace(pw_name=name, pw_uid=users[name][0], pw_gid=users[name][1])

    def group(gid: int) -> SimpleNamespace:
        name = next(name for name in groups if groups[name][0] == gid)
        return SimpleNamespace(gr_name=name, gr_mem=groups[name][1])

    def groups_of(name: str, own: int) -> list[int]:
        return [own, *(gid for gid, members in groups.values() if name in members)]

    def user_of(uid: int) -> SimpleNamespace:
        return user(next(name for name in users if users[name][0] == uid))

    monkeypatch.setattr(readers, "pwd", SimpleNamespace(getpwuid=user_of, getpwnam=user))
    monkeypatch.setattr(readers, "grp", SimpleNamespace(getgrgid=group))
    monkeypatch.setattr(os, "getgrouplist", groups_of)
    modes: dict[Path, tuple[int, str, str]] = {}
    everybody: set[str] = set()

    def status(path: Path) -> SimpleNamespace:
        mode, owner, gid = modes.get(path, (0o755, "cat", "staff"))
        return SimpleNamespace(st_mode=mode, st_uid=users[owner][0], st_gid=groups[gid][0])

    monkeypatch.setattr(Path, "stat", status)
    folder, file = tmp_path / "folder", tmp_path / "folder/file"
    for of_folder, of_file, expected in (
        ((0o755, "cat", "staff"), (0o644, "ann", "staff"), everybody),
        ((0o700, "cat", "staff"), (0o644, "ann", "staff"), {"user:cat"}),  # the file's owner can't reach it
        ((0o700, "cat", "staff"), (0o600, "ann", "staff"), {"user:root"}),  # nor can anybody else
        ((0o750, "cat", "board"), (0o640, "ann", "staff"), {"user:bob"}),  # through both of his groups
        ((0o750, "cat", "staff"), (0o640, "ann", "staff"), {"user:ann", "group:staff"}),  # cat isn't in that group
        ((0o750, "cat", "staff"), (0o644, "ann", "board"), {"user:ann", "user:cat", "group:staff"}),
        ((0o750, "ann", "board"), (0o640, "cat", "staff"), {"user:ann", "user:bob"}),  # cat isn't in the folder's group
        ((0o755, "cat", "staff"), (0o604, "cat", "staff"), {"user:cat"}),  # others may read it, but its group may not
        ((0o710, "cat", "staff"), (0o444, "bob", "board"), {"user:bob", "user:cat", "group:staff"}),
    ):
        modes |= {folder: of_folder, file: of_file}
        assert set(readers.Readers(tmp_path)(file)) == expected, (of_folder, of_file)


def test_only_what_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def recorded_sha256(path: Path) -> str:
        read.append(path.name)
        return sha256_of(path)

    monkeypatch.setattr("citewire_cli.sync.folder.sha256_of", recorded_sha256)
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(name)
    folder = Folder(tmp_path)
    before = folder.read().files["b.md"].sha256
    (tmp_path / "b.md").write_text("other")
    assert folder.read().files["b.md"].sha256 != before
    assert read == ["a.md", "b.md", "b.md"]


def test_a_folder_is_synchronised(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    library = FakeLibrary(gateway)
    for name in ("a.md", "b.md", "c/d.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"content of {name}")
    command = ("sync", str(tmp_path), "-c", "notes", "--url-prefix", "https://w/", "--name", "handbook")
    dry = run(*command, "--dry-run")
    assert "3 new, 0 unchanged. Nothing was done." in dry.stdout
    assert not library.documents
    assert "3 new, 0 unchanged." in run(*command).stdout
    assert library.names() == ["a.md", "b.md", "c/d.md"]
    assert {document.form["url"] for document in library.documents.values()} == {
        "https://w/a.md",
        "https://w/b.md",
        "https://w/c/d.md",
    }
    (tmp_path / "b.md").unlink()
    (tmp_path / "a.md").rename(tmp_path / "c/ä b.md")
    (tmp_path / "c/d.md").write_text("changed")
    report = json.loads(run(*command, "--json").stdout)
    assert report == {
        "new": [],
        "changed": ["c/d.md"],
        "moved": [{"from": "a.md", "to": "c/ä b.md"}],
        "described": [],
        "retried": [],
        "deleted": ["b.md"],
        "unchanged": 0,
        "failures": [],
        "left_out": [],
    }
    assert {d.file_name: (d.content, d.form["url"]) for d in library.documents.values()} == {
        "c/ä b.md": (b"content of a.md", "https://w/c/%C3%A4%20b.md"),
        "c/d.md": (b"changed", "https://w/c/d.md"),
    }
    assert run(*command).stdout == "2 unchanged.\n"
    other = run("sync", str(tmp_path), "-c", "notes", "--name", "another", "--dry-run", "--json")
    assert json.loads(other.stdout)["deleted"] == [], "documents of another source must be left alone"


def test_a_missing_folder_deletes_nothing(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    library = FakeLibrary(gateway)
    for number in range(12):
        (tmp_path / f"{number}.md").write_text(str(number))
    command = ("sync", str(tmp_path), "-c", "notes")
    assert run(*command).exit_code == 0
    for number in range(12):
        (tmp_path / f"{number}.md").unlink()
    refused = run(*command)
    assert (refused.exit_code, len(library.documents)) == (2, 12)
    assert "12 of 12 documents would be deleted" in refused.stderr
    assert "--allow-deletions" in refused.stderr
    assert run(*command, "--allow-deletions").exit_code == 0
    assert not library.documents
    assert run("sync", str(tmp_path / "gone"), "-c", "notes").exit_code == 2


def test_failures_are_listed_in_one_table_at_the_end(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    library = FakeLibrary(gateway, lambda name: ["pending", "pending", "failed" if name == "bad.md" else "ready"])
    for name in ("bad.md", "good.md", "locked.md"):
        (tmp_path / name).write_text(name)
    command = ("sync", str(tmp_path), "-c", "notes")
    first = run(*command)
    assert first.exit_code == 1
    assert [line.split(maxsplit=2)[:2] for line in first.stderr.splitlines()[-2:]] == [
        ["failed", "file"],
        ["upload", "bad.md"],
    ]
    gateway.on("DELETE", r"/v1/documents/\d+", lambda _: reply_problem(403, "You may not", reason="ACCESS_MISSING"))
    (tmp_path / "locked.md").unlink()
    second = run(*command)
    assert second.exit_code == 1
    assert "delete  locked.md  You may not" in second.stderr
    assert [library.documents[number].file_name for number in library.retried] == ["bad.md"]
