"""`citewire sync` of S3, WebDAV and SFTP, with third-party servers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from citewire_cli.errors import CliError
from citewire_cli.sync import stores
from citewire_cli.sync.store import Store
from cli_types import Run
from fake_gateway import FakeGateway
from fake_library import FakeLibrary
from store_servers import PASSWORD, USER, s3_server, sftp_server, webdav_server

OLD = 1_700_000_000


@dataclass
class Source:
    """A store on a running server."""

    address: str
    write: Callable[[str, bytes], None]
    delete: Callable[[str], None]


def on_disk(root: Path, address: str) -> Source:
    changes = iter(range(1_000_000))

    def write(name: str, content: bytes) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (OLD, OLD + next(changes)))  # long ago, with a different time for each change

    def delete(name: str) -> None:
        (root / name).unlink()
        for folder in (root / name).parents:
            if folder == root or any(folder.iterdir()):
                return
            folder.rmdir()

    return Source(address, write, delete)


@pytest.fixture(params=["s3", "webdav", "sftp"])
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    """The folder `papers` on each kind of server, beside other files."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home/.ssh").mkdir(parents=True)
    root = tmp_path / "served/papers"
    root.mkdir(parents=True)
    (tmp_path / "served/papers-old").mkdir()
    (tmp_path / "served/papers-old/other.md").write_text("beside it")
    with ExitStack() as stack:
        if request.param == "s3":
            endpoint, client = stack.enter_context(s3_server("lake"))
            monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-of-tests")
            monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
            client.put_object(Bucket="lake", Key="papers-old/other.md", Body=b"beside it")
            client.put_object(Bucket="lake", Key="papers/", Body=b"")
            yield Source(
                "s3://lake/papers",
                lambda name, content: client.put_object(Bucket="lake", Key=f"papers/{name}", Body=content),
                lambda name: client.delete_object(Bucket="lake", Key=f"papers/{name}"),
            )
            return
        monkeypatch.setenv(stores.USER, USER)
        monkeypatch.setenv(stores.PASSWORD, PASSWORD)
        if request.param == "webdav":
            port = stack.enter_context(webdav_server(tmp_path / "served"))
            made = on_disk(root, f"webdav+http://127.0.0.1:{port}/papers")
        else:
            port, known = stack.enter_context(sftp_server(tmp_path / "served"))
            (tmp_path / "home/.ssh/known_hosts").write_text(known)
            made = on_disk(root, f"sftp://127.0.0.1:{port}/papers")
        yield made


@pytest.fixture
def follow(run: Run, source: Source, tmp_path: Path) -> Callable[..., str]:
    """Returns a function that synchronises the source, checks that it succeeds, and returns its output."""

    def sync(*options: str) -> str:
        result = run("sync", source.address, "-c", "papers", "--cache", str(tmp_path / "cache"), *options)
        assert result.exit_code == 0, result.output
        assert PASSWORD not in result.output
        return result.stdout

    return sync


