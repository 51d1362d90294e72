"""Which of a few languages a text is in."""

from citewire_verify.text.stop_words import STOP_WORDS_BY_LANGUAGE
from citewire_verify.text.terms import normalise, words

_SAMPLE = 4000


def detect_language(text: str) -> str:
    """Returns the language whose function words are most frequent in the text's beginning; English if none is."""
    counts = dict.fromkeys(STOP_WORDS_BY_LANGUAGE, 0)
    for word in words(text[:_SAMPLE]):
        normal = normalise(word)
        for code, stops in STOP_WORDS_BY_LANGUAGE.items():
            counts[code] += normal in stops
    best = max(counts, key=lambda code: counts[code])
    return best if counts[best] > counts["en"] else "en"
