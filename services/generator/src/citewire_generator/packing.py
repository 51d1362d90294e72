"""Context assembly: which passages go into the prompt, under which numbers, in which layout.

Passages are taken in the request's order and numbered from 1. Packing is greedy and stops at the first block that
would pass a budget; no later, smaller one is tried, so that what is packed is always a prefix of what was ranked. A
first block that alone is too big is cut to the budget. What is packed here is exactly what a citation may refer to.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.model import Citation
from citewire_generator.tokens import estimate_tokens

MARGIN = 0.95
"""Share of a model's window that is used, because our counts are estimates."""

_MARKER_LIKE = re.compile(
    r"[\[【［〔]"
    r"(?=\s{0,3}\^?\s{0,3}(?:(?:ref|reference|source|citation|cite)s?\b|\d{1,4}\s{0,3}[\]】］〕†]))"
    r"([^\[\]【】［］〔〕\n]{1,200})"
    r"[\]】］〕]",
    re.IGNORECASE,
)
_WIDE_REF, _WIDE_SOURCE = ("".join(f"[{char}{chr(ord(char) + 0xFEE0)}]" for char in word) for word in ("ref", "source"))
_OPENED = re.compile(
    # Anything that could be read as a marker (`markers.py`), with other text or brackets after its number, or no end.
    rf"[\[【［〔](?=[\s^]{{0,4}}(?:{_WIDE_REF}|{_WIDE_SOURCE})[sｓ]?[\s:：#＃=＝.．]{{0,8}}\d)",
    re.IGNORECASE,
)
_KEYWORD = re.compile(r"\s{0,3}\^?\s{0,3}(?:ref|reference|source|citation|cite)s?\b", re.IGNORECASE)
_FULL_WIDTH = "【［〔"
_TAG = re.compile(r"<(?=/?(?:passages|question|\|)|\|)", re.IGNORECASE)
_TEMPLATE = re.compile(r"\[(?=/?INST\])|<(?=</?SYS>>)")


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of the context; None means no limit."""

    chars: int | None = None
    """Unicode code points, including labels and line ends."""
    tokens: int | None = None
    """Tokens, by the passages' own counts or our estimate, including labels."""


@dataclass(frozen=True, slots=True)
class Context:
    """The passages as placed in the prompt."""

    citations: tuple[Citation, ...]
    text: str
    """The concatenated blocks; empty if there are none."""
    tokens: int
    """Our estimate."""
    notices: tuple[pb.Notice, ...]
    named: str = ""
    """The labels of all of them, if passages of earlier questions are also in the prompt."""


PassageKey = tuple[int, str]
"""Identity of a passage: chunk and text, because a chunk's text may differ in a newer version."""
Placed = Mapping[PassageKey, Citation]
"""Passages already in the prompt, with earlier questions."""


def key_of(passage: pb.Passage) -> PassageKey:
    """Returns a passage's identity."""
    return passage.chunk_id, passage.text


def pack(
    passages: Sequence[pb.Passage],
    layout: pb.ContextFormat,
    budget: Budget,
    zone: tzinfo = UTC,
    placed: Placed | None = None,
) -> Context:
    """Packs passages into a context.

    Args:
        passages: Best first.
        layout: The layout of a block.
        budget: Limits of all blocks together, inclusive.
        zone: The time zone of dates in the blocks.
        placed: Passages already in the prompt: they aren't placed again and take nothing. New labels follow theirs.

    Returns:
        The placed passages, and a notice about what was cut or left out.
    """
    citations: list[Citation] = []
    blocks: list[str] = []
    notices: list[pb.Notice] = []
    placed = placed or {}
    labels = max((citation.label for citation in placed.values()), default=0)
    chars = tokens = 0
    for index, passage in enumerate(passages):
        number = len(citations) + 1
        if (known := placed.get(key_of(passage))) is not None:
            citations.append(Citation(number, index, passage, known.text, known.label))
            continue
        label = labels + len(blocks) + 1
        text = defuse(passage.text)
        block = render(layout, label, passage, text, zone)
        cost = _block_tokens(passage, block, text)
        too_long = budget.chars is not None and chars + len(block) > budget.chars
        too_dear = budget.tokens is not None and tokens + cost > budget.tokens
        if too_long or too_dear:
            if citations:
                break
            text = _cut(layout, passage, text, budget)
            if not text:
                break
            block = render(layout, label, passage, text, zone)
            cost = min(cost, estimate_tokens(block)) if budget.tokens is None else min(cost, budget.tokens)
            notices.append(_cut_notice(passage, len(text)))
        citations.append(Citation(number, index, passage, text, label))
        blocks.append(block)
        chars += len(block)
        tokens += cost
        if too_long or too_dear:
            break
    if len(citations) < len(passages):
        notices.append(_trimmed_notice(len(citations), len(passages)))
    named = " ".join(_label(layout, citation.label) for citation in citations) if placed else ""
    return Context(tuple(citations), "".join(blocks), tokens, tuple(notices), named)


