"""`citewire sync` of stores whose names are no file's names, and whose listings repeat themselves."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from citewire_cli.errors import CliError
from citewire_cli.sync import stores
from citewire_cli.sync.folder import Listing
from citewire_cli.sync.store import Opened, Store
from citewire_cli.sync.stores import walk


class Bucket:
    """A store in memory, as fsspec shows one: `folder` is the root."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.content = {f"bucket/folder/{name}": content for name, content in files.items()}

    def ls(self, path: str, detail: bool = True) -> list[dict[str, Any]]:
        raise NotImplementedError

    def find(self, path: str, *, detail: bool = True) -> dict[str, dict[str, Any]]:
        raise NotImplementedError

    def get_file(self, rpath: str, lpath: str, callback: object) -> None:
        Path(lpath).write_bytes(self.content[rpath])

    def listing(self) -> Iterator[dict[str, Any]]:
        for name, content in self.content.items():
            yield {"name": name, "type": "file", "size": len(content), "ETag": str(hash(content))}


def read(files: Mapping[str, bytes], cache: Path) -> Listing:
    bucket = Bucket(files)

    def opened() -> Opened:
        return Opened(bucket, "bucket/folder", bucket.listing)

    with closing(Store("s3", "s3://bucket/folder", opened, lambda _: None, cache)) as store:
        return store.read()


def test_a_key_may_be_a_folder_of_others(tmp_path: Path) -> None:
    """In S3 names have no folders; a file system can't hold both, in whichever order they were made."""
    assert list(read({"a": b"text of a"}, tmp_path).files) == ["a"]
    for _ in range(2):
        listing = read({"a": b"text of a", "a/b.md": b"b", "c.md": b"c"}, tmp_path)
        assert (sorted(listing.files), sorted(listing.failures)) == (["a/b.md", "c.md"], ["a"])


@pytest.mark.parametrize("name", [f"{'ä' * 128}/x.md", "x" * 256, "a//b.md", "../b.md", "a\\b.md", "\udcff.md"])
def test_a_name_that_cannot_be_a_path_is_one_failure(name: str, tmp_path: Path) -> None:
    listing = read({name: b"text", "a.md": b"a"}, tmp_path)
    assert (list(listing.files), list(listing.failures)) == (["a.md"], [name])
    assert isinstance(listing.failures[name], CliError)


def test_a_folder_that_lists_itself_is_read_once() -> None:
    class Loop(Bucket):
        def ls(self, path: str, detail: bool = True) -> list[dict[str, Any]]:
            folders = [{"name": name, "type": "directory"} for name in ("", "docs", "docs/")]
            return [*folders, {"name": f"{path}/a.md".lstrip("/"), "type": "file"}]

    assert sorted(info["name"] for info in walk(Loop({}), "")) == ["a.md", "docs/a.md"]


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Bucket, "get_file", full)
    assert str(read({"a.md": b"a"}, tmp_path).failures["a.md"]) == "It cannot be fetched: No space left on device"
    monkeypatch.setattr(Store, "_save", full)
    with pytest.raises(CliError, match=r"cannot be mirrored: .*No space left on device.*--cache"):
        read({"a.md": b"a"}, tmp_path)
    explain_sftp = vars(stores)["_explain_sftp"]
    assert explain_sftp(OSError(errno.ENOSPC, "No space left on device")) is None
    assert explain_sftp(ConnectionResetError())[0] == "The SFTP server cannot be reached, or broke off"
