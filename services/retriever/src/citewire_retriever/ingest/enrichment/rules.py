"""Describes documents without a language model, by their own words, in any script; the same document gives the same.

Tags are key words: what recurs in the document, or is written like a name, and is rare in the library (TF-IDF), and
those of the library's tags that it names. In scripts without spaces, where no dictionary says what a word is, they are
strings that recur in different surroundings (accessor variety: Feng et al., Computational Linguistics 30(1), 2004).
Kind and category are labels of the library, or of the concepts that questions know (`kinds.toml`), that the document
names where it says what it is about. A summary is its one or two most telling sentences.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from citewire_retriever.ingest.enrichment.model import Description, DocumentToEnrich, EnrichmentSource, Field
from citewire_retriever.ingest.sentences import sentences
from citewire_retriever.lexical import term_number, word_terms
from citewire_retriever.service.query_filters.tokens import tokenise
from citewire_retriever.service.query_filters.values import concept_labels, find_mentions
from citewire_retriever.service.query_filters.words import fold
from citewire_verify.text.sentences import looks_like_code
from citewire_verify.text.terms import Term, terms

MAX_TAGS: Final = 5
MAX_TAG: Final = 40
MAX_SUMMARY: Final = 500
READ: Final = 12_000
"""Maximum number of characters whose words are counted."""
LEAD: Final = 1_000
"""Number of characters at the beginning of a document that state its subject."""
OPENING: Final = 200
OWN_LABEL: Final = 2
"""Minimum weight of mentions for one of the library's labels: in the title, at the beginning, or twice."""
CONCEPT: Final = 3
"""The same for a concept without a label in the library: in the title, or often."""

_K: Final = 1.2
_NAME_BONUS: Final = 1.5
_TITLE_BONUS: Final = 2.0
_LONGEST_HAN: Final = 6
_LONGEST_WORD: Final = 12
_KEY_WORDS: Final = 64
"""Maximum number of candidates whose rarity is queried."""
_SHORTEST_SENTENCE: Final = 20
_SENTENCES: Final = 2
_UNSPACED_RUN: Final = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff々]+|[\u30a1-\u30fa\u30fc]{3,}|[\uac00-\ud7a3]+|[\u0e01-\u0e4e]+|[\u0e81-\u0ede]+"
    "|[\u1000-\u104f]+|[\u1780-\u17d3]+"
)
_HAN: Final = re.compile("[\u3400-\u9fff\uf900-\ufaff々]")
_EDGE: Final = frozenset(
    "的了是在和与與及也不这這那为為以对對就都而被把从從到之其或但所由很将將会會要我你您他她它们們个個一有于於等並并吗呢吧"
)
"""Characters of Chinese function words: a key word neither begins nor ends with one."""
_BEFORE_MEASURES: Final = frozenset("一二两兩三几幾这這那每该該此某数數")
"""Characters before a measure word: a string that only follows these begins with one (家 of 一家餐厅)."""
_MARKUP: Final = re.compile(
    r"!?\[([^\]\n]{0,200})\]\([^)\n]{0,500}\)|[*_`]{1,3}|^\s{0,3}(?:>|[-+*•]|\d{1,2}[.)])\s+", re.MULTILINE
)
_NO_PROSE: Final = re.compile(r"^\s{0,3}(?:#|\||```|~~~|={3,}|-{3,})")
_PARAGRAPH: Final = re.compile(
    r"\n\s*\n|\n(?=\s{0,3}(?:[#>|]|[-+*•]\s|\d{1,2}[.)]\s|```))|(?<=[^\n])\n(?=[^\n]{1,60}\n)"
)


@dataclass(frozen=True, slots=True)
class KeyWord:
    """A candidate for a tag."""

    text: str
    """Its spelling in the document."""
    weight: float
    """Its saturated frequency, including bonuses."""
    terms: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TextStatistics:
    """A document's words."""

    key_words: Sequence[KeyWord]

    @property
    def term_numbers(self) -> list[int]:
        """The terms whose rarity in the library is needed."""
        return sorted({number for word in self.key_words for number in word.terms})


def statistics_of(document: DocumentToEnrich) -> TextStatistics:
    """Counts a document's words."""
    text = _plain(document.text[:READ])
    candidates = [*_spaced(document.title, text), *_unspaced(document.title, text)]
    candidates.sort(key=lambda candidate: (-candidate[1], candidate[0]))
    candidates = candidates[:_KEY_WORDS]
    numbered = word_terms([word for word, _ in candidates])
    return TextStatistics(
        [
            KeyWord(word, weight, tuple(map(term_number, spelled)))
            for (word, weight), spelled in zip(candidates, numbered, strict=True)
            if spelled
        ]
    )


