"""Which of a few languages a text is in: by its script, and among those in Latin letters by their function words."""

import re

from citewire_verify.text.stop_words import STOP_WORDS_BY_LANGUAGE
from citewire_verify.text.terms import normalise, words

_SAMPLE = 4000
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_KANA = re.compile("[\u3041-\u309f\u30a1-\u30fa]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_HAN_LETTERS = 3
"""Number of Latin letters equivalent to one character of Chinese or Japanese."""
_KANA_SHARE = 0.05
"""Share of kana from which a text with Chinese characters is Japanese: Chinese has almost none, Japanese half."""
_BY_ALPHABET = tuple(
    (code, re.compile(characters))
    for code, characters in (
        ("ru", "[\u0400-\u04ff]"),
        ("el", "[\u0370-\u03ff\u1f00-\u1fff]"),
        ("ar", "[\u0600-\u06ff]"),
        ("hi", "[\u0900-\u097f]"),
        ("ko", "[\uac00-\ud7a3]"),
        ("hy", "[\u0530-\u058f]"),
        ("ta", "[\u0b80-\u0bff]"),
        ("he", "[\u0590-\u05ff]"),
        ("th", "[\u0e00-\u0e7f]"),
    )
)


def detect_language(text: str) -> str:
    """Returns the language code of a text's beginning; English if it can't be determined.

    A script means the language of most texts in it (`ru` for Cyrillic); kana mean Japanese, other Chinese characters
    Chinese. Among languages in Latin letters, the one with the most frequent function words is chosen.
    """
    text = text[:_SAMPLE]
    if not text.isascii() and (code := _by_script(text)):
        return code
    counts = dict.fromkeys(STOP_WORDS_BY_LANGUAGE, 0)
    for word in words(text):
        normal = normalise(word)
        for code, stops in STOP_WORDS_BY_LANGUAGE.items():
            counts[code] += normal in stops
    counts["es"] += text.count("¿")
    best = max(counts, key=lambda code: counts[code])
    return best if counts[best] > counts["en"] else "en"


def _by_script(text: str) -> str:
    """The language of the text's main script; "" for Latin letters."""
    latin = len(_LATIN.findall(text))
    kana, han = len(_KANA.findall(text)), len(_HAN.findall(text))
    if (kana + han) * _HAN_LETTERS > latin:
        return "ja" if kana >= _KANA_SHARE * (kana + han) else "zh"
    most, code = max((len(pattern.findall(text)), code) for code, pattern in _BY_ALPHABET)
    return code if most > latin else ""
