"""Takes a passage apart into what can be quoted on its own: sentences, rows, list items, lines of code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import groupby, pairwise
from pathlib import PurePosixPath
from typing import Final

from citewire_verify.text.stop_words import words_of


class UnitKind(Enum):
    """The kind of a unit."""

    SENTENCE = auto()
    ROW = auto()
    HEADING = auto()
    CODE = auto()


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a text, by its span."""

    start: int
    end: int
    kind: UnitKind


MAX_UNIT = 700
"""Longest unit in code points; a longer one is split at weaker punctuation."""

LOOK_AHEAD = 40
"""Code points around a full stop that determine whether it ends a sentence."""

_ABBREVIATION_LIST = """
    mr mrs ms dr prof sr jr st rev hon gen col capt lt sgt maj gov sen rep pres messrs mt ft vs etc fig figs no nos nr
    vol vols pp p ch sec art par ed eds al approx appr dept est inc ltd co corp bros cf ca viz resp incl excl max min
    avg jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun e.g i.e a.m p.m u.s u.k u.n d.c
    ph.d b.c a.d bzw usw z.b d.h u.a ggf evtl abs str tel sra srta ud uds av avda num núm pág tel mme mlle env
    chap
"""
_ABBREVIATIONS = frozenset(_ABBREVIATION_LIST.split())
_STARTER_LIST = """
    the a an in on at it he she they we this that these those there however but and or if when while after before as
    for from with its his her their our i you der die das es sie er el la los las le les il
"""
_STARTERS = frozenset(_STARTER_LIST.split())
# Each run is read once, so that a long one takes linear time.
SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+(?=\s|$)|[。！？｡।॥۔؟]++[」』”’）]*+")
_LAST_WORD = re.compile(r"([^\s(\[\"'“‘«]+)$")
_FENCE = re.compile(r"^\s{0,3}(```+|~~~+)")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+\S")
_BULLET = re.compile(r"\s*[-*+•‣◦–]\s+")
_ITEM = re.compile(r"^\s*(?:[-*+•‣◦–]|\(?(?:\d{1,3}|[a-zA-Z])[.)])\s+(?=\S)")
_TABLE_ROW = re.compile(r"^\s*\|.*\|\s*$")
_TABLE_RULE = re.compile(r"^[\s|:+=-]+$")
_PAIR = re.compile(r"^\s*[^\s:][^:\n]{0,60}:\s+\S")
_CODE_SUFFIXES: Final = words_of(
    """
    .bash .c .cc .cpp .cs .css .go .h .hpp .java .js .jsx .kt .lua .php .pl .proto .ps1 .py .r .rb .rs .scala .sh .sql
    .swift .ts .tsx .vue .zig
    """
)
_CODE_LINE = re.compile(
    r"[{};]\s*$|^\s*(?:def|class|fn|func|function|import|from|return|const|let|var|if|for|while|public|private|"
    r"static|struct|enum|package|use|#include|@\w+)\b.*[:({;=]?|=>|->|::|^\s*(?://|/\*|\*/)|\w+\(.*\)\s*[;:{]?$"
)
_SOFT = re.compile(r"[;:；：]\s+|\n+|,\s+|\s+")


def split_units(text: str, *, code: bool = False) -> list[Unit]:
    """Splits a text into units; white space between units belongs to none.

    Args:
        text: A passage's text.
        code: Whether it comes from a source file: then every block of lines is code.
    """
    lines = list(_lines(text))
    if code:
        return _code_blocks(text, lines)
    if _is_record(text, lines):
        return [part for row in _rows(text, lines) for part in _divide(text, Unit(*row, UnitKind.ROW))]
    units: list[Unit] = []
    for kind, start, end in _blocks(text, lines):
        if kind is UnitKind.SENTENCE:
            for span in _sentences(text, start, end):
                units += _divide(text, Unit(*span, UnitKind.SENTENCE))
        else:
            span = _strip(text, start, end)
            if span[0] < span[1]:
                units.append(Unit(*span, kind))
    return units


def is_code(file_name: str, text: str) -> bool:
    """Whether a text is program code, judging by its file's name or most of its lines."""
    return PurePosixPath(file_name).suffix.lower() in _CODE_SUFFIXES or looks_like_code(text)


def looks_like_code(text: str) -> bool:
    """Whether most lines of a text look like program code."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        return False
    count = sum(1 for line in lines if not line.rstrip().endswith((".", "?", "!")) and _CODE_LINE.search(line))
    return count >= 0.5 * len(lines)


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line in text.splitlines(keepends=True):
        yield start, start + len(line.rstrip("\r\n"))
        start += len(line)


def _is_record(text: str, lines: list[tuple[int, int]]) -> bool:
    """Whether a passage is rows of a table, given as `column: value` pairs."""
    filled = [text[s:e] for s, e in lines if text[s:e].strip()]
    if len(filled) == 1:
        return len(re.findall(r"(?:^|[;|,]\s+)[^\s:;|,][^:;|,]{0,40}:\s+\S", filled[0])) >= 2
    return bool(filled) and sum(1 for line in filled if _PAIR.match(line)) >= 0.8 * len(filled)


def _rows(text: str, lines: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The rows of a passage, separated by empty lines."""
    for filled, group in groupby(lines, key=lambda line: bool(text[line[0] : line[1]].strip())):
        row = list(group)
        if filled:
            yield _strip(text, row[0][0], row[-1][1])


