"""How well an answer's text fits the gold answers: SQuAD's normalisation, presence and token F1."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_MARKER = re.compile(r"\[(?:ref|SOURCE)[:\s]\s*\d+(?:\s*,\s*\d+)*\]|【\d+[^】]{0,40}】", re.IGNORECASE)


def normalise(text: str) -> list[str]:
    """The words of a text as SQuAD compares them: lower case, without punctuation and English articles.

    Unlike SQuAD's script, which is made for English, this one removes all Unicode punctuation and treats a character of
    a script without spaces as a word.
    """
    lowered = unicodedata.normalize("NFC", text).lower()
    bare = "".join(_with_spaces(character) for character in lowered if not _is_punctuation(character))
    return _ARTICLES.sub(" ", bare).split()


def without_markers(answer: str) -> str:
    """Removes the markers (`[ref:1]`, `[SOURCE 2]`) from an answer."""
    return _MARKER.sub("", answer)


def contains(answer: Sequence[str], gold: Sequence[str]) -> bool:
    """Whether the gold words appear in the answer as one contiguous run."""
    size = len(gold)
    return size > 0 and any(list(answer[at : at + size]) == list(gold) for at in range(len(answer) - size + 1))


def overlap(answer: Sequence[str], gold: Sequence[str]) -> tuple[float, float]:
    """Token F1 of an answer and a gold answer, and recall: the share of the gold words that the answer contains."""
    if not answer or not gold:
        same = float(not answer and not gold)
        return same, same
    common = sum((Counter(answer) & Counter(gold)).values())
    if not common:
        return 0.0, 0.0
    precision, recall = common / len(answer), common / len(gold)
    return 2 * precision * recall / (precision + recall), recall


def compare(answer: str, gold_answers: Sequence[str]) -> dict[str, float]:
    """Presence, F1 and recall for the best-fitting gold answer, each 0–1.

    Returns:
        `answer_present` (1 if one of the gold answers appears in the answer), `answer_f1`, `answer_recall`.
    """
    words = normalise(without_markers(answer))
    gold_words = [gold for gold in map(normalise, gold_answers) if gold]
    overlaps = [overlap(words, gold) for gold in gold_words]
    return {
        "answer_present": float(any(contains(words, gold) for gold in gold_words)),
        "answer_f1": max((f1 for f1, _ in overlaps), default=0.0),
        "answer_recall": max((recall for _, recall in overlaps), default=0.0),
    }


def _is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character).startswith("P")


def _with_spaces(character: str) -> str:
    # Han, Hiragana, Katakana, Thai, Lao, Myanmar and Khmer are written without spaces between words.
    apart = "\u0e00" <= character <= "\u0eff" or "\u1000" <= character <= "\u109f" or "\u1780" <= character <= "\u17ff"
    apart = apart or "\u3040" <= character <= "\u30ff" or "\u3400" <= character <= "\u9fff"
    apart = apart or "\uf900" <= character <= "\ufaff"
    return f" {character} " if apart and not unicodedata.combining(character) else character
