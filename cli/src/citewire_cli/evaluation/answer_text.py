"""How well an answer's text fits the gold answers: SQuAD's normalisation, presence and token F1."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_MARKER = re.compile(r"\[(?:ref|SOURCE)[:\s]\s*\d+(?:\s*,\s*\d+)*\]|【\d+[^】]{0,40}】", re.IGNORECASE)


def normalised(text: str) -> list[str]:
    """The words of a text as SQuAD compares them: lower case, without punctuation and English articles.

    Two things go beyond SQuAD's script, which is for English: Unicode's punctuation counts as such, and a character of
    a script without spaces is a word of its own.
    """
    lowered = unicodedata.normalize("NFC", text).lower()
    bare = "".join(_spaced(one) for one in lowered if not _is_punctuation(one))
    return _ARTICLES.sub(" ", bare).split()


def without_markers(answer: str) -> str:
    """An answer without its markers (`[ref:1]`, `[SOURCE 2]`)."""
    return _MARKER.sub("", answer)


def contains(answer: Sequence[str], gold: Sequence[str]) -> bool:
    """Whether the gold words stand in the answer, in order and next to each other."""
    size = len(gold)
    return size > 0 and any(list(answer[at : at + size]) == list(gold) for at in range(len(answer) - size + 1))


def overlap(answer: Sequence[str], gold: Sequence[str]) -> tuple[float, float]:
    """Token F1 of an answer and a gold answer, and its recall: the share of the gold words that the answer has."""
    if not answer or not gold:
        same = float(not answer and not gold)
        return same, same
    common = sum((Counter(answer) & Counter(gold)).values())
    if not common:
        return 0.0, 0.0
    precision, recall = common / len(answer), common / len(gold)
    return 2 * precision * recall / (precision + recall), recall


def compare(answer: str, golds: Sequence[str]) -> dict[str, float]:
    """Presence, F1 and recall of the gold answer that fits best, each 0–1.

    Returns:
        `answer_present` (1 if one of the gold answers stands in the answer), `answer_f1`, `answer_recall`.
    """
    words = normalised(without_markers(answer))
    listed = [gold for gold in (normalised(one) for one in golds) if gold]
    overlaps = [overlap(words, gold) for gold in listed]
    return {
        "answer_present": float(any(contains(words, gold) for gold in listed)),
        "answer_f1": max((f1 for f1, _ in overlaps), default=0.0),
        "answer_recall": max((recall for _, recall in overlaps), default=0.0),
    }


def _is_punctuation(one: str) -> bool:
    return one in string.punctuation or unicodedata.category(one).startswith("P")


def _spaced(one: str) -> str:
    # Han, Hiragana, Katakana, Thai, Lao, Myanmar, Khmer: written without spaces between words.
    apart = "\u0e00" <= one <= "\u0eff" or "\u1000" <= one <= "\u109f" or "\u1780" <= one <= "\u17ff"
    apart = apart or "\u3040" <= one <= "\u30ff" or "\u3400" <= one <= "\u9fff" or "\uf900" <= one <= "\ufaff"
    return f" {one} " if apart and not unicodedata.combining(one) else one
