"""Text recognition (OCR) in pages that are pictures, by an installed Tesseract."""

import asyncio
import csv
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from citewire.common.v1.place_pb2 import Box, PageBoxes, Place

from citewire_kit.errors import StartupError
from citewire_kit.telemetry import get_logger
from citewire_retriever.ingest.decode import clean
from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument, ParseLimits, TextBuilder

log = get_logger(__name__)

MOST_OUTPUT: Final = 4 * 1024 * 1024
"""Most bytes of one page's result."""
_SECONDS: Final = 30
_ORIENTATION: Final = "osd"
_LIBRARY: Final = re.compile(r"(?:=> )?(/\S+) \(0x")
_LEAST_CONFIDENCE: Final = 30.0
"""Least confidence of a word, 0–100: lower ones are pictures misread as text."""
_MOST_WORDS: Final = 50_000
MOST_PIXELS: Final = 20_000_000
"""Of a page."""


@dataclass(frozen=True, slots=True)
class Recogniser:
    """An installed Tesseract, and its limits."""

    executables: tuple[str, ...]
    """The program, and the loader of its libraries."""
    libraries: tuple[str, ...]
    folder: str
    """The folder of its models."""
    languages: tuple[str, ...]
    """The languages to recognise, by Tesseract's names."""
    finds_orientation: bool
    """Whether it has the model for detecting rotated pages."""
    cpu_seconds: float
    """CPU seconds per page."""
    most_pages: int
    """Most scanned pages per document."""

    def job(self) -> dict[str, Any]:
        """The arguments for the fork server, without limits."""
        layout = "1" if self.finds_orientation else "3"
        languages = "+".join(self.languages)
        return {
            "program": {
                "executables": self.executables,
                "libraries": self.libraries,
                "folder": self.folder,
            },
            "arguments": ["stdin", "stdout", "-l", languages, "--oem", "1", "--psm", layout, "tsv"],
            # One thread: it may not start others, and the machine has other work.
            "environment": {"OMP_THREAD_LIMIT": "1", "TESSDATA_PREFIX": self.folder, "LC_ALL": "C"},
        }


async def find_recogniser(program: str, languages: str, *, cpu_seconds: float, most_pages: int) -> Recogniser | None:
    """Finds the installed Tesseract; None if there is none.

    Args:
        program: Its name or path; `off` disables it.
        languages: Tesseract's names of languages, separated by commas; empty: all that are installed.
        cpu_seconds: CPU seconds per page.
        most_pages: Most scanned pages per document.

    Raises:
        StartupError: A language isn't installed, or the program doesn't work.
    """
    path = shutil.which(program) if program != "off" else None
    if path is None:
        return None
    listing = await _output(path, "--list-langs", environment={})
    folder = re.search(r'"([^"]+)"', listing)
    installed = [line.strip() for line in listing.splitlines()[1:] if line.strip()]
    if folder is None or not installed:
        raise StartupError(
            f"{path} has no languages to recognise text in: install some, or unset CITEWIRE_WORKER_OCR_PROGRAM"
        )
    named = [each.strip() for each in languages.split(",") if each.strip()]
    missing = sorted(set(named) - set(installed))
    if missing:
        raise StartupError(f"Tesseract lacks the languages {', '.join(missing)} of CITEWIRE_WORKER_OCR_LANGUAGES")
    used = named or sorted((each for each in installed if each != _ORIENTATION), key=lambda each: each != "eng")
    loaded = await _output(path, environment={"LD_TRACE_LOADED_OBJECTS": "1"})
    files = [(match.group(1), "=>" in line) for line in loaded.splitlines() if (match := _LIBRARY.search(line))]
    log.info("recogniser_found", program=path, languages=used)
    return Recogniser(
        executables=(path, *(each for each, is_library in files if not is_library)),
        libraries=(*(each for each, is_library in files if is_library), *_existing("/etc/ld.so.cache")),
        folder=folder.group(1),
        languages=tuple(used),
        finds_orientation=_ORIENTATION in installed,
        cpu_seconds=cpu_seconds,
        most_pages=most_pages,
    )


@dataclass(frozen=True, slots=True)
class DrawnPage:
    """A page as an image."""

    width: int
    """Pixels."""
    height: int
    points: tuple[float, float]
    """Displayed width and height, in points."""
    pixels: memoryview
    """One byte per pixel, row by row."""

    @classmethod
    def read(cls, answer: bytes) -> "DrawnPage | None":
        """Decodes a drawn page; None if it couldn't be drawn. Raises ValueError, KeyError or TypeError if invalid."""
        head, newline, _ = answer[:1000].partition(b"\n")
        if not newline:
            return None
        sizes = json.loads(head)
        width, height = int(sizes["width"]), int(sizes["height"])
        across, down = (float(each) for each in sizes["points"])
        pixels = memoryview(answer)[len(head) + 1 :]
        if not (0 < width * height <= MOST_PIXELS and len(pixels) == width * height and 0 < across < 1e6 > down > 0):
            raise ValueError("not an image")
        return cls(width, height, (across, down), pixels)

    def write(self, path: Path) -> None:
        """Writes it as a portable greymap, the simplest image format."""
        with path.open("wb") as file:
            file.write(b"P5 %d %d 255\n" % (self.width, self.height))
            file.write(self.pixels)


