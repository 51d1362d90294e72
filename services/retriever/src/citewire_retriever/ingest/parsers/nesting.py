"""Documents within documents: cells of a notebook, a mail's body and attachments, the files of an archive."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.document import Block, BlockKind, ParsedDocument, ParseLimits, TextBuilder
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.wire import MOST_PLACE_CHARS

MOST_DEEP: Final = 3
"""Levels of files within files that are read, such as an archive attached to a mail in an archive."""
_MOST_FILES: Final = 10_000
_MOST_INFLATED: Final = 512 * 1024 * 1024


@dataclass(slots=True)
class Budget:
    """The remaining budget of a file and everything nested in it."""

    files: int = _MOST_FILES
    """Files and folders."""
    inflated: int = _MOST_INFLATED
    """Bytes extracted from archives."""
    exceeded: bool = False
    """Whether a limit was exceeded; nothing more is read then."""

    def take_file(self) -> None:
        """Counts a file. Raises IngestError: TOO_LARGE."""
        self.files -= 1
        if self.files < 0:
            raise self.exceed(f"The archive contains more than {_MOST_FILES:,} files: split it.")

    def inflate(self, count: int) -> None:
        """Counts bytes extracted from an archive. Raises IngestError: TOO_LARGE."""
        self.inflated -= count
        if self.inflated < 0:
            raise self.exceed("The archive is too large when decompressed: split it.")

    def exceed(self, message: str) -> IngestError:
        """Marks the budget as exceeded; returns the error that ends reading the whole file."""
        self.exceeded = True
        return IngestError(IngestCode.TOO_LARGE, message)


@dataclass(frozen=True, slots=True)
class Inside:
    """Reads the files that are in a file."""

    parse: Callable[[bytes, str, str, ParseLimits, "Inside"], ParsedDocument]
    """Reads a file, given its name and media type."""
    limits: ParseLimits
    """Limits on the whole document."""
    depth: int = 0
    """Depth of the containing file, from 0."""
    budget: Budget = field(default_factory=Budget)
    """Shared by all files of an upload."""

    def read(self, data: bytes, name: str, media_type: str = "") -> ParsedDocument:
        """Reads a contained file.

        Raises:
            IngestError: The file can't be read or, if the budget is exceeded, neither can the whole upload.
        """
        try:
            return self.parse(data, name, media_type, self.limits, replace(self, depth=self.depth + 1))
        except (RecursionError, MemoryError):
            raise IngestError(IngestCode.TOO_LARGE, "Reading the file needs more memory than is allowed.") from None

    def check_depth(self) -> None:
        """Raises IngestError(TOO_LARGE) if the file is nested too deeply to contain files itself."""
        if self.depth > MOST_DEEP:
            raise IngestError(IngestCode.TOO_LARGE, f"Files within files are read to a depth of {MOST_DEEP}.")


class PartNames:
    """Unique names of parts."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def name(self, part: str, name: str) -> str:
        """A unique name, prefixed with that of the part that contains it."""
        base = _joined(part, name)
        self._counts[base] += 1
        number = self._counts[base]
        if number == 1:
            return base
        stem, dot, suffix = base.rpartition(".")
        return _shortened(f"{stem} ({number}).{suffix}" if dot else f"{base} ({number})")


def embed(builder: TextBuilder, inner: ParsedDocument, place: Place, *, deeper: int = 0) -> None:
    """Appends a document's text and blocks.

    Args:
        builder: The outer document.
        inner: The document to append.
        place: Its place in the outer file, which is added to the inner blocks' places. Their lines are dropped if they
            aren't lines of a file that a reader could open. Its parts become parts of the outer document.
        deeper: Added to its heading levels.

    Raises:
        IngestError: TOO_LARGE.
    """
    offset, _ = builder.write(inner.text)
    for block in inner.blocks:
        builder.add(_moved(block, offset, place, deeper))


def _moved(block: Block, offset: int, outer: Place, deeper: int) -> Block:
    place = Place()
    place.CopyFrom(block.place)
    if not outer.HasField("part"):
        place.ClearField("start_line")
        place.ClearField("end_line")
    place.MergeFrom(outer)
    if outer.HasField("part") and block.place.HasField("part"):
        place.part = _joined(outer.part, block.place.part)
    return replace(
        block,
        start=block.start + offset,
        end=block.end + offset,
        level=block.level + deeper if block.kind is BlockKind.HEADING else 0,
        place=place,
        children=tuple(_moved(child, offset, outer, deeper) for child in block.children),
    )


def _joined(part: str, name: str) -> str:
    return _shortened(f"{part}/{name}" if part else name)


def _shortened(name: str) -> str:
    """A name, shortened from the start to a place's limit."""
    return name if len(name) <= MOST_PLACE_CHARS else f"…{name[1 - MOST_PLACE_CHARS :]}"
