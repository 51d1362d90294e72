"""Parsed documents as JSON values, for the way from the parsing process to the worker.

JSON and not pickle: that process reads what strangers send, and its answers must not be able to run code here.
"""

from typing import Any

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.decode import clean
from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument

PREFIX_BYTES = 8
"""Length of the big-endian number of bytes before each answer."""


def encode_document(document: ParsedDocument) -> dict[str, Any]:
    """A document as JSON values. Its texts are free of NUL and lone surrogates, which Postgres can't store."""
    return {
        "format": document.format.value,
        "media_type": document.media_type,
        "text": _same_length(document.text),
        "blocks": [_encode_block(block) for block in document.blocks],
        "title": clean(document.title) if document.title else None,
        "pages": document.pages,
        "has_lines": document.has_lines,
    }


def decode_document(values: dict[str, Any]) -> ParsedDocument:
    """The document again."""
    return ParsedDocument(
        format=Format(values["format"]),
        media_type=values["media_type"],
        text=values["text"],
        blocks=tuple(_decode_block(block) for block in values["blocks"]),
        title=values["title"],
        pages=values["pages"],
        has_lines=values["has_lines"],
    )


def place_values(place: Place) -> dict[str, Any]:
    """A place as JSON values: the fields that are set, under their names in the message."""
    return {field.name: value for field, value in place.ListFields()}


def _encode_block(block: Block) -> list[Any]:
    return [
        block.kind.value,
        block.start,
        block.end,
        block.level,
        clean(block.label),
        place_values(block.place),
        None if block.text is None else clean(block.text),
        [_encode_block(child) for child in block.children],
    ]


def _decode_block(values: list[Any]) -> Block:
    kind, start, end, level, label, place, text, children = values
    return Block(
        kind=BlockKind(kind),
        start=start,
        end=end,
        level=level,
        label=label,
        place=Place(**place),
        text=text,
        children=tuple(_decode_block(child) for child in children),
    )


def _same_length(text: str) -> str:
    """Text without NUL; spans into it stay right."""
    return text.replace("\0", " ")
