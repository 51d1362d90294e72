"""Stems of words, by script, and among Latin-written languages by the text's own function words."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, cast

import Stemmer

DEFAULT: Final = "english"
_BY_SCRIPT: Final = {
    "ARABIC": "arabic",
    "ARMENIAN": "armenian",
    "CYRILLIC": "russian",
    "DEVANAGARI": "hindi",
    "GREEK": "greek",
    "TAMIL": "tamil",
}
_FUNCTION_WORDS: Final = {
    "english": "the of and to in is that it was for on are with as be by this from at which have or has not were what "
    "who how does did when where why an",
    "spanish": "el la los las de que en y a un una por con se del para su al lo como mas es no fue quien como cual "
    "cuando donde cuantos cuantas cuanto ha son",
    "french": "le la les de des du et en un une que qui est dans pour par sur au aux avec ne pas se ce il elle sont "
    "quel quelle comment ou a ete",
    "german": "der die das und in den von zu mit sich des auf fur ist im dem nicht ein eine als auch es an werden aus "
    "er hat dass wer wie was wann wo welche",
    "italian": "il lo la i gli le di che e in un una per con si del della non e sono da al come piu chi cosa quando "
    "dove quale ha",
    "portuguese": "o a os as de que e em um uma do da no na para com por se nao dos das foi como mais quem qual quando "
    "onde ao",
    "dutch": "de het een van en in is dat op zijn met voor die niet aan er om ook als bij wat wie hoe waar wanneer "
    "door naar",
}
_LANGUAGES: Final = {
    word: tuple(language for language, words in _FUNCTION_WORDS.items() if word in words.split())
    for word in " ".join(_FUNCTION_WORDS.values()).split()
}
_LAST_LATIN: Final = "\u024f"


class _Stems(Protocol):
    def stemWords(self, words: Sequence[str]) -> list[str]:  # noqa: N802 # the library's name
        """Returns the words' stems."""
        ...


def stem_words(words: Sequence[str]) -> list[str]:
    """Returns the stems of folded words, in their order.

    A text's language is the one with the most function words in it, English in a tie. Questions and texts are judged
    separately: names and numbers, which most stemmers don't change, match in any case.
    """
    if not words:
        return []
    latin = guess(words)
    if max(words)[0] <= _LAST_LATIN:
        return _stemmer(latin).stemWords(words)
    by_language: dict[str, list[int]] = {}
    for position, word in enumerate(words):
        language = latin if word[0] <= _LAST_LATIN else _of_script(word[0])
        if language:
            by_language.setdefault(language, []).append(position)
    stems = list(words)
    for language, positions in by_language.items():
        stemmed = _stemmer(language).stemWords([words[position] for position in positions])
        for position, stem in zip(positions, stemmed, strict=True):
            stems[position] = stem
    return stems


def guess(words: Sequence[str]) -> str:
    """Returns the Latin-script language that the folded words seem to be in."""
    counts = Counter(language for word in words if word in _LANGUAGES for language in _LANGUAGES[word])
    best = max(_FUNCTION_WORDS, key=lambda language: counts[language])
    return best if counts[best] > counts[DEFAULT] else DEFAULT


@lru_cache(maxsize=4096)
def _of_script(character: str) -> str:
    return _BY_SCRIPT.get(unicodedata.name(character, "").partition(" ")[0], "")


@lru_cache(maxsize=64)
def _stemmer(language: str) -> _Stems:
    return cast("_Stems", cast("Any", Stemmer).Stemmer(language))
