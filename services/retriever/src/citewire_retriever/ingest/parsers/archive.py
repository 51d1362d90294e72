"""Archives (ZIP, TAR, compressed files): each file that can be read is a part of the document, as an attachment is."""

from mmap import mmap
from pathlib import PurePosixPath
from typing import Final

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.detect import HEAD_BYTES, detect
from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument, TextBuilder
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.archive_files import Member, members
from citewire_retriever.ingest.parsers.nesting import Inside, PartNames, embed

_MOST_OF_A_FILE: Final = 64 * 1024 * 1024
_MOST_NAMED: Final = 100
_LEVEL: Final = 1
_METADATA: Final = ("__MACOSX/", ".DS_Store", "Thumbs.db", "desktop.ini")
"""Files that file managers add to archives."""


def parse_archive(data: bytes | mmap, name: str, media_type: str, inside: Inside) -> ParsedDocument:
    """Parses an archive.

    Each file is a section named by its path, with its own places and that path as their `part`. Files that can't be
    read are listed at the end. Nothing is unpacked to disk, so paths that lead out of the archive are harmless.

    Args:
        data: The file.
        name: Its name.
        media_type: What it is.
        inside: Reads the files in it, within their common budget.

    Raises:
        IngestError: CORRUPT; EMPTY; TOO_LARGE if it has too many files or too much decompressed data; NO_TEXT if none
            of its files can be read; PASSWORD_REQUIRED if all are encrypted.
    """
    builder = TextBuilder(inside.limits)
    names = PartNames()
    refused: dict[str, IngestError] = {}
    for member in members(data, name, inside.budget):
        if _is_metadata(member.path):
            continue
        part = names.name("", member.path)
        try:
            document = _read(member, inside)
        except IngestError as error:
            if inside.budget.exceeded:
                raise
            if error.code is not IngestCode.EMPTY:
                # Without its traceback, which references the data.
                refused[part] = IngestError(error.code, error.message)
            continue
        label = PurePosixPath(part).name
        heading = builder.write(part)
        place = Place(part=part)
        builder.add(Block(BlockKind.HEADING, *heading, level=_LEVEL, label=label, place=place))
        embed(builder, document, place, deeper=_LEVEL)
    if not builder.blocks:
        raise _nothing_read(list(refused.values()))
    if refused:
        left_out = [*list(refused)[:_MOST_NAMED], *_more(len(refused) - _MOST_NAMED)]
        builder.add(Block(BlockKind.PARAGRAPH, *builder.write(f"Not read: {', '.join(left_out)}")))
    return ParsedDocument(Format.ARCHIVE, media_type, builder.text(), tuple(builder.blocks))


def _read(member: Member, inside: Inside) -> ParsedDocument:
    if member.why_not is not None:
        raise member.why_not
    name = PurePosixPath(member.path).name
    head = member.read(HEAD_BYTES)
    detect(head, name)  # unsupported files needn't be decompressed
    data = head + member.read(_MOST_OF_A_FILE + 1 - len(head))
    if len(data) > _MOST_OF_A_FILE:
        raise IngestError(
            IngestCode.TOO_LARGE, f"A file in an archive may have at most {_MOST_OF_A_FILE >> 20} MiB: upload it alone."
        )
    return inside.read(data, name)


def _is_metadata(path: str) -> bool:
    return path.startswith(_METADATA[0]) or PurePosixPath(path).name in _METADATA[1:]


def _more(count: int) -> list[str]:
    return [f"{count} more"] if count > 0 else []


def _nothing_read(errors: list[IngestError]) -> IngestError:
    """Why an archive gives no text."""
    codes = {error.code for error in errors}
    if not codes:
        return IngestError(IngestCode.EMPTY, "The archive contains only empty files.")
    if len(codes) == 1 or IngestCode.TOO_LARGE in codes:
        code = IngestCode.TOO_LARGE if IngestCode.TOO_LARGE in codes else codes.pop()
        first = next(error for error in errors if error.code is code)
        if code is not IngestCode.UNSUPPORTED_FORMAT:
            return IngestError(code, f"None of the archive's files can be read. {first.message}")
    return IngestError(IngestCode.NO_TEXT, "None of the archive's files has a supported format.")
