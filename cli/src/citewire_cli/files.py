"""Selects the files to upload by content, and names them by their paths."""

import codecs
import hashlib
import os
import platform
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.ignored import IGNORE_FILE, IgnoreRules
from citewire_cli.jsonio import JsonObject

SKIPPED_FOLDERS = {
    **dict.fromkeys(("node_modules", "venv", "site-packages"), "a folder of installed packages"),
    **dict.fromkeys(("__pycache__", "dist", "build", "target"), "a folder of build results"),
}
MAX_NAME = 1000
"""Characters of a file's path that the gateway takes."""

_HEAD_BYTES = 65_536
_REPOSITORY = (".git", ".hg", ".svn", ".jj")
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_CONTROL_CHARACTER = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_SHARE = 0.01
"""The gateway's own measure of what is text."""
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_SUFFIXES = frozenset({".msg", ".xls", ".xlt"})
"""Suffixes of Outlook messages and old Excel workbooks."""
_MAGIC = (
    (b"PK\x05\x06", "an empty archive"),
    (_OLE, "an old Office document"),
    (b"GIF8", "a GIF image"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"OggS", "an audio or video file"),
    (b"ID3", "an audio file"),
)
_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
)
"""Images for text recognition; also WebP, which isn't recognised by its first bytes alone."""
_ARCHIVES = (b"PK\x03\x04", b"\x1f\x8b\x08", b"BZh", b"\xfd7zXZ\x00")
"""Office documents, e-books, and archives of documents."""
_TAR_MARK = slice(257, 262)
_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"


@dataclass(frozen=True, slots=True)
class Source:
    """A file to upload under `name`, its path below `root`."""

    path: Path
    name: str
    root: Path

    def below(self, folder: Path) -> "Source":
        """The same file, named from another folder above it."""
        return Source(self.path, _absolute(self.path).relative_to(folder).as_posix(), folder)


@dataclass(frozen=True, slots=True)
class Address:
    """A file on a web server, fetched by the gateway; `known` is its document in the library."""

    url: str
    known: JsonObject | None = field(default=None, compare=False)

    @property
    def path(self) -> str:
        """Its address."""
        return self.url

    @property
    def name(self) -> str:
        """Its name in reports."""
        return self.url


def split_addresses(places: Iterable[str]) -> tuple[list[Path], list[Address]]:
    """The files and folders, and the web addresses, each once."""
    addresses = [place for place in places if place.lower().startswith(("http://", "https://"))]
    paths = [Path(place) for place in places if place not in addresses]
    return paths, [Address(url) for url in dict.fromkeys(addresses)]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file or folder that isn't uploaded, and why; `unseen` means that its content is unknown."""

    path: Path
    reason: str
    unseen: bool = False

    def as_json(self) -> dict[str, object]:
        """The form for `--json`."""
        return {"path": str(self.path), "reason": self.reason}


def find_sources(
    paths: Iterable[Path], root: Path | None = None, why_not_taken: Callable[[Path], LeftOut | None] | None = None
) -> tuple[list[Source], list[LeftOut]]:
    """The files under `paths`, sorted within each folder, none twice; and what was left out.

    A folder's files are taken if they contain text or are documents or archives, whatever their names; a file given
    explicitly is always taken, and the gateway decides. Hidden files and folders, folders of dependencies and build
    results, and anything named in a folder's `.citewireignore`, are left out. Links to folders aren't followed.

    Args:
        paths: files and folders.
        root: names are relative to this folder. By default they begin with the name of the repository that holds a
            path, else with that of the folder that was given; a file outside of both has its own name.
        why_not_taken: examines a file; by default this module's own function.

    Raises:
        CliError: a path doesn't exist, or a folder's rules can't be read (usage).
    """
    look = why_not_taken or inspect
    sources: dict[Path, Source] = {}
    left_out: list[LeftOut] = []
    for path in paths:
        if not path.exists():
            raise CliError("No such file or folder", str(path), ExitCode.USAGE)
        base = root or _base(_absolute(path))
        is_folder = path.is_dir()
        for entry in _walk(path, look) if is_folder else (path,):
            if isinstance(entry, LeftOut):
                left_out.append(entry)
                continue
            source = Source(entry, _absolute(entry).relative_to(base).as_posix(), base)
            reason = _why_no_name(source.name)
            if not reason:
                sources.setdefault(entry.resolve(), source)
            elif is_folder:
                left_out.append(LeftOut(entry, reason))
            else:
                raise CliError("This name can't be a document's", f"{source.name!r}: {reason}.", ExitCode.USAGE)
    return list(sources.values()), left_out


