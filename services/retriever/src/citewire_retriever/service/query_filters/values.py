"""Which of a library's own labels a question names: values of entity_type, category, tags and type, and collections.

A word of the question is a label if both have the same stem, in any case and number, by the question's stemmer or the
English one; in Chinese and Japanese, if the question contains it as a whole; or if both belong to one concept
(`kinds.toml`), so that a question in one language finds labels in another.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from itertools import product
from typing import Final, cast

from citewire_retriever.service.query_filters.tokens import Tokens
from citewire_retriever.service.query_filters.words import ENGLISH, UNSPACED, Language, fold, load, word_spans

LONGEST: Final = 5
"""Most words of a label."""
_MARKS: Final = re.compile("[\u0300-\u036f]")
_IS_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
_ARABIC_ARTICLE: Final = re.compile("^(?:\u0648|\u0641)?(?:\u0628|\u0643|\u0644)?\u0627\u0644(?=..)")
_SCRIPT: Final = re.compile("[\u3040-\u309f]|(?P<kana>[\u30a0-\u30ff])|(?P<han>[\u3400-\u9fff\uf900-\ufaff])")
_SHORTEST_STEMMED: Final = 3
"""Shorter words are compared whole."""

_SHORTEST_BASE: Final = 5
_LONGEST_SUFFIX: Final = 6
"""For languages that stack endings."""

Value = tuple[str, str]
"""Field (`entity_type`, `category`, `tags`, `type`, `collection`) and value, as the library has it."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A part of a question that names labels."""

    first: int
    """Index of its first token."""
    last: int
    """The index after its last token."""
    start: int
    """Its position in the text."""
    end: int
    values: tuple[Value, ...]


def initials(tokens: Tokens) -> list[str]:
    """Returns the initials of labels that the question may name, in the form of the database's `corpus.initials`."""
    words: set[str] = {"article", "file", "repository", "capture"}
    concepts = _concepts()
    english = load(ENGLISH)
    for index, token in enumerate(tokens.tokens):
        words |= {token.text, token.key, token.stem, _ARABIC_ARTICLE.sub("", token.key)}
        if _IS_UNSPACED.match(token.text):
            words |= {token.text[at:] for at in range(len(token.text))}
        for length in range(1, LONGEST + 1):
            phrase = tuple(other.text.casefold() for other in tokens.tokens[index : index + length])
            for concept in _concepts_of(phrase, (tokens.language, english)):
                words |= concepts[concept]
    for run in re.findall(f"[{UNSPACED}]+", tokens.text):
        words |= {run[at:] for at in range(len(run))}
    return sorted({spelled for word in words for spelled in _beginnings(word)})


def find_mentions(tokens: Tokens, values: Iterable[Value]) -> list[Mention]:
    """Finds the labels that a question names; the longest wins if they overlap."""
    by_key: dict[object, set[Value]] = {}
    english = load(ENGLISH)
    languages = (tokens.language, english)
    for value in values:
        for key in _keys(_raw_words(value[1]), languages):
            by_key.setdefault(key, set()).add(value)
    spaced = list(_spaced(tokens, by_key, languages))
    unspaced = list(_unspaced(tokens, by_key)) if tokens.language.stemmer is None else []
    mentions: list[Mention] = []
    for mention in sorted([*spaced, *unspaced], key=lambda mention: (mention.start - mention.end, mention.start)):
        if all(mention.end <= other.start or mention.start >= other.end for other in mentions):
            mentions.append(mention)
    return sorted(mentions, key=lambda mention: mention.start)


@cache
def concept_labels() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the English names of the concepts: those for kinds of things, and those for subjects."""
    table = _kinds()
    kinds = frozenset(cast("str", table["things"]).split())
    names = [line.split()[0] for line in cast("list[str]", table["concepts"])]
    spelled = [(name, name.replace("_", " ")) for name in names]
    return tuple(text for name, text in spelled if name in kinds), tuple(
        text for name, text in spelled if name not in kinds
    )


def _spaced(
    tokens: Tokens, by_key: dict[object, set[Value]], languages: tuple[Language, Language]
) -> Iterator[Mention]:
    for index in range(len(tokens)):
        for length in range(min(LONGEST, len(tokens) - index), 0, -1):
            members = tokens.tokens[index : index + length]
            if any(member.consumed for member in members) or not _together(tokens, index, length):
                continue
            words = tuple(member.text.casefold() for member in members)
            values = {
                value
                for key in _keys(words, languages)
                for value in by_key.get(key, ())
                if isinstance(key, int) or _forms_of_one(words, _raw_words(value[1]))
            }
            if values:
                yield Mention(index, index + length, members[0].start, members[-1].end, tuple(sorted(values)))


def _unspaced(tokens: Tokens, by_key: dict[object, set[Value]]) -> Iterator[Mention]:
    """Labels in the text: a whole run of katakana, or Han characters that don't split another word."""
    for run in re.finditer(f"[{UNSPACED}]+", tokens.text):
        text = run.group()
        for start in range(len(text)):
            for end in range(min(len(text), start + 16), start, -1):
                values = {value for key in _keys((text[start:end],), ()) for value in by_key.get(key, ())}
                if not values or not _whole(text, start, end):
                    continue
                first, last = run.start() + start, run.start() + end
                members = [
                    index for index, token in enumerate(tokens.tokens) if token.start < last and token.end > first
                ]
                if members and not any(tokens[at].consumed for at in members):
                    yield Mention(members[0], members[-1] + 1, first, last, tuple(sorted(values)))


