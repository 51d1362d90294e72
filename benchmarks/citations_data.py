"""Sentences with the passages that they cite, and false ones derived from them, for `benchmarks.citations`.

From SQuAD 2.0: sentences of paragraphs, as an answer quotes them. From ClapNQ: sentences of its long answers, which
people wrote from a passage; those that don't appear verbatim in it count as paraphrased.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from citewire.generator.v1 import generator_pb2 as pb

from citewire_verify.text.sentences import UnitKind, split_units

AUXILIARIES = [
    "is",
    "was",
    "are",
    "were",
    "can",
    "could",
    "will",
    "would",
    "has",
    "have",
    "had",
    "did",
    "does",
    "do",
    "should",
    "must",
    "may",
    "might",
    "cannot",
]
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*(?![\d\w])")
_NUMBER_WORDS = [
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "twenty",
    "thirty",
    "forty",
    "fifty",
    "sixty",
    "hundred",
]
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(_NUMBER_WORDS)})\b")
_NAME = re.compile(r"(?<=[a-z,;] )(?:[A-Z][a-z]{2,}|[A-Z]{2,5})(?: (?:[A-Z][a-z]{2,}|[A-Z]{2,5}))*(?![\w'’])")
_SUBJECT = re.compile(r"[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})*(?![\w'’])")
_NOT = re.compile(
    rf"\b({'|'.join(AUXILIARIES)}) not \b|\b(is|was|are|were|could|did|does|do|would|has|have|had)n't\b|\bnever \b"
)
_AUXILIARY = re.compile(rf"(?<=\w )({'|'.join(AUXILIARIES[:-1])}) (?!not\b|n't|never\b)(?=[a-z])")
_PAST = re.compile(r"(?<=[a-z\w] )([a-z]{3,}[^e\W])ed (?=(?:the|a|an|his|her|its|their|in|to|by|from|on)\b)")
_MONTHS_AND_DAYS = frozenset(
    [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
        "The",
        "This",
        "These",
        "Those",
    ]
)


@dataclass(frozen=True, slots=True)
class Case:
    """A sentence that cites a passage."""

    source: str
    """`squad`, `clapnq`."""
    group: str
    """Article or question; a split keeps these together."""
    sentence: str
    passage: pb.Passage
    paraphrased: bool
    change: str = ""
    """The kind of change: `number`, `name`, `subject`, `negation`; `elsewhere`: another passage of its article."""
    taken: bool = False
    """Whether the false number or name appears in the same passage."""

    @property
    def fitting(self) -> bool:
        """Whether it belongs to the half used for fitting."""
        return zlib.crc32(self.group.encode()) % 2 == 0


def detokenise(text: str) -> str:
    """Restores normal spacing in tokenised text: ClapNQ has spaces around punctuation."""
    text = re.sub(r" ([,.;:!?%)\]])", r"\1", text.replace("``", '"').replace("''", '"'))
    text = re.sub(r"([(\[$£€]) ", r"\1", text)
    return re.sub(r" (n't|'s|'re|'ve|'ll|'d)\b", r"\1", text).strip()


def squad_paragraphs(data: Path) -> list[pb.Passage]:
    """All paragraphs of SQuAD's 18 articles."""
    raw: dict[str, Any] = json.loads(gzip.decompress((data / "qa-squad2" / "squad2-dev-half-a.json.gz").read_bytes()))
    results: list[pb.Passage] = []
    for document, article in enumerate(raw["data"]):
        for paragraph in article["paragraphs"]:
            title = article["title"].replace("_", " ")
            results.append(_passage(len(results) + 1, document + 1, paragraph["context"], title))
    return results


def squad_questions(data: Path) -> list[tuple[str, int]]:
    """SQuAD's answerable questions, each with the number of its paragraph."""
    raw: dict[str, Any] = json.loads(gzip.decompress((data / "qa-squad2" / "squad2-dev-half-a.json.gz").read_bytes()))
    paragraphs = [paragraph for article in raw["data"] for paragraph in article["paragraphs"]]
    return [
        (qa["question"], number)
        for number, paragraph in enumerate(paragraphs)
        for qa in paragraph["qas"]
        if not qa["is_impossible"]
    ]


@dataclass(frozen=True, slots=True)
class ClapnqQuestion:
    """A question of ClapNQ with its passage and the answers that people wrote."""

    id: str
    question: str
    passage: pb.Passage
    answers: tuple[str, ...]


def clapnq_answers(data: Path) -> list[ClapnqQuestion]:
    """ClapNQ's answerable questions."""
    lines = (
        gzip.decompress((data / "qa-clapnq" / "clapnq_dev_answerable_a.jsonl.gz").read_bytes()).decode().splitlines()
    )
    results: list[ClapnqQuestion] = []
    for number, line in enumerate(lines, start=1):
        row: dict[str, Any] = json.loads(line)
        passage = _passage(number, number, row["passages"][0]["text"], row["passages"][0]["title"])
        answers = tuple(output["answer"] for output in row["output"] if output["answer"].strip())
        results.append(ClapnqQuestion(row["id"], row["input"], passage, answers))
    return results


def sentences_of(text: str) -> list[str]:
    """The sentences of a text."""
    units = [unit for unit in split_units(text) if unit.kind is UnitKind.SENTENCE]
    return [text[unit.start : unit.end] for unit in units if len(text[unit.start : unit.end].split()) >= 5]