def _blocks(text: str, lines: list[tuple[int, int]]) -> Iterator[tuple[UnitKind, int, int]]:
    """Groups lines: paragraphs and list items (to be split further), rows, headings, fenced code."""
    start: int | None = None
    end = 0
    fence = ""
    widest = max((e - s for s, e in lines), default=0)
    for index, (s, e) in enumerate(lines):
        line = text[s:e]
        opening = _FENCE.match(line)
        if fence:
            end = e
            if opening and opening.group(1).startswith(fence):
                yield UnitKind.CODE, start or 0, end
                fence, start = "", None
            continue
        alone = _kind_alone(line)
        if start is not None and (alone or opening or not line.strip() or _ITEM.match(line)):
            yield UnitKind.SENTENCE, start, end
            start = None
        if opening:
            fence, start, end = opening.group(1)[:3], s, e
        elif alone is not None:
            if not _TABLE_RULE.match(line):
                yield alone, s, e
        elif line.strip():
            start, end = (s if start is None else start), e
            if _is_short_line(text, lines, index, widest):
                yield UnitKind.SENTENCE, start, end
                start = None
    if start is not None:
        yield UnitKind.CODE if fence else UnitKind.SENTENCE, start, end


def _kind_alone(line: str) -> UnitKind | None:
    if _HEADING.match(line):
        return UnitKind.HEADING
    return UnitKind.ROW if _TABLE_ROW.match(line) or ("|" in line and _TABLE_RULE.match(line)) else None


def _is_short_line(text: str, lines: list[tuple[int, int]], index: int, widest: int) -> bool:
    """Whether a line wasn't wrapped: it ends well before the margin, and the next one begins a new sentence."""
    if index + 1 >= len(lines):
        return False
    s, e = lines[index]
    following = text[lines[index + 1][0] : lines[index + 1][1]].lstrip()
    if not following or (e - s) >= 0.7 * widest:
        return False
    return following[0].isupper() or following[0].isdigit()


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    bullet = _BULLET.match(text, start, end)
    begin = start = bullet.end() if bullet else start
    for match in SENTENCE_END.finditer(text, start, end):
        rest = text[match.end() : min(end, match.end() + LOOK_AHEAD)]
        if ends_sentence(text, begin, match, rest):
            span = _strip(text, begin, match.end())
            if span[0] < span[1]:
                yield span
            begin = match.end()
    span = _strip(text, begin, end)
    if span[0] < span[1]:
        yield span


def ends_sentence(text: str, begin: int, match: re.Match[str], rest: str) -> bool:
    """Whether a full stop ends a sentence, rather than an abbreviation, an initial or a list number.

    Args:
        text: The whole text.
        begin: Where the sentence begins.
        match: A match of `SENTENCE_END` in it.
        rest: The text that follows, at least up to the end of the next word; empty at the text's end.
    """
    mark = match.group()
    rest = rest.lstrip()
    if not rest or mark[0] not in ".…":
        return True
    first = rest.lstrip("\"'“‘«([*_`")[:1]
    if first.islower():
        return False
    if mark[0] == "…" or len(mark.rstrip("\"'”’»)]")) > 1:
        return True
    word_match = _LAST_WORD.search(text, max(begin, match.start() - LOOK_AHEAD), match.start())
    word = (word_match.group(1) if word_match else "").rstrip(".").lower()
    next_word = re.match(r"\W*(\w+)", rest)
    starts_anew = next_word is not None and next_word.group(1).lower() in _STARTERS
    if word in _ABBREVIATIONS or ("." in word and word.replace(".", "").isalpha() and len(word) <= 6):
        return starts_anew and word not in {"e.g", "i.e", "mr", "mrs", "ms", "dr", "prof", "vs", "cf"}
    if len(word) == 1 and word.isalpha():
        return starts_anew and word in "ai"
    before = text[max(begin, match.start() - LOOK_AHEAD) : match.start()].strip()
    return not (word.isdigit() and len(word) <= 3 and before == word)


def _divide(text: str, unit: Unit) -> list[Unit]:
    """Splits a unit that is too long at the last weaker boundary before the limit."""
    parts: list[Unit] = []
    start = unit.start
    while unit.end - start > MAX_UNIT:
        cuts = [match.end() for match in _SOFT.finditer(text, start + MAX_UNIT // 3, start + MAX_UNIT)]
        strong = [cut for cut in cuts if text[cut - 1] == "\n" or ";" in text[cut - 3 : cut]]
        cut = (strong or cuts or [start + MAX_UNIT])[-1]
        span = _strip(text, start, cut)
        parts.append(Unit(*span, unit.kind))
        start = cut
    span = _strip(text, start, unit.end)
    if span[0] < span[1]:
        parts.append(Unit(*span, unit.kind))
    return parts


def _code_blocks(text: str, lines: list[tuple[int, int]], size: int = 12) -> list[Unit]:
    """Blocks of code: a whole definition if it is short, otherwise pieces, split at blank lines if possible."""
    filled = [(s, e) for s, e in lines]
    while filled and not text[filled[0][0] : filled[0][1]].strip():
        filled.pop(0)
    while filled and not text[filled[-1][0] : filled[-1][1]].strip():
        filled.pop()
    if not filled:
        return []
    if len(filled) <= size:
        return [Unit(filled[0][0], filled[-1][1], UnitKind.CODE)]
    starts = [0]
    for index in range(1, len(filled)):
        length = index - starts[-1]
        blank_before = not text[filled[index - 1][0] : filled[index - 1][1]].strip()
        if length >= size or (length >= size // 2 and blank_before):
            starts.append(index)
    bounds = [*starts, len(filled)]
    blocks = [Unit(filled[a][0], filled[b - 1][1], UnitKind.CODE) for a, b in pairwise(bounds)]
    return [block for block in blocks if text[block.start : block.end].strip()]


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