def describe(document: DocumentToEnrich, statistics: TextStatistics, chunks: Mapping[int, int]) -> Description:
    """Describes a document.

    Args:
        document: The document.
        statistics: The statistics of its words.
        chunks: The number of the library's chunks that contain each term; the key 0 has the total.
    """
    weights, spelled = _mentions(document)
    scored = [pair for pair in _score(statistics.key_words, chunks) if fold(pair[0].text) not in spelled]
    labels = document.labels
    kinds, subjects = concept_labels()
    fields = document.open_fields
    # A word of another language for the same thing is no reason for a tag.
    lead = fold(f"{document.title}\n{document.text[:LEAD]}")
    own_tags = [tag for tag in labels.tags if weights.get((Field.TAGS, tag), 0) >= OWN_LABEL and fold(tag) in lead]
    return Description(
        EnrichmentSource.RULES,
        summary=_summary(document, scored) if Field.SUMMARY in fields else "",
        entity_type=_label(Field.ENTITY_TYPE, labels.entity_types, kinds, weights)
        if Field.ENTITY_TYPE in fields
        else "",
        category=_label(Field.CATEGORY, labels.categories, subjects, weights) if Field.CATEGORY in fields else "",
        tags=_tags(own_tags, scored) if Field.TAGS in fields else (),
    )


def _score(key_words: Iterable[KeyWord], chunks: Mapping[int, int]) -> list[tuple[KeyWord, float]]:
    """Key words with their scores, the best first."""
    total = chunks.get(0, 0)

    def rarity(number: int) -> float:
        count = min(chunks.get(number, 0), total)
        return math.log(1 + (total - count + 0.5) / (count + 0.5)) + 0.1

    scored = [(word, word.weight * sum(map(rarity, word.terms)) / len(word.terms)) for word in key_words]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0].text))


def _tags(own_tags: Sequence[str], scored: Sequence[tuple[KeyWord, float]]) -> tuple[str, ...]:
    """The library's tags mentioned in the document, then its best key words; none repeats a part of another."""
    tags = list({tag.casefold(): tag for tag in reversed(own_tags)}.values())[::-1][:MAX_TAGS]
    for word, score in scored:
        if len(tags) == MAX_TAGS or score * 4 < scored[0][1]:
            break
        folded = word.text.casefold()
        if not any(folded in tag.casefold() or tag.casefold() in folded for tag in tags):
            tags.append(word.text)
    return tuple(tags)


def _mentions(document: DocumentToEnrich) -> tuple[dict[tuple[str, str], int], set[str]]:
    """Weights of a document's mentions of labels, and its folded words for kinds and subjects, which aren't key words.

    A mention in the title counts three times, one at the beginning twice.
    """
    labels = document.labels
    kinds, subjects = concept_labels()
    values = {
        *((Field.ENTITY_TYPE.value, label) for label in (*labels.entity_types, *kinds)),
        *((Field.CATEGORY.value, label) for label in (*labels.categories, *subjects)),
        *((Field.TAGS.value, label) for label in labels.tags),
    }
    weights: Counter[tuple[str, str]] = Counter()
    spelled: set[str] = set()
    lead = _plain(document.text[:LEAD])
    for text, in_title in ((document.title, True), (lead, False)):
        for mention in find_mentions(tokenise(text), values) if text.strip() else ():
            weight = CONCEPT if in_title else 2 if mention.start < OPENING else 1
            weights.update(dict.fromkeys(mention.values, weight))
            if any(field != Field.TAGS for field, _ in mention.values):
                spelled.add(fold(text[mention.start : mention.end]))
    return dict(weights), spelled


def _label(field: Field, own: Sequence[str], concepts: Sequence[str], weights: Mapping[tuple[str, str], int]) -> str:
    """The label that the document mentions most, preferring the library's own."""
    for labels, least in ((own, OWN_LABEL), (concepts, CONCEPT)):
        named = [(weights.get((field.value, label), 0), -place, label) for place, label in enumerate(labels)]
        weight, _, label = max(named, default=(0, 0, ""))
        if weight >= least:
            return label
    return ""


def _spaced(title: str, text: str) -> Iterator[tuple[str, float]]:
    """Names, pairs of words that recur, and single words, with their weights."""
    counts: Counter[str] = Counter()
    spelled: dict[str, Counter[str]] = {}
    names: set[str] = set()
    in_title: set[str] = set()
    for part, titled in ((title, True), (text, False)):
        for phrase, key, name in _phrases(part):
            counts[key] += 1
            spelled.setdefault(key, Counter())[phrase] += 1
            if name:
                names.add(key)
            if titled:
                in_title.add(key)
    for key, count in counts.items():
        if count < 2 and key not in in_title and key not in names:
            continue
        weight = count / (count + _K) * (1 + 0.25 * key.count(" "))
        weight *= (_NAME_BONUS if key in names else 1.0) * (_TITLE_BONUS if key in in_title else 1.0)
        phrase = min(spelled[key].items(), key=lambda item: (-item[1], item[0]))[0]
        if len(phrase) <= MAX_TAG:
            yield phrase, weight