def true_cases(data: Path) -> list[Case]:
    """Unchanged sentences."""
    cases = [
        Case("squad", passage.title, sentence, passage, paraphrased=False)
        for passage in squad_paragraphs(data)
        for sentence in sentences_of(passage.text)
    ]
    for question in clapnq_answers(data):
        bare = _bare(question.passage.text)
        seen: set[str] = set()
        for answer in question.answers:
            for sentence in sentences_of(detokenise(answer)):
                if sentence not in seen:
                    seen.add(sentence)
                    cases.append(Case("clapnq", question.id, sentence, question.passage, _bare(sentence) not in bare))
    return cases


def false_cases(true: list[Case], change: str, *, taken: bool = False, seed: int = 1) -> list[Case]:
    """False sentences, derived from all sentences that allow it."""
    draw = random.Random(f"{seed} {change} {taken}")  # no secret, a repeatable choice
    names = sorted({match.group() for case in true for match in _NAME.finditer(case.sentence)} - _MONTHS_AND_DAYS)
    results: list[Case] = []
    for case in true:
        changed = _change(case, change, names, draw, taken=taken)
        if changed is not None and changed != case.sentence:
            results.append(replace(case, sentence=changed, change=change, taken=taken))
    return results


def elsewhere_cases(true: list[Case], data: Path, seed: int = 1) -> list[Case]:
    """Sentences of SQuAD that cite another paragraph of their article."""
    draw = random.Random(seed)  # no secret, a repeatable choice
    articles: dict[str, list[pb.Passage]] = {}
    for passage in squad_paragraphs(data):
        articles.setdefault(passage.title, []).append(passage)
    return [
        replace(case, passage=other, change="elsewhere")
        for case in true
        if case.source == "squad" and (other := draw.choice(articles[case.group])) is not case.passage
    ]


def _change(case: Case, change: str, names: list[str], draw: random.Random, *, taken: bool) -> str | None:
    if change == "number":
        return _change_number(case, draw, taken=taken)
    if change in {"name", "subject"}:
        return _change_name(case, names, draw, taken=taken, subject=change == "subject")
    return _change_negation(case.sentence, draw)


def _change_number(case: Case, draw: random.Random, *, taken: bool) -> str | None:
    text = case.sentence
    matches = list(_NUMBER.finditer(text)) or ([] if taken else list(_NUMBER_WORD.finditer(text)))
    if not matches:
        return None
    match = draw.choice(matches)
    held = set(_NUMBER.findall(case.passage.text))
    if taken:
        others = sorted(
            entry for entry in held if entry not in text and len(entry) == len(match.group()) and entry != match.group()
        )
        new = draw.choice(others) if others else None
    else:
        new = _other_number(match.group(), held, draw)
    return None if new is None else text[: match.start()] + new + text[match.end() :]


def _other_number(old: str, held: set[str], draw: random.Random) -> str | None:
    if old.isalpha():
        return draw.choice([word for word in _NUMBER_WORDS if word != old])
    for _ in range(20):
        digits = list(old)
        places = [place for place, char in enumerate(digits) if char.isdigit()]
        # A year is changed in its last two digits, any other number anywhere.
        place = draw.choice(places[-2:] if len(places) == len(old) == 4 else places)
        digits[place] = draw.choice([d for d in "123456789" if d != digits[place]])
        new = "".join(digits)
        if new not in held:
            return new
    return None


def _change_name(
    case: Case, names: list[str], draw: random.Random, *, taken: bool, subject: bool = False
) -> str | None:
    if subject:
        # A sentence's first words are a name if they are also capitalised inside sentences.
        first = _SUBJECT.match(case.sentence)
        known = first is not None and first.group() in names
        matches = [first] if first is not None and known else []
    else:
        matches = [match for match in _NAME.finditer(case.sentence) if match.group() not in _MONTHS_AND_DAYS]
    if not matches:
        return None
    match = draw.choice(matches)
    if taken:
        held = {entry.group() for entry in _NAME.finditer(case.passage.text)} - _MONTHS_AND_DAYS
        others = sorted(
            name for name in held if name not in case.sentence and not set(name.split()) & set(match.group().split())
        )
        new = draw.choice(others) if others else None
    else:
        new = next((name for name in draw.sample(names, 50) if not _shares(name, case.passage)), None)
    return None if new is None else case.sentence[: match.start()] + new + case.sentence[match.end() :]


def _passage(chunk_id: int, document_id: int, text: str, title: str) -> pb.Passage:
    return pb.Passage(chunk_id=chunk_id, document_id=document_id, text=text, title=title)


def _shares(name: str, passage: pb.Passage) -> bool:
    """Whether a passage already contains a part of a name."""
    held = f"{passage.title} {passage.text}".casefold()
    return any(part.casefold() in held for part in name.split())


def _change_negation(text: str, draw: random.Random) -> str | None:
    negated = list(_NOT.finditer(text))
    if negated:
        match = draw.choice(negated)
        positive = match.group(1) or match.group(2)
        if positive == "cannot":
            positive = "can"
        replacement = "" if positive is None else positive + (" " if match.group().endswith(" ") else "")
        return text[: match.start()] + replacement + text[match.end() :]
    plain = list(_AUXILIARY.finditer(text))
    if plain:
        match = draw.choice(plain)
        return f"{text[: match.end()]}{draw.choice(['not', 'not', 'never'])} {text[match.end() :]}"
    past = list(_PAST.finditer(text))
    if past:
        match = draw.choice(past)
        return f"{text[: match.start()]}did not {match.group(1)} {text[match.end() :]}"
    return None


def _bare(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def some(cases: list[Case], size: int, seed: int) -> list[Case]:
    """At most `size` of the cases, drawn at random."""
    draw = random.Random(seed)  # no secret, a repeatable choice
    return cases if len(cases) <= size else draw.sample(cases, size)