@dataclass(frozen=True, slots=True)
class _Word:
    line: tuple[int, int, int]
    """Numbers of its block, paragraph and line."""
    text: str
    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class RecognisedPage:
    """The text found on a page."""

    page: int
    """From 1."""
    width: float
    """In points."""
    height: float
    words: tuple[_Word, ...]

    @classmethod
    def read(cls, page: int, drawn: DrawnPage, table: bytes) -> "RecognisedPage":
        """Reads Tesseract's table: one word per line, tab-separated columns. Malformed lines are skipped."""
        across, down = drawn.points[0] / drawn.width, drawn.points[1] / drawn.height
        words: list[_Word] = []
        for row in csv.reader(table.decode("utf-8", "replace").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE):
            try:
                level, _, block, paragraph, line, _, left, top, width, height = map(int, row[:10])
                confidence, text = float(row[10]), clean(row[11]).strip()
            except (ValueError, IndexError):
                continue
            if level == 5 and text and confidence >= _LEAST_CONFIDENCE and len(words) < _MOST_WORDS:
                box = left * across, top * down, (left + width) * across, (top + height) * down
                words.append(_Word((block, paragraph, line), text, *box))
        return cls(page, *drawn.points, tuple(words))

    def write(self, builder: TextBuilder) -> None:
        """Appends its paragraphs, with a box for each line."""
        paragraph: list[list[_Word]] = []
        for line in self._lines():
            if paragraph and paragraph[-1][0].line[:2] != line[0].line[:2]:
                self._add(builder, paragraph)
                paragraph = []
            paragraph.append(line)
        if paragraph:
            self._add(builder, paragraph)

    def _lines(self) -> Iterator[list[_Word]]:
        line: list[_Word] = []
        for word in self.words:
            if line and line[0].line != word.line:
                yield line
                line = []
            line.append(word)
        if line:
            yield line

    def _add(self, builder: TextBuilder, lines: list[list[_Word]]) -> None:
        children: list[Block] = []
        separator = "\n\n"
        for index, line in enumerate(lines):
            text = " ".join(word.text for word in line)
            following = lines[index + 1][0].text if index + 1 < len(lines) else ""
            is_cut = len(text) > 1 and text[-1] == "-" and text[-2].isalpha() and following[:1].islower()
            start, end = builder.write(text[:-1] if is_cut else text, separator=separator)
            separator = "" if is_cut else " "
            box = Box(
                left=min(word.left for word in line),
                top=min(word.top for word in line),
                right=max(word.right for word in line),
                bottom=max(word.bottom for word in line),
            )
            place = Place(page=self.page, boxes=PageBoxes(width=self.width, height=self.height, boxes=[box]))
            children.append(Block(BlockKind.PARAGRAPH, start, end, place=place))
        builder.add(
            Block(
                BlockKind.PARAGRAPH,
                children[0].start,
                children[-1].end,
                place=Place(page=self.page),
                children=tuple(children),
            )
        )


def merge(document: ParsedDocument, pages: list[RecognisedPage], limits: ParseLimits) -> ParsedDocument:
    """A document in which the text found on some pages replaces what little they had.

    Raises:
        IngestError: TOO_LARGE.
    """
    builder = TextBuilder(limits)
    by_page = {each.page: each for each in pages if each.words}
    left = sorted(by_page)
    for block in document.blocks:
        while left and left[0] <= block.place.page:
            by_page[left.pop(0)].write(builder)
        if block.place.page not in by_page:
            start, _ = builder.write(document.text[block.start : block.end])
            builder.add(_moved(block, start - block.start))
    for page in left:
        by_page[page].write(builder)
    return replace(document, text=builder.text(), blocks=tuple(builder.blocks))


def nothing_yet(media_type: str, pages: int) -> ParsedDocument:
    """A document of pages without text."""
    kind = Format.PDF if media_type == "application/pdf" else Format.IMAGE
    return ParsedDocument(kind, media_type, "", (), pages=pages)


def _moved(block: Block, by: int) -> Block:
    children = tuple(_moved(child, by) for child in block.children)
    return replace(block, start=block.start + by, end=block.end + by, children=children)


def _existing(path: str) -> tuple[str, ...]:
    return (path,) if Path(path).exists() else ()


async def _output(program: str, *arguments: str, environment: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={"PATH": os.defpath, **environment},
    )
    try:
        async with asyncio.timeout(_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        raise StartupError(f"{program} doesn't answer") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output.decode("utf-8", "replace")
