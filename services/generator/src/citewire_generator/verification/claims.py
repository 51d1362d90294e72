"""A sentence of an answer, made ready to be looked for in passages."""

from dataclasses import dataclass

from citewire_generator.verification.vocabulary import FRAMES, OPENERS
from citewire_generator.verification.words import Word, WordKind, katakana, read_words

_WEIGHTS = {WordKind.PLAIN: 1.0, WordKind.NAME: 1.5, WordKind.NUMBER: 1.5}
_SHORT = 0.7
"""Weight of a word of three letters or fewer."""
_PAIR = 0.5
"""Weight of a pair of characters of a script without spaces."""
_FRAME = 0.2
"""Weight of a word that only leads to what is said: `According to the document, …`, `Furthermore, …`."""
_NAME_GAP = 4
"""Code points between two words of one name, at most."""
MAX_ITEMS = 160
"""Words with a topic that are compared; a longer sentence is judged by its beginning."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a sentence says, word by word."""

    text: str
    words: list[Word]
    items: list[int]
    """Indices of the words that carry its topic."""
    weights: list[float]
    """Of the items."""
    groups: list[int]
    """Of each item, the index of the first item of its name; its own if it is in none."""
    unspaced: bool
    """Whether most of it is in a script without spaces."""
    foreign: list[str]
    """Names in katakana."""

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return sum(self.weights)


def read_claim(text: str) -> Claim:
    """Reads a sentence, markers blanked."""
    words = read_words(text)
    items = [index for index, word in enumerate(words) if word.kind is not WordKind.STOP][:MAX_ITEMS]
    weights: list[float] = []
    groups: list[int] = []
    for place, index in enumerate(items):
        word = words[index]
        weight = _WEIGHTS[word.kind]
        if word.unspaced:
            weight = _PAIR
        elif word.normal in FRAMES or (word.capital and word.normal in OPENERS):
            weight = _FRAME
        elif word.kind is WordKind.PLAIN and len(word.normal) <= 3:
            weight = _SHORT
        weights.append(weight)
        joined = place > 0 and items[place - 1] == index - 1 and _one_name(text, words[index - 1], word)
        groups.append(groups[-1] if joined else place)
    unspaced = 2 * sum(words[index].unspaced for index in items) > len(items)
    return Claim(text, words, items, weights, groups, unspaced, [text[start:end] for start, end in katakana(text)])


def _one_name(text: str, one: Word, other: Word) -> bool:
    both = one.kind is WordKind.NAME and other.kind is WordKind.NAME
    between = text[one.end : other.start]
    # A marker that was blanked is wider than what stands between the words of a name.
    return both and len(between) <= _NAME_GAP and not between.strip(" -.'’&")
