"""A store of files as a source: S3, WebDAV or SFTP, by a file system of fsspec's."""

import importlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol

from citewire_cli.errors import CliError
from citewire_cli.files import SKIPPED_FOLDERS, LeftOut
from citewire_cli.ignored import IGNORE_FILE, IgnoreRules
from citewire_cli.jsonio import get_str, parse_object
from citewire_cli.sync.folder import Listing
from citewire_cli.sync.mirror import Mirror, folders_above, without_credentials

MOST_FILES: Final = 1_000_000
_MOST_BYTES: Final = 256 * 1024 * 1024
_MOST_PART: Final = 255
"""Bytes of a file's or folder's own name, as most file systems limit them."""
_FILE_SECONDS: Final = 300.0
_AT_ONCE: Final = 8
_SAVE_SECONDS: Final = 5.0
_FRESH_SECONDS: Final = 2.0
"""A file that changed so shortly before the listing may change again without a sign of it."""


class FileSystem(Protocol):
    """The part of fsspec's file systems that is used."""

    def ls(self, path: str, detail: bool = True) -> list[dict[str, Any]]:
        """The content of a folder."""
        ...

    def find(self, path: str, *, detail: bool = True) -> dict[str, dict[str, Any]]:
        """All files below a path."""
        ...

    def get_file(self, rpath: str, lpath: str, callback: object) -> None:
        """Downloads a file."""
        ...


@dataclass(frozen=True, slots=True)
class Opened:
    """A store that answers.

    Args:
        files: reads it.
        root: the path in it that is followed.
        listing: everything below the root, as the file system tells it.
    """

    files: FileSystem
    root: str
    listing: Callable[[], Iterator[dict[str, Any]]]


Explain = Callable[[Exception], tuple[str, str] | None]
"""An error's title and what helps; None for errors that aren't the store's."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the store."""

    path: str
    """The path in the file system."""
    size: int
    tag: str
    """Changes with the file; "" if the store has nothing that does."""


