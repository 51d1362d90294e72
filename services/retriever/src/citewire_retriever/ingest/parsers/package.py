"""The ZIP packages of Office documents and e-books: their parts as bounded streams of XML.

Python's zipfile inflates while reading, and libxml2 yields elements while parsing, so memory is bounded by the largest
paragraph, table row or the like, whatever the file claims. No entity is expanded, nothing outside is read.
"""

import io
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import lru_cache
from mmap import mmap
from pathlib import PurePosixPath
from typing import IO, Final
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.lxml_facade import Element, XmlError, iterate_xml, parse_xml

MOST_INFLATED: Final = 512 * 1024 * 1024
"""Inflated bytes of a package that are read."""
_MOST_OF_A_TREE: Final = 32 * 1024 * 1024
_FREE: Final = 16 * 1024 * 1024
_MOST_RATIO: Final = 200  # Office's own XML shrinks to a tenth or a thirtieth, a bomb to a thousandth
ENCRYPTED: Final = 0x1
"""The flag bit of an encrypted member."""
_IMAGES: Final = (
    ".png", ".jpg", ".jpeg", ".gif", ".tif", ".tiff", ".bmp", ".webp", ".svg", ".emf", ".wmf", ".jxr", ".wdp"
)  # fmt: skip
_MOST_LISTED: Final = 4 * 1024 * 1024
"""Bounds a package's list of members: zipfile reads it whole, and each becomes an object of ten times its size."""


class Package:
    """A package with a budget for reading."""

    def __init__(self, data: bytes | mmap, kind: str) -> None:
        """Takes the file and its kind for error messages, like ``Word document``.

        Raises:
            IngestError: CORRUPT if it isn't a whole ZIP archive.
        """
        self.kind = kind
        self._left = MOST_INFLATED
        with self._explained():
            self._zip = open_zip(data)
        members = self._zip.infolist()
        # Names of parts don't depend on case, and some programs write backslashes. The exact name has precedence.
        self._members = {_folded(member.filename): member for member in reversed(members)}
        self._members.update((member.filename, member) for member in members)

    def __contains__(self, name: str) -> bool:
        """Whether it has a part."""
        return self._member(name) is not None

    def read(self, name: str, most: int = _MOST_OF_A_TREE) -> bytes:
        """A part's bytes. Raises as `elements`; TOO_LARGE if there are more than `most`."""
        with self._explained(), self._open(name) as stream:
            data = stream.read(most + 1)
        if len(data) > most:
            raise self.too_large()
        return data

    @contextmanager
    def stream(self, name: str) -> Generator[IO[bytes]]:
        """A part's bytes as they are inflated. Raises as `elements`."""
        with self._explained(), self._open(name) as stream:
            yield stream

    def tree(self, name: str) -> Element | None:
        """A small part as a tree; None if the package has none of that name. Raises as `elements`."""
        if name not in self:
            return None
        with self._explained():
            return parse_xml(self.read(name))

    def elements(
        self, name: str, whole: frozenset[str], begun: frozenset[str] = frozenset()
    ) -> Iterator[tuple[str, Element]]:
        """A part's elements, one by one; each is emptied when the next one is requested.

        Args:
            name: The part.
            whole: Local names: such an element comes as ("end", element), complete, unless it is within another.
            begun: Local names: such an element comes as ("start", element), with its attributes but without what is in
                it, and as ("end", element), emptied, unless it is within a whole one.

        Raises:
            IngestError: CORRUPT if the part is missing or broken, TOO_LARGE, PASSWORD_REQUIRED.
        """
        inside = 0
        with self._explained(), self._open(name) as stream:
            for event, element in iterate_xml(stream):
                tag = local(element.tag)
                is_whole = tag in whole
                if event == "start":
                    inside += is_whole
                    if not inside and tag in begun:
                        yield event, element
                    continue
                inside -= is_whole
                if inside:
                    continue
                if is_whole or tag in begun:
                    yield event, element
                _forget(element)

    def relations(self, part: str) -> dict[str, tuple[str, str]]:
        """A part's relationships within the package, by id: the last word of the type, and the target part."""
        path = PurePosixPath(part)
        root = self.tree(str(path.parent / "_rels" / f"{path.name}.rels"))
        results: dict[str, tuple[str, str]] = {}
        for each in root.iter() if root is not None else ():
            if local(each.tag) == "Relationship" and each.get("TargetMode", "") != "External":
                kind = each.get("Type", "").rpartition("/")[2]
                results[each.get("Id", "")] = (kind, resolved(path.parent, each.get("Target", "")))
        return results

    def related(self, part: str, kind: str) -> str | None:
        """The first existing part of a kind that a part refers to; the package itself is the part ``""``."""
        return next((name for each, name in self.relations(part).values() if each == kind and name in self), None)

    def related_tree(self, part: str, kind: str) -> Element | None:
        """The part as a tree; None if there is none."""
        name = self.related(part, kind)
        return None if name is None else self.tree(name)

    def title(self) -> str | None:
        """The title in the document's properties."""
        root = self.related_tree("", "core-properties")
        titles = (" ".join((each.text or "").split()) for each in root.iter("{*}title")) if root is not None else ()
        return next((title for title in titles if title), None)

    def _open(self, name: str) -> IO[bytes]:
        member = self._member(name)
        if member is None:
            raise self.broken()
        if member.flag_bits & ENCRYPTED:
            raise password_required(self.kind)
        if member.compress_type not in {ZIP_STORED, ZIP_DEFLATED}:
            raise self.broken()  # the formats allow no other methods, and zipfile would inflate those without a limit
        if inflates_too_much(member):
            raise self.too_large()
        self._left -= member.file_size
        if self._left < 0:
            raise self.too_large()
        return self._zip.open(member)

    def _member(self, name: str) -> ZipInfo | None:
        return self._members.get(name) or self._members.get(_folded(name))

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except (BadZipFile, XmlError, zlib.error, EOFError, NotImplementedError, ValueError, OSError) as error:
            raise self.broken() from error

    def broken(self) -> IngestError:
        """The error for a package that violates its format."""
        return IngestError(IngestCode.CORRUPT, f"The {self.kind} is damaged or cut off: save or export it again.")

    def too_large(self) -> IngestError:
        """The error for a package that holds more than can be read."""
        return IngestError(IngestCode.TOO_LARGE, f"The {self.kind} is too large when decompressed: split it.")