def _whole(text: str, start: int, end: int) -> bool:
    """Whether a part of a run is a word: katakana is never split; a single Han character must be alone."""
    before, after = text[start - 1 : start], text[end : end + 1]
    if _kind(text[start]) == "kana" and _kind(before) == "kana":
        return False
    if _kind(text[end - 1]) == "kana" and _kind(after) == "kana":
        return False
    if end - start == 1 and _kind(text[start]) == "han":
        return _kind(before) != "han" and _kind(after) != "han"
    return True


def _kind(character: str) -> str:
    match = _SCRIPT.match(character) if character else None
    return "" if match is None else match.lastgroup or "hiragana"


def _together(tokens: Tokens, index: int, length: int) -> bool:
    """Whether only a space, a hyphen or the like is between the words."""
    return all(
        tokens.between(position, position + 1) in {" ", "-", "_", "/", ".", "&", " & ", "'", "’", ""}
        for position in range(index, index + length - 1)
    )


def _raw_words(text: str) -> tuple[str, ...]:
    """The words of a label in lower case, with the accents that stemmers need."""
    text = unicodedata.normalize("NFC", text.casefold())
    return tuple(text[start:end] for start, end in word_spans(text))


@lru_cache(maxsize=16384)
def _keys(words: tuple[str, ...], languages: tuple[Language, ...]) -> frozenset[object]:
    """The keys for comparing words: themselves, their stems, and their concepts' numbers."""
    if not words:
        return frozenset()
    keys: set[object] = {_bare(words)}
    for language in languages:
        keys |= {_stems(words, language), _stems(_bare(words), language)}
    keys |= _concepts_of(words, languages)
    return frozenset(keys)


def _bare(words: tuple[str, ...]) -> tuple[str, ...]:
    """Folded, without the Arabic article."""
    return tuple(_ARABIC_ARTICLE.sub("", fold(word)) for word in words)


def _stems(words: tuple[str, ...], language: Language) -> tuple[str, ...]:
    return tuple(fold(language.stem(word)) if len(word) >= _SHORTEST_STEMMED else fold(word) for word in words)


def _forms_of_one(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Whether words differ only in their endings, as stemmers conflate `universal` and `university`."""
    if len(first) != len(second):
        return False
    for word, other in zip(_bare(first), _bare(second), strict=True):
        shorter = min(len(word), len(other))
        common = next((at for at in range(shorter) if word[at] != other[at]), shorter)
        if common < shorter - 1:
            return False
    return True


def _beginnings(word: str) -> Iterator[str]:
    """The first two characters of a word, in lower and upper case."""
    begin = _MARKS.sub("", unicodedata.normalize("NFKD", word))[:2]
    if begin:
        yield from ("".join(letters) for letters in product(*({letter.lower(), letter.upper()} for letter in begin)))


@cache
def _kinds() -> dict[str, object]:
    return tomllib.loads(resources.files(__package__ or __name__).joinpath("kinds.toml").read_text("utf-8"))


@cache
def _concepts() -> tuple[frozenset[str], ...]:
    return tuple(
        frozenset(word.replace("_", " ") for word in line.split()) for line in cast("list[str]", _kinds()["concepts"])
    )


@cache
def _concept_index(language: Language | None) -> dict[tuple[str, ...], frozenset[int]]:
    """The concepts by their folded words or, given a language, by the words' stems."""
    index: dict[tuple[str, ...], set[int]] = {}
    for number, words in enumerate(_concepts()):
        for word in words:
            raw = _raw_words(word)
            index.setdefault(_bare(raw) if language is None else _stems(raw, language), set()).add(number)
    return {words: frozenset(numbers) for words, numbers in index.items()}


def _concepts_of(words: tuple[str, ...], languages: tuple[Language, ...]) -> frozenset[int]:
    """The concepts that a phrase belongs to, in any form known to the languages' stemmers."""
    exact = _concept_index(None).get(_bare(words))
    if exact:
        return exact
    for language in languages:
        if language.stemmer is None:
            continue
        if numbers := _concept_index(language).get(_stems(words, language)):
            return numbers
        if language.suffixes and len(words) == 1 and (numbers := _with_suffix(words[0])):
            return numbers
    return frozenset()


@lru_cache(maxsize=4096)
def _with_suffix(word: str) -> frozenset[int]:
    """The concepts that a word of a highly inflected language belongs to (`ravintoloita`, from `ravintola`)."""
    folded = fold(word)
    return frozenset(
        number
        for (*others, last), numbers in _concept_index(None).items()
        if not others and len(last) >= _SHORTEST_BASE and folded.startswith(last[:-1])
        if len(folded) - len(last) <= _LONGEST_SUFFIX
        for number in numbers
    )
