"""Reads what models write: a JSON object, however it is wrapped, or a rewritten question.

Models put objects into code fences, think aloud before them, or add a sentence after them. So every object in the text
is looked at, and the last one that holds what was asked for counts. What isn't of the documented type is no judgement:
it is never guessed at.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import cast

MAX_REASON = 300
"""Longest reason in code points."""
MAX_CONDENSED = 2_000
"""Longest condensed question in code points; anything longer isn't a question."""
MAX_PASSAGE = 4_000
"""Longest hypothetical passage in code points; a longer one is cut."""
MAX_READ = 65_536
"""Maximum code points read of a model's text."""
MAX_OBJECTS = 64
"""Maximum number of opening braces that are tried."""

_THOUGHTS_END = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"^\s*```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```\s*$", re.DOTALL)
_LABEL = re.compile(
    r"^(?:\*\*)?(?:(?:standalone |rewritten |condensed |final )?(?:question|query)|passage|answer):(?:\*\*)?\s*",
    re.IGNORECASE,
)
_QUOTES = "\"'“”„«»` \t\n"
_WORDS = {"true": True, "yes": True, "false": False, "no": False}


def read_decision(text: str) -> tuple[bool, str] | None:
    """Reads `{needs_retrieval, reason}`; None if it isn't there. A missing reason is ""."""
    for answer in objects_of(text):
        needed = _bool(answer.get("needs_retrieval"))
        if needed is not None:
            reason = answer.get("reason")
            return needed, _one_line(reason)[:MAX_REASON].rstrip() if isinstance(reason, str) else ""
    return None


def read_assessment(text: str) -> tuple[bool, float] | None:
    """Reads `{supported, utility}`; None if it isn't there, or the utility is out of range."""
    for answer in objects_of(text):
        supported, utility = _bool(answer.get("supported")), _number(answer.get("utility"))
        if supported is not None and utility is not None:
            return (supported, utility) if 0 <= utility <= 1 else None
    return None


def objects_of(text: str) -> Iterator[Mapping[str, object]]:
    """All JSON objects of a text that aren't inside another, the last one first."""
    text = _after_thoughts(text)
    decoder = json.JSONDecoder()
    objects: list[Mapping[str, object]] = []
    start = text.find("{")
    for _ in range(MAX_OBJECTS):
        if start < 0:
            break
        try:
            parsed, end = cast("tuple[object, int]", decoder.raw_decode(text, start))
        except (ValueError, RecursionError):
            end = start + 1
        else:
            if isinstance(parsed, dict):
                objects.append(cast("Mapping[str, object]", parsed))
        start = text.find("{", end)
    return reversed(objects)


def read_relevance(text: str, passages: int) -> frozenset[int] | None:
    """Reads `{relevant}`, passage numbers from 1; None if it isn't there, or if all numbers are invalid."""
    for answer in objects_of(text):
        numbers = answer.get("relevant")
        if not isinstance(numbers, list):
            continue
        given = [_number(number) for number in cast("list[object]", numbers)]
        relevant = {int(number) for number in given if number is not None and number in range(1, passages + 1)}
        return frozenset(relevant) if relevant or not given else None
    return None


def read_condensed(text: str) -> str:
    """Reads a standalone question on one line; "" if there is none."""
    question = _one_line(_LABEL.sub("", _bare(text))).strip(_QUOTES)
    return question if len(question) <= MAX_CONDENSED else ""


def read_passage(text: str) -> str:
    """Reads a hypothetical passage; "" if there is none."""
    return _LABEL.sub("", _bare(text)).strip(_QUOTES)[:MAX_PASSAGE].rstrip()


def _bool(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return _WORDS.get(value.strip().casefold()) if isinstance(value, str) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _after_thoughts(text: str) -> str:
    """The text after thinking, which some models put between tags before they answer."""
    start = 0
    for match in _THOUGHTS_END.finditer(text, 0, MAX_READ):
        start = match.end()
    return text[start:MAX_READ]


def _bare(text: str) -> str:
    text = _after_thoughts(text)
    fenced = _FENCE.match(text)
    return (fenced.group(1) if fenced else text).replace("\0", "").strip()


def _one_line(text: str) -> str:
    return " ".join(text.replace("\0", "").split())
