"""Sentence boundaries by punctuation, for most scripts, without a model."""

import re

# A full stop in Latin, Greek or Cyrillic script ends a sentence only before white space (a reference like [12] may come
# between); in other scripts it always does.
_END = re.compile(
    r"""(?<![.!?…])[.!?…]+["'”’»)\]]*(?:\[[\w ,–-]{1,12}\])*(?=\s)|[。！？｡]+["'”’」』）]*|[।॥؟۔።][”"]?(?=\s)"""
)
_ABBREVIATIONS = frozenset(
    {
        "al", "approx", "apr", "art", "aug", "bzw", "ca", "cf", "co", "corp", "dec", "dept", "dr", "ed", "eds",
        "eg", "e.g", "etc", "evtl", "feb", "fig", "figs", "ff", "ggf", "gov", "inc", "inkl", "i.e", "ie", "jan",
        "jr", "jul", "jun", "ltd", "max", "min", "mio", "mr", "mrs", "ms", "mt", "no", "nos", "nov", "nr", "oct",
        "op", "p", "pp", "para", "prof", "resp", "rev", "sec", "sen", "sep", "sept", "sr", "st", "str", "tel",
        "u.a", "u.k", "u.s", "usw", "v", "vgl", "vol", "vols", "vs", "z.b"
    }
)  # fmt: skip
_WORD_BEFORE = re.compile(r"[\w.]*\Z")
_LOOK_BACK = 24


def sentences(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Spans of the sentences in text[start:end], in order, without white space around them.

    Together they cover everything but white space. A sentence without final punctuation extends to the end.
    """
    results: list[tuple[int, int]] = []
    begin = start
    for match in _END.finditer(text, start, end):
        if match.end() > begin and _ends(text, match, end):
            _append(results, text, begin, match.end())
            begin = match.end()
    _append(results, text, begin, end)
    return results


def _append(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    stripped = piece.strip()
    if stripped:
        lead = len(piece) - len(piece.lstrip())
        spans.append((start + lead, start + lead + len(stripped)))


def _ends(text: str, match: re.Match[str], end: int) -> bool:
    """Whether the punctuation ends a sentence: it isn't an abbreviation's, and a new sentence may start after it."""
    if match.group()[0] not in ".…":
        return True
    position = match.end()
    while position < end and text[position].isspace():
        position += 1
    if position < end and text[position].islower():
        return False
    if len(match.group()) > 1 and match.group()[1] == ".":
        return True
    before = _WORD_BEFORE.search(text, max(0, match.start() - _LOOK_BACK), match.start())
    word = before.group() if before else ""
    # "J. Smith": a single letter is an initial; "1. First": a number at the start of a line numbers a list item.
    is_initial = len(word) == 1 and word.isalpha() and word.isupper() and word != "I"
    return not is_initial and word.lower() not in _ABBREVIATIONS
