"""Numbers in words: `two hundred and fifty thousand`, `third`, `zwölf`."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from citewire_verify.text.remember import remembered
from citewire_verify.text.terms import Runs, normalise


def _count(words: str, start: int = 0) -> dict[str, int]:
    """Assigns consecutive numbers to words."""
    return {word: value for value, word in enumerate(words.split(), start)}


_ONES = _count(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = {word: 10 * value for word, value in _count("twenty thirty forty fifty sixty seventy eighty ninety", 2).items()}
_SCALES = {"hundred": 100.0, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_ORDINALS = _count(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth",
    1,
)
_MULTIPLES = {"dozen": 12.0, "once": 1.0, "twice": 2.0, "thrice": 3.0, "double": 2.0, "triple": 3.0, "both": 2.0}
_OTHERS = {
    "de": "null eins zwei drei vier funf sechs sieben acht neun zehn elf zwolf",
    "fr": "zero un deux trois quatre cinq six sept huit neuf dix onze douze",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "it": "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici",
    "pt": "zero um dois tres quatro cinco seis sete oito nove dez onze doze",
    "nl": "nul een twee drie vier vijf zes zeven acht negen tien elf twaalf",
}
_NUMBER_WORDS = {
    language: {word: float(value) for value, word in enumerate(words.split())} for language, words in _OTHERS.items()
}
_COUNTING = frozenset({*_ONES, *_TENS, *_SCALES, *_ORDINALS, *_MULTIPLES})
_MAY_COUNT = _COUNTING.union(*_NUMBER_WORDS.values())
_LETTERS = re.compile(r"[^\W\d_]+")
_MOST_WORDS = 12
"""Maximum number of words in one number."""


def read_number_words(text: str, runs: Runs, language: str) -> Iterator[tuple[int, int, float]]:
    """Yields the numbers in words, in order: start, end, value. Compounds in English, small numbers in other languages.

    Args:
        text: The text.
        runs: The text's runs, from `scan`.
        language: The language's code.
    """
    others = _NUMBER_WORDS.get(language, {})
    read = 0
    for start, end, word in _find_words(text, runs, others):
        if start < read:
            continue
        if word in _ONES or word in _TENS or word in _SCALES:
            read, compound = _compound(text, start)
            if compound is not None:
                yield start, read, compound
            continue
        value = _ORDINALS.get(word) or _MULTIPLES.get(word) or others.get(word, 0.0)
        if value > 1 or word not in others:
            yield start, end, float(value)


def _find_words(text: str, runs: Runs, others: Mapping[str, float]) -> Iterator[tuple[int, int, str]]:
    """Yields the words that may begin a number: start, end, and the normalised word."""
    for raw, start in zip(runs.raws, runs.starts, strict=True):
        if not _may_count(raw):
            continue
        for match in _LETTERS.finditer(raw):  # the match ends at a mark
            word, first, end = normalise(match.group()), start + match.start(), start + match.end()
            alone = not (_is_letter(text[first - 1 : first]) or _is_letter(text[end : end + 1]))
            if alone and (word in _COUNTING or word in others):
                yield first, end, word


@remembered
def _may_count(run: str) -> bool:
    """Whether a word may begin a number in a language."""
    return any(normalise(letters) in _MAY_COUNT for letters in _LETTERS.findall(run))


def _is_letter(char: str) -> bool:
    return _LETTERS.match(char) is not None


def _compound(text: str, start: int) -> tuple[int, float | None]:
    """Reads `two hundred and fifty thousand`: its end and value (None for a scale alone, `millions of`)."""
    words = list(islice(_LETTERS.finditer(text, start), _MOST_WORDS + 1))
    total = current = 0.0
    count = 0
    used = False
    last = ""
    for match in words[:_MOST_WORDS]:
        word = normalise(match.group())
        if count and text[words[count - 1].end() : match.start()].strip(" -\u2010\u2011"):
            break
        if word in _ONES:
            if last == "one" or (last == "ten" and not 0 < _ONES[word] < 10):
                break
            current += _ONES[word]
            last = "one"
        elif word in _TENS:
            if last in {"one", "ten"}:
                break
            current += _TENS[word]
            last = "ten"
        elif word in _ORDINALS and last == "ten" and _ORDINALS[word] < 10:
            return match.end(), total + current + _ORDINALS[word]
        elif word == "hundred" and used:
            current = max(current, 1) * 100
            last = "scale"
        elif word in _SCALES and used:
            total += max(current, 1) * _SCALES[word]
            current = 0.0
            last = "scale"
        elif word == "and" and last == "scale":
            following = normalise(words[count + 1].group()) if count + 1 < len(words) else ""
            if following not in _ONES and following not in _TENS:
                break
        else:
            break
        used = True
        count += 1
    return (words[count - 1].end(), total + current) if used else (words[0].end(), None)