def open_zip(data: bytes | mmap) -> ZipFile:
    """Opens a ZIP archive.

    Raises:
        IngestError: TOO_LARGE if it lists too many members.
        BadZipFile, ValueError, OSError: It isn't one.
    """
    file = _Reader(_Bytes(data))
    archive = ZipFile(file)
    file.is_listed = True
    return archive


def bytes_file(data: bytes | mmap) -> IO[bytes]:
    """Bytes, or a map of a file, as a file; nothing is copied."""
    return io.BufferedReader(_Bytes(data))


def has_images(data: bytes | mmap) -> bool:
    """Whether a package contains images, apart from a preview of itself. Raises as `open_zip`."""
    names = (name.lower() for name in open_zip(data).namelist())
    return any(name.endswith(_IMAGES) and "thumbnail" not in name for name in names)


def inflates_too_much(member: ZipInfo) -> bool:
    """Whether a member claims an implausible compression ratio."""
    return member.file_size > _FREE and member.file_size > _MOST_RATIO * max(member.compress_size, 1)


def password_required(kind: str) -> IngestError:
    """The error for a document that is encrypted."""
    return IngestError(
        IngestCode.PASSWORD_REQUIRED, f"The {kind} is protected by a password: save it without one and upload it again."
    )


@lru_cache(maxsize=4096)
def local(tag: object) -> str:
    """A tag's or attribute's name without its namespace: strict and transitional documents have different ones."""
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Element, name: str, default: str = "") -> str:
    """An attribute by its local name."""
    for key, value in element.attrib.items():
        if local(key) == name:
            return value
    return default


def relation_id(element: Element, name: str = "id") -> str:
    """The relationship id in an element's attributes."""
    return next((value for key, value in element.attrib.items() if key.endswith(f"/relationships}}{name}")), "")


def resolved(folder: PurePosixPath, target: str) -> str:
    """The name of a part, resolved from the folder of the part that refers to it."""
    parts: list[str] = []
    for part in (PurePosixPath("/") / folder / target).parts[1:]:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
    return "/".join(parts)


def _folded(name: str) -> str:
    return name.replace("\\", "/").casefold()


def _forget(element: Element) -> None:
    """Frees an element and those before it, so that a document of a million rows is never entirely in memory."""
    element.clear()
    parent = element.getparent()
    if parent is not None:
        while parent[0] is not element:
            del parent[0]


class _Reader(io.BufferedReader):
    is_listed = False

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MOST_LISTED and not self.is_listed:
            raise IngestError(IngestCode.TOO_LARGE, "The archive contains too many files: split it.")
        return super().read(size)


class _Bytes(io.RawIOBase):
    """Bytes, or a map of a file, as a file; nothing is copied."""

    def __init__(self, data: bytes | mmap) -> None:
        self._data, self._at = data, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._data)}[whence]
        if self._at < 0:
            raise ValueError("before the beginning")
        return self._at

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # pyright: ignore[reportIncompatibleMethodOverride] # narrower than the buffer protocol
        part = self._data[self._at : self._at + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)