def render(layout: pb.ContextFormat, number: int, passage: pb.Passage, text: str, zone: tzinfo = UTC) -> str:
    """Formats one passage as a block, including line ends and the blank line."""
    if layout == pb.CONTEXT_FORMAT_PLAIN:
        return f"{text}\n\n"
    if layout == pb.CONTEXT_FORMAT_SOURCE_LABELS:
        return f"[SOURCE {number}] {source_ref(passage)}\n{text}\n\n"
    if layout == pb.CONTEXT_FORMAT_TYPED:
        score = f" | score: {passage.similarity:.2f}" if passage.HasField("similarity") else ""
        kind = _one_line(passage.type) or "passage"
        origin = _origin(passage, zone, kind=passage.entity_type)
        return f"[{number}] type: {kind}{score} | title: {_name(passage)}{origin}\n{text}\n\n"
    place = f", {_one_line(passage.place_label)}" if passage.place_label else ""
    kind = passage.entity_type or (passage.type if passage.type != "file" else "")
    origin = _origin(passage, zone, kind=kind)
    return f"[{number}] {_one_line(passage.title) or _name(passage)}{place}{origin}\n{text}\n\n"


def _label(layout: pb.ContextFormat, label: int) -> str:
    return f"[SOURCE {label}]" if layout == pb.CONTEXT_FORMAT_SOURCE_LABELS else f"[{label}]"


def _origin(passage: pb.Passage, zone: tzinfo, *, kind: str) -> str:
    """Describes the passage's document by its labels, as far as known."""
    labels = _labels(passage, zone, kind)
    return "".join(f" | {name}: {_one_line(value)}" for name, value in labels.items() if value)


def _labels(passage: pb.Passage, zone: tzinfo, kind: str) -> dict[str, str]:
    saved = f"{passage.saved_at.ToDatetime(UTC).astimezone(zone):%Y-%m-%d}" if passage.HasField("saved_at") else ""
    return {"kind": kind, "category": passage.category, "saved": saved, "tags": ", ".join(passage.tags)}


LABELS = tuple(_labels(pb.Passage(), UTC, ""))
"""What a block says of its document besides the title, in this order."""


def source_ref(passage: pb.Passage) -> str:
    """Names a passage's source: `file § section`, or only the file if there is no section."""
    name = _one_line(passage.file_name) or _name(passage)
    section = _one_line(passage.section)
    return f"{name} § {section}" if section else name


def defuse(text: str) -> str:
    """Defuses text of a document that looks like a marker, a label or a tag of our prompt.

    A model that quotes such text can't create a citation with it, and a passage can't pretend to end the passages or to
    start another one. Each character is replaced by exactly one, so that lengths and offsets stay the same.
    """
    if "[" in text or any(bracket in text for bracket in _FULL_WIDTH):
        text = _OPENED.sub("(", _MARKER_LIKE.sub(_round_brackets, text))
        text = _TEMPLATE.sub(lambda match: "(" if match.group() == "[" else "‹", text)
    if "<" in text:
        text = _TAG.sub("‹", text)
    return text


def _round_brackets(match: re.Match[str]) -> str:
    """A bare number is a label only at the start of a line; elsewhere it is an index or a footnote, and stays."""
    inner = match.group(1)
    bracket = match.group()[0]
    starts_line = match.start() == 0 or match.string[match.start() - 1] == "\n"
    if bracket == "[" and not starts_line and not _KEYWORD.match(inner):
        return match.group()
    return f"({inner})"


def _block_tokens(passage: pb.Passage, block: str, text: str) -> int:
    if not passage.token_count:
        return estimate_tokens(block)
    return passage.token_count + estimate_tokens(block[: len(block) - len(text)])


def _cut(layout: pb.ContextFormat, passage: pb.Passage, text: str, budget: Budget) -> str:
    """Cuts a first passage's text so that its block fits; empty if not even a character would."""
    frame = render(layout, 1, passage, "")
    keep = len(text)
    if budget.chars is not None:
        keep = min(keep, budget.chars - len(frame))
    if budget.tokens is not None:
        room = budget.tokens - estimate_tokens(frame)
        cost = passage.token_count or estimate_tokens(text)
        if cost > room:
            keep = min(keep, len(text) * max(room, 0) // cost)
            # The estimate isn't linear for mixed scripts: the kept part may be the dense one.
            while keep > 0 and not passage.token_count and estimate_tokens(text[:keep]) > room:
                keep = keep * 9 // 10
    return text[: max(keep, 0)]


def _cut_notice(passage: pb.Passage, chars: int) -> pb.Notice:
    return pb.Notice(
        name="passage_cut",
        text=f"The first passage ({source_ref(passage)}) is longer than the context's budget: "
        f"{chars:,} of its {len(passage.text):,} characters were used.",
    )


def _trimmed_notice(placed: int, given: int) -> pb.Notice:
    left = given - placed
    verb = "was" if left == 1 else "were"
    return pb.Notice(
        name="context_trimmed",
        text=f"{placed} of {given} passages fit into the context's budget; {left} {verb} left out.",
        passages_left_out=left,
    )


def _name(passage: pb.Passage) -> str:
    return (
        _one_line(passage.title)
        or _one_line(passage.file_name)
        or _one_line(passage.url)
        or f"document {passage.document_id}"
    )


def _one_line(text: str) -> str:
    """Names also come from documents, so they must be one line without markers."""
    return " ".join(defuse(text).split())
