"""Subtitles (SRT, WebVTT): spoken text by sentence, with times."""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument, ParseLimits, TextBuilder
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, one_line

_TIME: Final = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})(?:[.,](\d{1,3}))?"
_TIMES: Final = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s|$)")
_VOICE: Final = re.compile(r"<v(?:\.[^ >]{0,100})? ([^>]{1,200})>")
_TAG: Final = re.compile(r"</?[a-zA-Z0-9][^<>]{0,200}>|\{\\[^{}]{0,200}\}")
_WORD_TIME: Final = re.compile(r"<\d{1,4}:\d\d[:.]\d")
"""Matches the time of a single word, which automatic captions have."""
_ROLLING_SECONDS: Final = 0.1
"""Length of a pause after which nothing is still shown."""
_MOST_SHOWN: Final = 20
"""Lines that a cue may repeat."""
_SENTENCE_END: Final = re.compile(r"[.!?…。！？؟۔।][\"'”’»)\]]{0,5}\Z")
_MOST_CHARS: Final = 400
"""Code points of cues that share a block even if no sentence ends."""
_PAUSE_SECONDS: Final = 4.0
"""Length of a pause that ends a block."""


@dataclass(frozen=True, slots=True)
class _Cue:
    start: float
    end: float
    text: str


def parse_subtitles(text: str, limits: ParseLimits, *, media_type: str) -> ParsedDocument:
    """Parses decoded subtitles.

    Cues up to the end of a sentence form a block, which has their combined time; each cue keeps its own. The speaker
    (in WebVTT) precedes the words; styles and notes are left out.

    Raises:
        IngestError: CORRUPT if no line has times; EMPTY if nothing is said; TOO_LARGE.
    """
    builder = TextBuilder(limits)
    group: list[_Cue] = []
    length = cues = 0
    for cue in _cues(text, escaped=media_type == "text/vtt"):
        cues += 1
        if group and (length > _MOST_CHARS or cue.start - group[-1].end > _PAUSE_SECONDS):
            _add(builder, group)
            group, length = [], 0
        if not cue.text:
            continue
        group.append(cue)
        length += len(cue.text)
        if _SENTENCE_END.search(cue.text, max(0, len(cue.text) - 6)):
            _add(builder, group)
            group, length = [], 0
    if group:
        _add(builder, group)
    if not cues:
        raise IngestError(IngestCode.CORRUPT, "The file is named as subtitles but has no line with times.")
    if not builder.blocks:
        raise IngestError(IngestCode.EMPTY, "The subtitles contain no text.")
    return ParsedDocument(
        Format.SUBTITLES, media_type, builder.text(), tuple(builder.blocks), title=_title(text), has_lines=False
    )


def _cues(text: str, *, escaped: bool) -> Iterator[_Cue]:
    """The cues of a file; `escaped` if it is WebVTT.

    There a blank line ends a cue, and notes and styles may follow; in SRT, cues may contain blank lines. Automatic
    captions of videos repeat the lines that are still shown: these are left out.
    """
    lines = text.split("\n")
    has_blanks = not escaped and not text.startswith("WEBVTT")
    rolls = escaped and _WORD_TIME.search(text) is not None
    shown: list[str] = []
    shown_until = 0.0
    index, number = 0, ""
    while index < len(lines):
        match = _TIMES.match(lines[index]) if "-->" in lines[index] else None
        index += 1
        if match is None:
            number = lines[index - 1].strip() or number
            continue
        first = index
        while index < len(lines) and (has_blanks or lines[index].strip()) and "-->" not in lines[index]:
            index += 1
        words = lines[first:index]
        while words and not words[-1].strip():
            words.pop()
        is_numbered = number.isdigit() or len(words) == index - first
        if index < len(lines) and "-->" in lines[index] and words and words[-1].strip().isdigit() and is_numbered:
            number = words.pop().strip()  # the next cue's
        times = match.groups()
        start, end = _seconds(times[:4]), _seconds(times[4:])
        spoken = [line for each in words if (line := _spoken(each, escaped=escaped))]
        new = spoken[_repeated(shown, spoken) :] if rolls and start - shown_until <= _ROLLING_SECONDS else spoken
        shown, shown_until = spoken or shown, end
        yield _Cue(start, end, " ".join(new))


def _repeated(shown: list[str], spoken: list[str]) -> int:
    """How many lines that a cue begins with are the last ones of the cue before."""
    most = min(len(shown), len(spoken), _MOST_SHOWN)
    return next((count for count in range(most, 0, -1) if shown[-count:] == spoken[:count]), 0)


def _spoken(text: str, *, escaped: bool) -> str:
    """A line's words; `escaped` if signs may be written as in HTML, which only WebVTT has."""
    words = _TAG.sub("", _VOICE.sub(r"\1: ", text))
    return one_line(html.unescape(words) if escaped else words)


def _seconds(times: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = times
    whole = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return (1000 * whole + int((fraction or "0").ljust(3, "0"))) / 1000  # exactly the number in the file


def _add(builder: TextBuilder, cues: list[_Cue]) -> None:
    children: list[Block] = []
    for cue in cues:
        start, end = builder.write(cue.text, separator=" " if children else "\n\n")
        place = Place(start_seconds=cue.start, end_seconds=max(cue.start, cue.end))
        children.append(Block(BlockKind.PARAGRAPH, start, end, place=place))
    if len(children) == 1:
        builder.add(children[0])
        return
    place = Place(start_seconds=cues[0].start, end_seconds=max(max(cue.start, cue.end) for cue in cues))
    builder.add(Block(BlockKind.LIST, children[0].start, children[-1].end, place=place, children=tuple(children)))


def _title(text: str) -> str | None:
    """The text after ``WEBVTT`` in the first line."""
    first = text.partition("\n")[0]
    return one_line(first.removeprefix("WEBVTT").strip(" -\t"))[:LABEL_LIMIT] or None if "WEBVTT" in first else None
