"""The intent of a question about the saved documents: a list of them, those of a kind, or neither.

A filter hides documents, so one is derived only if the question asks for saved things as such. "How does AI work?"
refers to no document, whatever the tags are; "Which AI articles did I save?" does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from citewire_retriever.service.query_filters.spans import DateSpan
from citewire_retriever.service.query_filters.tokens import Token, Tokens
from citewire_retriever.service.query_filters.values import Mention

TYPES: Final = ("article", "repository")
"""Types of documents with their own names in questions."""
FIELDS: Final = ("tag", "category", "collection", "entity_type")
_NOUNS: Final = ("items", *TYPES)
_NEAR: Final = 5
"""Most words between a noun and its date."""


class Zone(Enum):
    """The part of the question that a word is in."""

    HEAD = auto()
    """The requested thing."""
    ABOUT = auto()
    """Its topic."""
    ASIDE = auto()
    """After another preposition."""


@dataclass(frozen=True, slots=True)
class Intent:
    """How a question refers to saved documents."""

    saved: bool
    """It says that something was saved, by the asker or at some time."""
    listed: bool
    """It wants things shown or listed."""
    summed: bool
    """It wants things summarised."""
    dated: bool
    """A date belongs to a noun for documents (`this week's articles`)."""
    fresh: bool
    """It asks what is new."""
    is_list: bool
    """Whether a list of documents may answer it: not if it asks when, why or who."""

    @property
    def any(self) -> bool:
        """Whether it asks for saved things at all."""
        return self.saved or self.listed or self.summed or self.dated or self.fresh


def read_intent(tokens: Tokens, spans: Sequence[DateSpan]) -> Intent:
    """Reads what a question wants, once its dates have been found."""
    mine = tokens.any("me") or tokens.any("saved_me")
    named = any(tokens.any(name) for name in _NOUNS)
    unspaced = tokens.language.stemmer is None
    says = tokens.any("saved_me") or (
        any(_says_saved(tokens, index) for index in range(len(tokens)))
        and (mine or named or bool(spans) or (unspaced and tokens.any("ask")))
    )
    asks_else = any("not_list" in token.classes and "ask" not in token.classes for token in tokens.tokens)
    return Intent(
        # "How do I save a file?" isn't about saved documents.
        saved=says and (bool(spans) or not asks_else),
        listed=tokens.any("list"),
        summed=tokens.any("sum"),
        dated=any(_belongs_to_noun(tokens, span) for span in spans),
        fresh=any("new" in token.classes and not token.consumed for token in tokens.tokens),
        is_list=not asks_else,
    )


def zones(tokens: Tokens) -> list[Zone]:
    """Returns each word's part: in the request, in its topic, or elsewhere."""
    result: list[Zone] = []
    zone = Zone.HEAD
    behind = tokens.language.stemmer is None or tokens.language.suffixes  # languages in which `about` comes after
    for token in tokens.tokens:
        classes = token.classes
        if classes & {"ask", "list", "sum", "all", "saved", "saved_me", *_NOUNS}:
            zone = Zone.HEAD
        elif "about" in classes and not behind and not token.consumed:
            zone = Zone.ABOUT
        elif classes & {"prep"} and not classes & {"of", "me"} and not token.consumed:
            zone = Zone.ASIDE if zone is not Zone.ABOUT else zone
        result.append(zone)
    if behind:
        for index, token in enumerate(tokens.tokens):
            if "about" in token.classes:
                start = index - 1
                while start >= 0 and (tokens[start].content or "function" in tokens[start].classes):
                    result[start] = Zone.ABOUT
                    start -= 1
    return result


def names_set(tokens: Tokens, intent: Intent, mention: Mention, zone: Zone) -> bool:
    """Whether a label is in a position that selects documents."""
    members = tokens.tokens[mention.first : mention.last]
    if not any(member.content or member.classes & {*_NOUNS, *FIELDS} for member in members):
        return False
    fields = {field for field, _ in mention.values}
    if explicit_field(tokens, mention) is not None:
        return True
    beside_noun = _beside_noun(tokens, mention)
    if zone is Zone.ASIDE:
        return False
    if zone is Zone.ABOUT:
        return _about_whole(tokens, mention) and bool(fields & {"tags", "category"}) and intent.any
    if fields == {"tags"} and not beside_noun and _beside_content(tokens, mention):
        return False
    if intent.saved or intent.dated:
        return True
    if intent.listed:
        return beside_noun or bool(fields - {"tags"})
    if intent.summed:
        return beside_noun or _is(tokens, mention.first - 1, "all") or _is(tokens, mention.first - 1, "me")
    return False


def explicit_field(tokens: Tokens, mention: Mention) -> str | None:
    """The field that the question names beside a label: `the category Food`, `tagged rust`, `#rust`."""
    if tokens.text[: mention.start].endswith(("#", "＃")):
        return "tag"
    for first in (mention.first - 1, mention.first - 2):
        if first < 0 or (first == mention.first - 2 and not _is(tokens, mention.first - 1, "function")):
            continue
        for name in FIELDS:
            if name in tokens[first].classes:
                return name
        if "tagged" in tokens[first].classes:
            return "tag"
    before_with = mention.first - 2
    if before_with >= 0 and "tagged" in tokens[before_with].classes and "prep" in tokens[mention.first - 1].classes:
        return "tag"
    for last in (mention.last, mention.last + 1):
        if last == mention.last + 1 and not _is(tokens, mention.last, "function"):
            continue
        for name in FIELDS:
            if _is(tokens, last, name) and (tokens.language.stemmer is None or last == mention.last):
                return name
    return None


