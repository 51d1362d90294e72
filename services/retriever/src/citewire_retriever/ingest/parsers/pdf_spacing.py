"""The text of letters that a PDF sets apart: `T o t a l  d u e` is two words.

pdfium separates glyphs by a space where the gap between them is wide, so letter-spaced text becomes single letters. The
gaps tell: those between letters are alike, and those between words are clearly wider. Letters that a writer separated
by typed spaces, such as initials, are kept apart, and so are the few letters of a formula, whose gaps are all alike.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

UNSPACED: Final = (  # Thai, Lao, Burmese, Khmer, kana and Han, which have no spaces between words
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff]"
)
_UNSPACED: Final = re.compile(UNSPACED)
Edges = tuple[float, float]
"""The left and right edge of a character."""

_SINGLES: Final = re.compile(r"(?<!\S)\S(?:\s++\S(?!\S)){3,}")
"""At least four characters with white space between them."""
_LETTERS: Final = 0.7
"""Least share of letters among them."""
_FEWEST: Final = 5
"""Fewest characters of a single word, and of two words."""
_FEWEST_OF_WORDS: Final = 8
_ALIKE: Final = 0.12
"""Most difference of the gaps between letters, in heights of the font, and least to those between words."""
_NARROW: Final = 0.24
"""Gap below which a line of letters with gaps alike is one word: no typed space is narrower."""
_WIDEST: Final = 0.5
_LONG: Final = 4
"""Fewest letters of the longest word, so that no list of symbols becomes one."""
_FEWEST_IDEOGRAPHS: Final = 4
_IDEOGRAPHS_ALIKE: Final = 0.3
_TOUCHING: Final = 0.1
"""Gap of two ideographs that isn't seen as a space."""


def gaps_in_words(
    text: str, size: float, edges: Callable[[int], Edges | None], is_typed: Callable[[int], bool]
) -> tuple[set[int], float]:
    """The white space of a line that only sets letters apart, by its places, and how far it sets them apart at most.

    Args:
        text: The line's characters.
        size: The height of its font.
        edges: The edges of a character, by its place in the text.
        is_typed: Whether white space is a character of the file, not a gap between two.
    """
    dropped: set[int] = set()
    widest = 0.0
    for match in _SINGLES.finditer(text):
        places = [place for place in range(*match.span()) if not text[place].isspace()]
        for unspaced, series in groupby(places, lambda place: bool(_UNSPACED.match(text[place]))):
            within = _within_words(text, list(series), size, edges, is_typed, unspaced=unspaced)
            for before, after, gap in within:
                dropped.update(range(before + 1, after))
                widest = max(widest, gap)
    return dropped, widest


def _within_words(
    text: str,
    places: Sequence[int],
    size: float,
    edges: Callable[[int], Edges | None],
    is_typed: Callable[[int], bool],
    *,
    unspaced: bool,
) -> Iterator[tuple[int, int, float]]:
    """Each two consecutive letters of a word, and the gap between them."""
    boxes = [box for box in map(edges, places) if box is not None]
    if len(boxes) < len(places) or len(places) < 2:
        return
    gaps = [after[0] - before[1] for before, after in pairwise(boxes)]
    pairs = list(pairwise(places))
    if unspaced:
        compared = [gap for pair, gap in zip(pairs, gaps, strict=True) if all(text[place].isalnum() for place in pair)]
        is_series = len(compared) >= _FEWEST_IDEOGRAPHS - 1
        alike = is_series and max(compared) - min(compared) <= _IDEOGRAPHS_ALIKE * size
        joined = [alike or gap <= _TOUCHING * size for gap in gaps]
    else:
        typed = [any(map(is_typed, range(before + 1, after))) for before, after in pairs]
        joined = _are_joined([text[place] for place in places], gaps, typed, size)
    for (before, after), gap, is_joined in zip(pairs, gaps, joined, strict=True):
        if is_joined:
            yield before, after, gap


def _are_joined(letters: Sequence[str], gaps: Sequence[float], typed: Sequence[bool], size: float) -> list[bool]:
    """Whether each two letters belong to one word."""
    apart = [False] * len(gaps)
    if sum(map(str.isalpha, letters)) < _LETTERS * len(letters) or len(letters) < _FEWEST:
        return apart
    ordered = sorted(gaps)
    step, between = max((after - before, index) for index, (before, after) in enumerate(pairwise(ordered)))
    if step < _ALIKE * size:
        is_word = "".join(letters).isalpha() and len(set(letters)) > 2 and not any(typed)
        is_alike = ordered[-1] - ordered[0] <= _ALIKE * size and ordered[-1] < _NARROW * size
        return [is_word and is_alike] * len(gaps)
    widest = ordered[between]
    joined = [gap <= widest for gap in gaps]
    words = "".join(
        letter + ("" if join else " ") for letter, join in zip(letters, [*joined, True], strict=True)
    ).split()
    is_alike = widest - ordered[0] <= _ALIKE * size and 0 < widest <= _WIDEST * size
    if len(letters) < _FEWEST_OF_WORDS or not is_alike or max(map(len, words)) < _LONG:
        return apart
    return apart if any(space for space, join in zip(typed, joined, strict=True) if join) else joined
