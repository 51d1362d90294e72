"""Checks that the text at a quote's place, extracted from the original without the parser, contains the quote."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.chunker import chunk
from citewire_retriever.ingest.chunks import Chunk, ChunkRules
from citewire_retriever.ingest.parsers import parse

Taken = Callable[[bytes, Chunk], str]
"""Takes the text at a chunk's place from an original."""

QUOTES = 50
"""Minimum number of places of each format."""
_RULES = ChunkRules(max_tokens=128, target_tokens=60)
_SIGN = re.compile(r"(?m)^(?:- |\d+\. )")
_WORDS = ("Ertrag", "revenue", "größer", "年度報告", "прибыль", "naïve", "π", "costs", "in", "2025", "quarter", "12.5")
_SCRIPTS = {
    "English": "the annual revenue of our northern office rose by a third because travel became cheaper",
    "German": "größere Überschüsse aus Verkäufen führten zu höheren Rückstellungen für künftige Prüfungen",
    "Arabic": "ارتفعت إيرادات الشركة في الربع الثالث بسبب زيادة الطلب على الخدمات الجديدة",
    "Chinese": "公司 第三季度 收入 增长 主要 原因 海外 市场 需求 上升 年度 报告 显示",
    "Russian": "прибыль компании выросла благодаря новым договорам и снижению расходов на перевозки",
    "Hindi": "तीसरी तिमाही में कंपनी की आय नई सेवाओं की मांग से बढ़ी",
    "Thai": "รายได้ ของ บริษัท เพิ่มขึ้น ใน ไตรมาส ที่สาม เพราะ ความต้องการ บริการ ใหม่",
    "code": "total_cost net_price(items) rate_of_tax parse_row read_all value_at open_file",
    "emoji": "café 👍🏽 naïve 👩‍🔬 résumé e\u0301te\u0301 ﬁnance ½ cup № seven",
}


class Prose:
    """Sentences in many scripts, none of them twice."""

    def __init__(self, choices: random.Random) -> None:
        self.choices = choices
        self._number = 0

    def sentence(self, *scripts: str) -> str:
        """A sentence in one of some scripts, all of them if none is named."""
        self._number += 1
        vocabulary = _SCRIPTS[self.choices.choice(scripts or tuple(_SCRIPTS))].split()
        words = [self.choices.choice(vocabulary) for _ in range(self.choices.randint(4, 14))]
        return f"{' '.join(words)} {self._number * 37}."

    def paragraph(self, *scripts: str) -> str:
        """One to five sentences."""
        return " ".join(self.sentence(*scripts) for _ in range(self.choices.randint(1, 5)))

    def name(self) -> str:
        """A word that is unique to the call."""
        self._number += 1
        return f"name{self._number}"


async def _count(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) + text.count("-") for text in texts]


def chunks_of(data: bytes, name: str) -> list[Chunk]:
    """The chunks of a file."""
    document = parse(data, name)
    return asyncio.run(chunk(document, document.title or name, _RULES, _count))


def sentence(number: int) -> str:
    """A sentence that is unique to its number."""
    return f"{' '.join(_WORDS[(number * step) % len(_WORDS)] for step in range(1, 8))} was {number * 37}."


def plain(text: str) -> str:
    """Text without list markers, which programs show but files don't contain, and with normalised white space."""
    return " ".join(_SIGN.sub("", text).split())


def parts_of(whole: Chunk) -> list[Chunk]:
    """A chunk's rows, values or cues, each as a chunk of its own: a quote's place is that of the part it is in."""
    if not whole.places:
        return [whole]
    ends = [*(start for start, _ in whole.places[1:]), len(whole.text)]
    return [
        replace(whole, text=whole.text[start:end], place=place)
        for (start, place), end in zip(whole.places, ends, strict=True)
    ]


def by_line(whole: Chunk) -> list[Chunk]:
    """A chunk's lines, each as a chunk of its own: the gateway counts a quote's line back from the chunk's last one.

    Rows that are shown in another form than in the file have their own places.
    """
    if whole.places or not whole.verbatim:
        return parts_of(whole)
    lines = whole.text.split("\n")
    first = whole.place.end_line - len(lines) + 1
    return [
        replace(whole, text=text, place=Place(start_line=number, end_line=number, part=whole.place.part))
        for number, text in enumerate(lines, start=first)
    ]


def check(data: bytes, name: str, taken: Taken, parts_of: Callable[[Chunk], list[Chunk]] = parts_of) -> int:
    """Checks every line of every chunk, part by part; returns how many there were."""
    quotes = 0
    for part in (part for whole in chunks_of(data, name) for part in parts_of(whole)):
        original = plain(taken(data, part))
        for line in part.text.splitlines():
            if quote := plain(line):
                assert quote in original, (name, part.place, part.section, quote, original)
                quotes += 1
    return quotes


def text_of_section(paragraphs: list[tuple[int, str]], section: str) -> str:
    """The text below a path of headings, or all text for an empty one. Headings have a level, other text has 0."""
    path: dict[int, str] = {}
    parts: list[str] = []
    for level, text in paragraphs:
        if level:
            path = {higher: label for higher, label in path.items() if higher < level} | {level: plain(text)}
        if " > ".join(path.values()) == section or not section:
            parts.append(text)
    return "\n".join(parts)
