"""Parsed documents, and places in them, as JSON values, sent from the parsing process to its caller.

JSON rather than pickle: that process reads untrusted files, and its answers must not be able to run code here.
"""

import re
from collections.abc import Sequence
from dataclasses import astuple
from math import isfinite
from typing import Any, TypeVar, cast

from citewire.common.v1.place_pb2 import Place
from google.protobuf.message import DecodeError, Message

from citewire_retriever.ingest.boxes import MOST_BOXES, Box, PageBoxes
from citewire_retriever.ingest.decode import clean
from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument, ParseLimits, SheetPosition
from citewire_retriever.ingest.tabular import TableQueryError

PREFIX_BYTES = 8
"""Size of the big-endian length before each answer."""
_PROGRESS = 1 << 63
_MOST_COUNTED = (1 << 31) - 1

MOST_PLACE_CHARS = 255
"""Longest text in a place, in code points; parsers observe it."""

_MEDIA_TYPE_CHARS = 255
_REFUSAL_CHARS = 1000
_FIELD = re.compile(r"query\.[a-z_]{1,20}(\[\d{1,4}\])?(\.[a-z]{1,10}(\[\d{1,4}\])?)?")
_Message = TypeVar("_Message", bound=Message)


def encode_progress(done: int, total: int) -> bytes:
    """A process's progress before its answer: the number of pages read, and the total."""
    return (_PROGRESS | min(done, _MOST_COUNTED) << 31 | min(total, _MOST_COUNTED)).to_bytes(PREFIX_BYTES, "big")


def decode_progress(prefix: bytes) -> tuple[int, int] | None:
    """The pages that were read, no more than there are, and these; None if it is the length of an answer."""
    number = int.from_bytes(prefix, "big")
    if not number & _PROGRESS:
        return None
    total = number & _MOST_COUNTED
    return min(number >> 31 & _MOST_COUNTED, total), total


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
        "following": None if document.following is None else astuple(document.following),
    }


def decode_document(values: dict[str, Any], limits: ParseLimits) -> ParsedDocument:
    """Decodes a document, even from a hostile process.

    Raises:
        KeyError, TypeError, ValueError: It isn't one, or is larger than the limits.
    """
    text = _string(values["text"])
    if len(text) > limits.max_chars:
        raise ValueError("more text than the limit")
    title, pages = values["title"], values["pages"]
    decoder = _BlockDecoder(limits)
    return ParsedDocument(
        format=Format(values["format"]),
        media_type=_string(values["media_type"])[:_MEDIA_TYPE_CHARS],
        text=text,
        blocks=decoder.decode(values["blocks"], 0, len(text)),
        title=None if title is None else _string(title),
        pages=None if pages is None else _integer(pages),
        has_lines=bool(values["has_lines"]),
        following=decode_position(values["following"]),
    )


def decode_tables(values: dict[str, Any], kind: type[_Message]) -> _Message:
    """Decodes an answer about tables, even from a hostile process.

    Raises:
        TableQueryError: It refused.
        KeyError, TypeError, ValueError: It isn't such an answer.
    """
    if "refusal" in values:
        field = _string(values["field"])
        raise TableQueryError(
            field if _FIELD.fullmatch(field) else "", clean(_string(values["refusal"]))[:_REFUSAL_CHARS]
        )
    message = kind()
    try:
        message.ParseFromString(bytes.fromhex(_string(values["message"])))
    except DecodeError:
        raise ValueError("no message") from None
    return message


def encode_boxes(pages: list[PageBoxes]) -> list[Any]:
    """Boxes on pages as JSON values."""
    return [[page.width, page.height, [astuple(box) for box in page.boxes]] for page in pages]


def decode_boxes(values: list[Any], count: int) -> list[PageBoxes]:
    """Decodes the boxes of `count` pages, like `decode_document`, errors included."""
    pages = [
        PageBoxes(_length(width), _length(height), tuple(Box(*map(_length, box)) for box in boxes))
        for width, height, boxes in values
    ]
    if len(pages) != count or any(len(page.boxes) > MOST_BOXES for page in pages):
        raise ValueError("not as many pages or boxes as there may be")
    return pages


def place_values(place: Place) -> dict[str, Any]:
    """A place as JSON values: the fields that are set, under their names in the message."""
    values: dict[str, Any] = {
        field.name: clean(value) if isinstance(value, str) else value for field, value in place.ListFields()
    }
    if place.HasField("boxes"):
        rounded = [{f.name: round(value, 2) for f, value in box.ListFields()} for box in place.boxes.boxes]
        values["boxes"] = {"width": place.boxes.width, "height": place.boxes.height, "boxes": rounded}
    return values


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


class _BlockDecoder:
    """Reads blocks, and checks their invariants: spans in order, within their parents, and not too many."""

    def __init__(self, limits: ParseLimits) -> None:
        self.left = 2 * limits.max_blocks  # with children
        self.chars = 4 * limits.max_chars

    def decode(self, rows: list[list[Any]], start: int, end: int) -> tuple[Block, ...]:
        """Blocks between two positions of the text."""
        blocks: list[Block] = []
        for row in rows:
            block = self._block(row)
            if not start <= block.start <= block.end <= end:
                raise ValueError("a block in a place where it isn't allowed")
            start = block.end
            blocks.append(block)
        return tuple(blocks)

    def _block(self, values: list[Any]) -> Block:
        kind, start, end, level, label, place, text, children = values
        text = None if text is None else _string(text)
        self.left -= 1
        self.chars -= len(text or "") + len(_string(label))
        if self.left < 0 or self.chars < 0:
            raise ValueError("more blocks than the limit")
        start, end = _integer(start), _integer(end)
        return Block(
            kind=BlockKind(kind),
            start=start,
            end=end,
            level=_integer(level),
            label=label,
            place=_place(place),
            text=text,
            children=self.decode(children, start, end),
        )


def _place(values: dict[str, Any]) -> Place:
    for value in values.values():
        # Numbers and short texts; its only other member, boxes, isn't set by parsers.
        if isinstance(value, str) and len(value) <= MOST_PLACE_CHARS:
            _string(value)
        else:
            _length(value)
    return Place(**values)


def decode_position(values: Sequence[Any] | None) -> SheetPosition | None:
    """Decodes a position in a long table; raises as `decode_document`."""
    if values is None:
        return None
    offset, row, delimiter, quoted, names, quote, escape = values
    if isinstance(names, list):
        names = tuple(_string(name) for name in cast("list[object]", names))
    elif names is not None:
        raise TypeError("not names")
    return SheetPosition(
        _integer(offset), _integer(row), _string(delimiter), bool(quoted), names, _string(quote), _string(escape)
    )


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    if "\0" in value:
        raise ValueError("text that can't be stored")
    value.encode("utf-8")  # a lone surrogate can't be stored either
    return value


def _integer(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("not a number")
    return value


def _length(value: object) -> float:
    if not isinstance(value, int | float) or not isfinite(value):
        raise TypeError("not a length")
    return float(value)


def _same_length(text: str) -> str:
    """Text without NUL; spans into it stay valid."""
    return text.replace("\0", " ")