def type_words(tokens: Tokens) -> list[tuple[int, str]]:
    """Returns the positions at which the question names document types, and the types."""
    return [
        (index, name)
        for index, token in enumerate(tokens.tokens)
        for name in TYPES
        if name in token.classes and not token.consumed
    ]


def is_topic(token: Token) -> bool:
    """Whether a word carries meaning that isn't used otherwise."""
    return token.content and token.dated is None and len(token.key) > 1


def find_topic(tokens: Tokens, mentions: Sequence[Mention]) -> str:
    """Returns what else a question says about the wanted documents, in its own words.

    If it names them (`vegan restaurants in Berlin`), these are the words next to the name, and the topic; otherwise
    (`what AI tools did I save`) everything that isn't used otherwise.
    """
    named = {index for mention in mentions for index in range(mention.first, mention.last)}
    named |= {index for index, token in enumerate(tokens.tokens) if token.classes & {*_NOUNS}}
    where = zones(tokens)
    words: list[str] = []
    for index, token in enumerate(tokens.tokens):
        if is_topic(token) and (
            not named
            or where[index] is not Zone.HEAD
            or _beside(tokens, index, 1, named)
            or _beside(tokens, index, -1, named)
        ):
            words.append(token.text)
    return " ".join(words)


def _beside(tokens: Tokens, index: int, step: int, named: set[int]) -> bool:
    """Whether only words of the same kind are between a word and a name of documents."""
    while 0 <= index + step < len(tokens):
        first = min(index, index + step)
        if tokens.between(first, first + 1).strip() not in {"", "-"}:
            return False
        index += step
        if index in named:
            return True
        if not is_topic(tokens[index]):
            return False
    return False


def _says_saved(tokens: Tokens, index: int) -> bool:
    """Whether a word says that something was saved, without naming another person."""
    if _is(tokens, index, "base"):
        return any(token.key == "did" for token in tokens.tokens[:index])
    return _is(tokens, index, "saved") and not _is(tokens, index + 1, "by")


def _belongs_to_noun(tokens: Tokens, span: DateSpan) -> bool:
    """Whether a date selects documents: `articles about AI from this week`, `this week's AI articles`.

    After the noun, only the topic may come in between; before it, only what describes it.
    """
    if span.year_alone:
        return False
    first = next(index for index, token in enumerate(tokens.tokens) if token.end > span.first)
    last = max(index for index, token in enumerate(tokens.tokens) if token.start < span.last)
    if _is(tokens, first - 1, "about") and not _is(tokens, first, "in"):
        return False
    unexplained = 0
    for index in range(first - 1, max(-1, first - 2 - _NEAR), -1):
        classes = tokens[index].classes
        if classes & {*_NOUNS}:
            return not unexplained
        if "about" in classes or "of" in classes:
            unexplained = 0
        elif tokens[index].content:
            unexplained += 1
        elif not classes & {"function", "in", "prep"}:
            break
    for index in range(last + 1, min(len(tokens), last + 2 + _NEAR)):
        if tokens[index].classes & {*_NOUNS}:
            return True
        if tokens[index].classes and not tokens[index].classes & {"of", "function", "about"}:
            break
    return False


def _beside_noun(tokens: Tokens, mention: Mention) -> bool:
    """Whether a label is next to a noun for documents: `AI articles`, `KI-Artikel`, `artículos de IA`, `AIの記事`."""
    if any(tokens[index].classes & {*_NOUNS} for index in range(mention.first, mention.last)):
        return True
    for step, edge in ((1, mention.last), (-1, mention.first - 1)):
        index = edge
        while 0 <= index < len(tokens) and tokens[index].classes & {"of", "function"} and abs(index - edge) < 2:
            if tokens[index].classes & {*_NOUNS}:
                break
            index += step
        if 0 <= index < len(tokens) and tokens[index].classes & {*_NOUNS}:
            return True
    return False


def _beside_content(tokens: Tokens, mention: Mention) -> bool:
    return any(0 <= index < len(tokens) and tokens[index].content for index in (mention.first - 1, mention.last))


def _about_whole(tokens: Tokens, mention: Mention) -> bool:
    """Whether the label is the documents' only topic: `the articles about AI from this week`."""
    if mention.last < len(tokens) and tokens[mention.last].content:
        return False
    if mention.first and tokens[mention.first - 1].content:
        return False
    index = mention.first - 1
    while index >= 0 and tokens[index].classes & {"about", "function", "of"} and not tokens[index].classes & {*_NOUNS}:
        index -= 1
    if index >= 0 and tokens[index].classes & {*_NOUNS}:
        return True
    index = mention.last
    while index < len(tokens) and tokens[index].classes & {"about", "function", "of"}:
        if tokens[index].classes & {*_NOUNS}:
            break
        index += 1
    return index < len(tokens) and bool(tokens[index].classes & {*_NOUNS})


def _is(tokens: Tokens, index: int, name: str) -> bool:
    return 0 <= index < len(tokens) and name in tokens[index].classes