def _phrases(text: str) -> Iterator[tuple[str, str, bool]]:
    """Words and pairs of words: their spelling, comparison form, and whether they are written like names."""
    matches = [term for term in terms(text) if not _UNSPACED_RUN.match(text, term.start)]
    for term in matches:
        if not term.stop and not term.number and term.end - term.start >= (2 if term.name else 4):
            yield text[term.start : term.end], term.key, term.name
    for first, second in pairwise(matches):
        if _is_pair(text, first, second):
            yield text[first.start : second.end], f"{first.key} {second.key}", first.name and second.name


def _is_pair(text: str, first: Term, second: Term) -> bool:
    if first.stop or second.stop or first.number or second.number or text[first.end : second.start] not in (" ", "-"):
        return False
    return min(first.end - first.start, second.end - second.start) >= 3


def _unspaced(title: str, text: str) -> Iterator[tuple[str, float]]:
    """Strings that recur in different surroundings."""
    counts: Counter[str] = Counter()
    before: dict[str, set[str]] = {}
    after: dict[str, set[str]] = {}
    titled: set[str] = set()
    for source in (title, text):
        for run in _UNSPACED_RUN.finditer(source):
            for gram, left, right in _grams(run.group(), run.start()):
                counts[gram] += 1
                before.setdefault(gram, set()).add(left)
                after.setdefault(gram, set()).add(right)
                if source is title:
                    titled.add(gram)
    # How often a string occurs in a longer one; one more character suffices, as longer strings aren't more frequent.
    inside: dict[str, int] = {}
    for gram, count in counts.items():
        for part in (gram[1:], gram[:-1]):
            inside[part] = max(inside.get(part, 0), count)
    for gram, count in counts.items():
        if count < 2 or min(len(before[gram]), len(after[gram])) < 2 or gram[0] in _EDGE or gram[-1] in _EDGE:
            continue
        if inside.get(gram, 0) * 4 < count * 3 and not before[gram] <= _BEFORE_MEASURES:
            yield gram, count / (count + _K) * (1 + 0.25 * (len(gram) - 2)) * (_TITLE_BONUS if gram in titled else 1.0)


def _grams(run: str, start: int) -> Iterator[tuple[str, str, str]]:
    """Parts of a run with their context before and after: a neighbour, or a mark for the end of the run.

    Katakana runs are whole words, and words in Hangul begin with a run, because particles follow them.
    """
    if "\u30a0" <= run[0] <= "\u30ff":
        yield run[:_LONGEST_WORD], f"<{start}", f">{start}"
        return
    hangul = run[0] >= "\uac00" and not _HAN.match(run)
    shortest, longest = (2, _LONGEST_HAN) if hangul or _HAN.match(run) else (4, _LONGEST_WORD)
    for length in range(shortest, min(len(run), longest) + 1):
        for at in range(1 if hangul else len(run) - length + 1):
            left = run[at - 1] if at else f"<{start}"
            right = run[at + length] if at + length < len(run) else f">{start}"
            yield run[at : at + length], left, right


def _summary(document: DocumentToEnrich, scored: Sequence[tuple[KeyWord, float]]) -> str:
    """The most informative sentences of the beginning, in order; a program has none."""
    if looks_like_code(document.text[:READ]):
        return ""
    weights = {word.text.casefold(): score for word, score in scored}
    candidates: list[tuple[float, int, str]] = []
    for place, sentence in enumerate(_prose(document.text[:READ])):
        folded = sentence.casefold()
        width = sum(2 if _UNSPACED_RUN.match(character) else 1 for character in sentence)
        if not _SHORTEST_SENTENCE <= width <= MAX_SUMMARY or folded == document.title.casefold():
            continue
        told = sum(weight for word, weight in weights.items() if word in folded)
        candidates.append((told / math.sqrt(width) * (1 + 2 / (1 + place)), place, sentence))
    best = sorted(candidates, key=lambda candidate: (-candidate[0], candidate[1]))[:_SENTENCES]
    summary = ""
    for _, _, sentence in sorted(best, key=lambda candidate: candidate[1]):
        space = "" if not summary or "\u3000" < sentence[0] < "\ua000" or summary.endswith("。") else " "
        if len(summary) + len(space) + len(sentence) <= MAX_SUMMARY:
            summary += space + sentence
    return summary


def _prose(text: str) -> Iterator[str]:
    """Sentences, without headings, tables, code and Markdown's markup."""
    for paragraph in _PARAGRAPH.split(text):
        if not _NO_PROSE.match(paragraph):
            plain = " ".join(_plain(paragraph).split())
            yield from (plain[start:end] for start, end in sentences(plain, 0, len(plain)))


def _plain(text: str) -> str:
    return _MARKUP.sub(lambda match: match.group(1) or "", text)
