"""Places of the parts of a chunk, for formats whose records, rows or cues are smaller than chunks."""

import re
from bisect import bisect_right
from collections.abc import Iterable

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.cells import cover
from citewire_retriever.ingest.document import Block, BlockKind, ParsedDocument

_OF_PARTS = ("row", "end_row", "cell_range", "start_line", "end_line", "record_path", "start_seconds", "end_seconds")
_STEP = re.compile(r"/[^/]+|\.?[^.\[/]+|\[(?:\d+|\"(?:[^\"\\]|\\.)*\")\]")
_NUMBER = re.compile(r"\[(\d+)\]")
ROOT = "$"
"""The path of a whole file."""

Parts = tuple[tuple[int, Place], ...]
"""Places in order, each with the start of its part of the text."""


def shared(place: Place) -> Place:
    """The part of a place that blocks in one chunk must share: everything except rows, lines, paths and times."""
    result = Place()
    result.CopyFrom(place)
    for name in _OF_PARTS:
        result.ClearField(name)
    return result


class PlacedParts:
    """The smallest parts of a document that have their own places; a heading has that of the following part."""

    def __init__(self, document: ParsedDocument) -> None:
        # Where the text's lines are the file's, they are counted in the text and aren't parts.
        blocks = () if document.has_lines else document.blocks
        self._parts = list(_smallest(blocks))
        self._starts = [part.start for part in self._parts]

    def within(self, start: int, end: int) -> Parts:
        """The parts that a span of the text overlaps; the first starts at 0, and neighbours differ."""
        results: list[tuple[int, Place]] = []
        index = max(0, bisect_right(self._starts, start) - 1)
        while index < len(self._parts) and self._parts[index].start < end:
            part = self._parts[index]
            if part.end > start and not (results and results[-1][1] == part.place):
                results.append((max(0, part.start - start) if results else 0, part.place))
            index += 1
        return tuple(results)


def whole(parts: Parts) -> Place:
    """The combined place of all parts: from the first one's start to the last one's end."""
    place = Place()
    place.CopyFrom(parts[0][1])
    place.ClearField("boxes")  # they belong to one part only
    last = parts[-1][1]
    if last.row > place.row:
        place.end_row = last.row
    if last.HasField("cell_range"):
        place.cell_range = cover(each.cell_range for _, each in parts)
    if last.HasField("end_line"):
        place.end_line = max(place.end_line, last.end_line)
        place.start_line = min(place.start_line, last.start_line)
    if last.HasField("end_seconds"):
        place.end_seconds = last.end_seconds
    if last.HasField("record_path"):
        place.record_path = covering_path(place.record_path, last.record_path)
    return place


def covering_path(first: str, last: str) -> str:
    """The path that covers two values and all between: one value, or elements of a list, like `orders[3:8]`."""
    if first == last:
        return first
    steps, others = _STEP.findall(first), _STEP.findall(last)
    same = 0
    while same < min(len(steps), len(others)) and steps[same] == others[same]:
        same += 1
    common = "".join(steps[:same])
    if same < min(len(steps), len(others)):
        numbers = [_NUMBER.fullmatch(each[same]) for each in (steps, others)]
        if numbers[0] and numbers[1]:
            return f"{common}[{numbers[0].group(1)}:{int(numbers[1].group(1)) + 1}]"
    return common or ROOT


def _smallest(blocks: Iterable[Block]) -> Iterable[Block]:
    for block in blocks:
        if block.children and all(child.place.ListFields() for child in block.children):
            yield from _smallest(block.children)
        elif block.kind is not BlockKind.HEADING and block.text is None and block.place.ListFields():
            yield block
