"""Honest rewordings of sentences, which stay true, for `benchmarks.verdicts`."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from benchmarks.verdicts_data import PERCENT, Change, swap

_THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w.,]*\d)")
_PLAIN = re.compile(r"(?<![\w.,/:$£€-])(?!(?:1[0-9]|20)\d\d)\d{4,7}(?![\w.,]*\d)(?!\w)")
_SMALL = re.compile(
    r"(?<![\w.,/:$£€-])(?:[3-9]|1[0-2])(?= [a-z]{3,})(?! (?:to|and|or|percent|million|billion|am|pm)\b)"
)
_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_SMALL_WORD = re.compile(
    rf"(?<=[a-z,] )(?:{'|'.join(_WORDS[3:])})(?= [a-z]+)(?! (?:million|billion|hundred|thousand)\b)"
)
_MILLIONS = re.compile(r"(?<![\w.,])(\d+(?:\.\d+)?) million\b")
_IN_YEAR = re.compile(r"^([A-Z].*?)(,? in ((?:1[4-9]|20)\d\d))\.$")
_PASSIVE = re.compile(r"^(.{4,60}?) (was|were) ([a-z]+ed) by ([A-Z][\w ]{3,40})\.$")


def _regrouped(text: str, draw: random.Random) -> str | None:
    matches = list(_THOUSANDS.finditer(text)) or list(_PLAIN.finditer(text))
    if not matches:
        return None
    match = draw.choice(matches)
    number = int(match.group().replace(",", ""))
    mark = draw.choice(["", " ", "\u202f", "'"] if "," in match.group() else [","])
    return text[: match.start()] + f"{number:,}".replace(",", mark) + text[match.end() :]


def _spelled(text: str, draw: random.Random) -> str | None:
    digits, words = list(_SMALL.finditer(text)), list(_SMALL_WORD.finditer(text))
    if not digits and not words:
        return None
    match = draw.choice(digits + words)
    old = match.group()
    return text[: match.start()] + (_WORDS[int(old)] if old.isdigit() else str(_WORDS.index(old))) + text[match.end() :]


def _percent_sign(text: str, draw: random.Random) -> str | None:
    matches = list(PERCENT.finditer(text))
    if not matches:
        return None
    match = draw.choice(matches)
    new = draw.choice([" per cent", " %", " percent"]) if match.group().endswith("%") else "%"
    return text[: match.start()] + match.group(1) + new + text[match.end() :]


def _million(text: str, draw: random.Random) -> str | None:
    matches = list(_MILLIONS.finditer(text))
    if not matches:
        return None
    match = draw.choice(matches)
    number = round(float(match.group(1)) * 1_000_000)
    return text[: match.start()] + f"{number:,}" + text[match.end() :]


def _year_first(text: str, draw: random.Random) -> str | None:
    del draw
    match = _IN_YEAR.match(text)
    return f"In {match.group(3)}, {match.group(1)}." if match and " in " not in match.group(1) else None


def _active(text: str, draw: random.Random) -> str | None:
    del draw
    match = _PASSIVE.match(text)
    if match is None:
        return None
    what, _, verb, who = match.groups()
    return f"{who} {verb} {what[0].lower() + what[1:] if what.startswith(('The ', 'A ', 'An ')) else what}."


def _contracted(text: str, draw: random.Random) -> str | None:
    matches = list(re.finditer(r"\b(is|was|are|were|did|does|do|has|have|had|could|would) not\b", text))
    if not matches:
        return None
    match = draw.choice(matches)
    return f"{text[: match.start()]}{match.group(1)}n't{text[match.end() :]}"


HONEST: Sequence[tuple[str, Change]] = (
    ("1,000 as 1000, 1 000", _regrouped),
    ("12 as twelve and back", _spelled),
    ("50 % as 50 percent", _percent_sign),
    ("5 million as 5,000,000", _million),
    ("the year first", _year_first),
    ("passive as active", _active),
    ("is not as isn't", _contracted),
    (
        "synonyms",
        swap("big/large", "begin/start", "began/started", "many>numerous", "called/named", "show/demonstrate",
              "also>additionally",
              "however>nevertheless", "used/employed", "built/constructed", "wide/broad", "created/made",
              "nearly/almost",
              "approximately/about", "over>more than", "is located/lies", "because/since", "main/principal",
              "usually/generally", "often/frequently", "must/has to", "may/can", "each/every"),
    ),
)  # fmt: skip
"""Rewordings that stay true."""