def fetched_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records which files are downloaded from now on."""
    names: list[str] = []
    fetch: Callable[..., None] = vars(Store)["_fetch"]

    def recorded_fetch(self: Store, opened: object, name: str, *rest: object) -> None:
        names.append(name)
        fetch(self, opened, name, *rest)

    monkeypatch.setattr(Store, "_fetch", recorded_fetch)
    return names


def test_a_store_is_synchronised(
    follow: Callable[..., str], source: Source, gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = FakeLibrary(gateway)
    names = fetched_names(monkeypatch)
    source.write("a.md", b"one")
    source.write("deep/er/Jahresübersicht 2026 (50 %).md", b"two")
    source.write("plan.md", b"three")
    source.write(".hidden/x.md", b"hidden")
    source.write("node_modules/m.js", b"module")
    source.write("drafts/d.md", b"draft")
    source.write("photo.bin", bytes(range(256)))
    source.write(".citewireignore", b"drafts/\n")
    assert "3 new" in follow("--dry-run")
    assert library.names() == []
    report = follow("--url-prefix", "https://files.test/")
    assert library.names() == ["a.md", "deep/er/Jahresübersicht 2026 (50 %).md", "plan.md"]
    assert sorted(names) == sorted([".citewireignore", "photo.bin", *library.names()])  # each once, without filtering
    addresses = {document.file_name: document.form["url"] for document in library.documents.values()}
    assert addresses["a.md"] == "https://files.test/a.md"
    assert "3 new" in report

    names.clear()
    follow("--url-prefix", "https://files.test/")
    assert (names, library.versions) == ([], 0)

    ids = {document.file_name: document.id for document in library.documents.values()}
    source.write("a.md", b"one, changed")
    source.delete("plan.md")
    source.write("plans/2027/plan.md", b"three")
    source.delete("deep/er/Jahresübersicht 2026 (50 %).md")
    source.write("deep", b"now a file")
    follow("--url-prefix", "https://files.test/")
    assert library.names() == ["a.md", "deep", "plans/2027/plan.md"]
    after = {document.file_name: document.id for document in library.documents.values()}
    assert (after["a.md"], after["plans/2027/plan.md"], library.versions) == (ids["a.md"], ids["plan.md"], 1)
    assert sorted(names) == ["a.md", "deep", "plans/2027/plan.md"]


def test_a_killed_run_is_continued(
    follow: Callable[..., str], source: Source, gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = FakeLibrary(gateway)
    for number in range(12):
        source.write(f"{number}.md", f"text {number}".encode())
    names = fetched_names(monkeypatch)
    fetch: Callable[..., None] = vars(Store)["_fetch"]

    def broken(self: Store, opened: object, name: str, *rest: object) -> None:
        if len(names) >= 8:
            raise KeyboardInterrupt
        fetch(self, opened, name, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "_fetch", broken)
        with pytest.raises((AssertionError, KeyboardInterrupt)):
            follow()
    assert library.names() == []
    first = set(names)
    names.clear()
    follow()
    assert len(library.names()) == 12
    assert not first & set(names)
    assert len(first) + len(names) == 12


def test_a_file_that_cannot_be_fetched_keeps_its_document(
    run: Run, source: Source, gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = FakeLibrary(gateway)
    source.write("a.md", b"one")
    source.write("b.md", b"two")
    sync = partial(run, "sync", source.address, "-c", "papers", "--cache")
    assert sync(str(tmp_path / "cache")).exit_code == 0
    fetch: Callable[..., None] = vars(Store)["_fetch"]

    def broken(self: Store, opened: object, name: str, *rest: object) -> None:
        if name == "b.md":
            raise FileNotFoundError(name)
        fetch(self, opened, name, *rest)

    monkeypatch.setattr(Store, "_fetch", broken)
    result = sync(str(tmp_path / "other-cache"))  # a machine without the mirror
    assert (result.exit_code, library.names()) == (1, ["a.md", "b.md"])
    assert "b.md" in result.output


def test_a_missing_folder_deletes_nothing(
    run: Run, source: Source, gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = FakeLibrary(gateway)
    source.write("a.md", b"one")
    sync = partial(run, "sync", "-c", "papers", "--cache", str(tmp_path / "cache"), "--name", "papers")
    assert sync(source.address).exit_code == 0
    kind, _, rest = source.address.partition("://")
    gone = "s3://no-such-bucket/papers" if kind == "s3" else f"{kind}://{rest}-gone"
    result = sync(gone)
    assert (result.exit_code, library.names()) == (1, ["a.md"])
    assert "There is no such" in result.output
    if kind == "s3":
        return
    monkeypatch.setenv(stores.PASSWORD, "wrong")
    result = sync(source.address)
    assert (result.exit_code, library.names()) == (1, ["a.md"])
    assert "refuses access" in result.output
    assert "wrong" not in result.output
    shutil.rmtree(tmp_path / "home/.ssh")
    if kind == "sftp":
        result = sync(source.address)
        assert result.exit_code == 1
        assert "key isn't known" in result.output


def test_credentials_are_needed_and_never_taken_from_an_address(tmp_path: Path) -> None:
    for address in ("s3://key:secret@lake/x", "sftp://ada:secret@host/x", "webdav+https://ada:secret@host/x"):
        with pytest.raises(CliError, match="must not contain credentials") as refused:
            stores.open_store(address, tmp_path)
        assert "secret" not in str(refused.value).replace("AWS_SECRET_ACCESS_KEY", "")
    for address in ("s3:///x", "sftp://host:x/", "webdav+https:///", "s3://lake/x?versionId=1", "sftp://h/#x"):
        with pytest.raises(CliError, match="This is not a source URL"):
            stores.open_store(address, tmp_path)


def test_an_unreachable_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    monkeypatch.setattr(stores, "_TRIES", 1)
    for address in ("s3://lake/x", "sftp://127.0.0.1:1/x", "webdav+http://127.0.0.1:1/x"):
        store = stores.open_store(address, tmp_path)
        with pytest.raises(CliError, match="cannot be reached"):
            store.read()
        store.close()


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("citewire_cli.sync.stores.importlib.import_module", missing)
    with pytest.raises(CliError, match=r"pip install 'citewire-cli\[s3\]'"):
        stores.open_store("s3://lake/x", tmp_path)


def test_a_name_in_another_encoding_hides_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "served/a.md").write_text("a")
    Path(os.fsdecode(os.fsencode(tmp_path / "served") + b"/latin-\xe4.md")).write_text("b")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(stores.USER, USER)
    monkeypatch.setenv(stores.PASSWORD, PASSWORD)
    (tmp_path / ".ssh").mkdir()
    with sftp_server(tmp_path / "served") as (port, known):
        (tmp_path / ".ssh/known_hosts").write_text(known)
        store = stores.open_store(f"sftp://127.0.0.1:{port}/", tmp_path / "cache")
        listing = store.read()
        store.close()
    assert (list(listing.files), list(listing.failures)) == (["a.md"], ["latin-\udce4.md"])