def why_unreadable(head: bytes, *, images: bool = False) -> str:
    """Why a file that begins with these bytes can't be read as a document; empty if it may be one.

    Args:
        head: its first 64 KiB.
        images: whether images may be documents.
    """
    if not head:
        return "it is empty"
    if image := _image(head):
        return "" if images else f"it is {image}"
    if b"%PDF-" in head[:1024] or head.startswith((*_MARKS, *_ARCHIVES)) or head[_TAR_MARK] == b"ustar":
        return ""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return f"it is {kind}"
    if _looks_like_utf16(head):
        return ""
    binary = b"\0" in head or len(_CONTROL.findall(head)) > _CONTROL_SHARE * max(len(head), 100)
    return "it contains binary data" if binary else ""


@cache
def fingerprint(folder: Path) -> str:
    """Identifies a folder of this machine without revealing its path."""
    return hashlib.sha256(os.fsencode(f"{platform.node()}\0{folder}")).hexdigest()[:16]


def sha256_of(path: Path) -> str:
    """The digest of a file's bytes, in hexadecimal."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def inspect(file: Path, *, images: bool = False) -> LeftOut | None:
    """Why a file isn't a document; None if it may be one, as images may if requested.

    Only its first bytes are read.
    """
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return LeftOut(file, "it isn't a regular file")
        with file.open("rb") as content:
            head = content.read(_HEAD_BYTES)
        if head.startswith(_LFS_POINTER):
            return LeftOut(file, "it is a pointer of Git LFS, and its content isn't here", unseen=True)
        # They start like other old Office documents, and the difference may be anywhere. Whether workbooks are read
        # depends on the server, whose refusal says what to do.
        may_be_read = file.suffix.lower() in _OLE_SUFFIXES and head.startswith(_OLE)
        reason = "" if may_be_read else why_unreadable(head, images=images)
    except FileNotFoundError:
        return LeftOut(file, "it is a broken link")
    except OSError as error:
        return LeftOut(file, f"it cannot be read: {error.strerror}", unseen=True)
    return LeftOut(file, reason) if reason else None


def _walk(
    folder: Path,
    why_not_taken: Callable[[Path], LeftOut | None],
    above: IgnoreRules | None = None,
    longest: int = MAX_NAME,
) -> Iterator[Path | LeftOut]:
    if longest <= 0:  # a folder in a folder in a folder, without end
        yield LeftOut(folder, f"its path has more than {MAX_NAME} characters")
        return
    try:
        entries = sorted(folder.iterdir())
        with suppress(FileNotFoundError):
            (folder / IGNORE_FILE).lstat()  # a folder may be listed, but not entered
    except OSError as error:
        yield LeftOut(folder, f"it cannot be read: {error.strerror}", unseen=True)
        return
    rules = IgnoreRules(folder, above)
    for entry in entries:
        if entry.name == IGNORE_FILE:
            continue
        try:
            is_folder = entry.is_dir()
        except OSError as error:
            yield LeftOut(entry, f"it cannot be read: {error.strerror}", unseen=True)
            continue
        reason = _why_not_entered(entry, is_folder=is_folder) or (
            f"{IGNORE_FILE} excludes it" if rules.ignores(entry, is_folder=is_folder) else ""
        )
        if reason:
            yield LeftOut(entry, reason)
        elif is_folder:
            yield from _walk(entry, why_not_taken, rules, longest - len(entry.name) - 1)
        else:
            yield why_not_taken(entry) or entry


def _why_no_name(name: str) -> str:
    """Why the gateway can't take a path; empty if it can."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return "its name isn't valid UTF-8"
    if "\\" in name or _CONTROL_CHARACTER.search(name):
        return "its path contains a backslash or a control character"
    return f"its path has more than {MAX_NAME} characters" if len(name) > MAX_NAME else ""


def _why_not_entered(entry: Path, *, is_folder: bool) -> str:
    if entry.name.startswith("."):
        return "it is hidden"
    if not is_folder:
        return ""
    return "it is a link to a folder" if entry.is_symlink() else _described(SKIPPED_FOLDERS.get(entry.name))


def _image(head: bytes) -> str:
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "a WebP image"
    return next((kind for magic, kind in _IMAGES if head.startswith(magic)), "")


def _described(kind: str | None) -> str:
    return f"it is {kind}" if kind else ""


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 # resolve() would follow links: the name is the one that is seen


def _base(path: Path) -> Path:
    for folder in (path, *path.parents):
        if any((folder / name).exists() for name in _REPOSITORY):
            return folder.parent
    return path.parent


def _looks_like_utf16(head: bytes) -> bool:
    """Whether it looks like UTF-16: mostly Latin text then has a zero in every second byte, and few in between."""
    half = len(head) // 2
    even, odd = head[0 : 2 * half : 2].count(0), head[1 : 2 * half : 2].count(0)
    return half > 1 and ((odd > 0.4 * half and even < 0.05 * half) or (even > 0.4 * half and odd < 0.05 * half))