class Store(Mirror):
    """See the module."""

    def __init__(
        self,
        kind: str,
        source: str,
        open_store: Callable[[], Opened],
        explain: Explain,
        cache: Path,
        *,
        url_prefix: str = "",
    ) -> None:
        """Connects to nothing yet.

        Args:
            kind: as of `Mirror`.
            source: the store's address.
            open_store: connects.
            explain: says what an error of the store means.
            cache: as of `Mirror`.
            url_prefix: as of `Folder`.

        Raises:
            CliError: as `Mirror`.
        """
        super().__init__(kind, source, cache, url_prefix=url_prefix)
        self._open_store = open_store
        self._explain = explain
        self._index = self.home / "tags.json"
        self._tags: dict[str, str] = {}
        self._kept_out: list[LeftOut] = []

    def read(self) -> Listing:
        """See `Mirror.read`; what isn't even fetched is among what is left out."""
        listing = super().read()
        return replace(listing, left_out=[*listing.left_out, *self._kept_out])

    def refresh(self) -> dict[str, CliError]:
        """See `Mirror.refresh`."""
        self._kept_out = []
        began = time.time()
        try:
            opened = self._open_store()
            entries, failures = self._list(opened, began)
        except Exception as error:
            raise self._explained(error) from error
        known = parse_object(self._index.read_bytes()) or {} if self._index.exists() else {}
        self._tags = {name: get_str(known, name) for name in known if name in entries}
        self.remove_others(entries)
        rules = {name: entry for name, entry in entries.items() if PurePosixPath(name).name == IGNORE_FILE}
        broken = self._fetch_all(opened, rules)
        for name, error in broken.items():
            raise CliError(f"{IGNORE_FILE} cannot be fetched", f"{name}: {error}") from error
        taken = self._taken(entries)
        self.remove_others(taken)
        return failures | self._fetch_all(opened, taken)

    def _list(self, opened: Opened, began: float) -> tuple[dict[str, Entry], dict[str, CliError]]:
        """The store's files by their relative path, and names that can't be paths here."""
        entries: dict[str, Entry] = {}
        failures: dict[str, CliError] = {}
        start = opened.root.strip("/")
        for info in opened.listing():
            self.check_stopped()
            path = str(info["name"])
            name = path.strip("/").removeprefix(start).strip("/") if start else path.strip("/")
            if str(info.get("type")) != "file" or path.endswith("/"):
                continue
            if not _is_path(name):
                why = f"A part of it is empty, `..` or longer than {_MOST_PART} bytes, or it has `\\`, NUL or no UTF-8."
                failures[name] = CliError("Its name can't be a path", why)
                continue
            entries[name] = Entry(path, int(info.get("size") or 0), _tag(info, began))
            if len(entries) > MOST_FILES:
                raise CliError("The source has too many files", f"More than {MOST_FILES:,}.")
        for name in entries.keys() & folders_above(entries):
            del entries[name]
            failures[name] = CliError("It can't be mirrored", "Others are named as if it were a folder.")
        return entries, failures

    def _taken(self, entries: Mapping[str, Entry]) -> dict[str, Entry]:
        """Those that neither a rule of the source's nor their name keeps out."""
        rules: dict[Path, IgnoreRules] = {}

        def rules_of(folder: Path) -> IgnoreRules:
            if folder not in rules:
                above = None if folder == self.mirrored else rules_of(folder.parent)
                rules[folder] = IgnoreRules(folder, above)
            return rules[folder]

        taken: dict[str, Entry] = {}
        kept_out: dict[Path, LeftOut] = {}
        for name, entry in entries.items():
            out = self._why_kept_out(name, rules_of)
            if out is None:
                taken[name] = entry
            else:
                kept_out.setdefault(out.path, out)
        self._kept_out = list(kept_out.values())
        return taken

    def _why_kept_out(self, name: str, rules_of: Callable[[Path], IgnoreRules]) -> LeftOut | None:
        file = self.mirrored / name
        if file.name == IGNORE_FILE:
            return None
        for place in [*reversed([path for path in file.parents if self.mirrored in path.parents]), file]:
            is_folder = place != file
            if place.name.startswith("."):
                return LeftOut(place, "it is hidden")
            if is_folder and place.name in SKIPPED_FOLDERS:
                return LeftOut(place, f"it is {SKIPPED_FOLDERS[place.name]}")
            if rules_of(place.parent).ignores(place, is_folder=is_folder):
                return LeftOut(place, f"{IGNORE_FILE} excludes it")
        return None

    def _fetch_all(self, opened: Opened, entries: Mapping[str, Entry]) -> dict[str, CliError]:
        """Fetches files that may have changed, a few at a time; returns what couldn't be fetched."""
        failures: dict[str, CliError] = {}
        todo = iter([item for item in entries.items() if not self._is_there(*item)])
        running: dict[Future[None], tuple[str, Entry]] = {}
        saved = time.monotonic()
        pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="sync")
        try:
            while True:
                self.check_stopped()
                for number, (name, entry) in enumerate(islice(todo, _AT_ONCE - len(running))):
                    part = self.home / f"part-{time.monotonic_ns()}-{number}"
                    running[pool.submit(self._fetch, opened, name, entry, part)] = (name, entry)
                if not running:
                    return failures
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    name, entry = running.pop(done)
                    error = done.exception()
                    if error is None:
                        self._tags[name] = entry.tag
                    elif isinstance(error, Exception):
                        failures[name] = self._explained(error)
                    else:
                        raise error
                if time.monotonic() - saved > _SAVE_SECONDS:
                    self._save()
                    saved = time.monotonic()
        finally:
            pool.shutdown(cancel_futures=True)  # after Ctrl-C, what is being fetched comes to its end
            for done, (name, entry) in running.items():
                if not done.cancelled() and done.exception() is None:
                    self._tags[name] = entry.tag
            self._save()
            for part in self.home.glob("part-*"):
                part.unlink(missing_ok=True)

    def _is_there(self, name: str, entry: Entry) -> bool:
        return bool(entry.tag) and self._tags.get(name) == entry.tag and (self.mirrored / name).is_file()

    def _fetch(self, opened: Opened, name: str, entry: Entry, part: Path) -> None:
        if entry.size > _MOST_BYTES:
            raise CliError(f"It has more than {_MOST_BYTES} bytes", name)
        opened.files.get_file(entry.path, str(part), callback=self._bound(entry.size, time.monotonic() + _FILE_SECONDS))
        size = part.stat().st_size
        if size != entry.size:
            raise CliError("It changed while it was fetched", f"It had {entry.size} bytes, and {size} came.")
        file = self.mirrored / name
        file.parent.mkdir(parents=True, exist_ok=True)
        os.replace(part, file)  # noqa: PTH105 # says that it is one step

    def _bound(self, size: int, until: float) -> object:
        """A callback of fsspec's that ends a download which is longer or slower than it may be, or not wanted."""

        def check(_: int | None, value: int, **__: object) -> None:
            self.check_stopped()
            if value > size:
                raise CliError("It changed while it was fetched", f"It had {size} bytes, and more came.")
            if time.monotonic() > until:
                raise CliError("It takes too long", f"More than {_FILE_SECONDS:g} seconds.")

        return importlib.import_module("fsspec.callbacks").Callback(hooks={"bound": check})

    def _explained(self, error: Exception) -> CliError:
        """The error for users; an error of our own is raised unchanged."""
        if isinstance(error, CliError):
            return error
        if (known := self._explain(error)) is not None:
            return CliError(known[0], without_credentials(known[1]))
        if isinstance(error, FileNotFoundError):
            return CliError("It isn't there", "Nothing has this name in the source, or it was deleted meanwhile.")
        if isinstance(error, PermissionError):
            return CliError("The source refuses access", "The credentials may not read it.")
        if isinstance(error, OSError):
            return CliError("It cannot be fetched", without_credentials(error.strerror or type(error).__name__))
        raise error

    def _save(self) -> None:
        fresh = self._index.with_suffix(".new")
        fresh.write_text(json.dumps(self._tags), encoding="utf-8")
        fresh.replace(self._index)


def _tag(info: Mapping[str, Any], began: float) -> str:
    """A tag that changes with a file: its size and ETag, or time of change; "" if that is unknown or very recent."""
    etag = info.get("ETag") or info.get("etag")
    if etag:
        return f"{info.get('size')} {etag}"
    changed = info.get("mtime") or info.get("modified")
    if not isinstance(changed, datetime) or changed.timestamp() > began - _FRESH_SECONDS:
        return ""
    return f"{info.get('size')} {changed.isoformat()}"


def _is_path(name: str) -> bool:
    parts = PurePosixPath(name).parts
    try:
        fits = all(len(part.encode()) <= _MOST_PART for part in parts)
    except UnicodeEncodeError:
        return False
    return fits and bool(parts) and "/".join(parts) == name and ".." not in parts and not {"\\", "\0"} & set(name)
