"""Filters from a question's words: kind, category, tags, collection and dates, as the library has them.

There are two steps, because the labels are looked up in between: `read_question` says whether a question asks for saved
things, with which dates, and with which initials of possible labels; `derive` makes the filter. Only what the question
says is used, because an unintended filter hides its answer.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final

from citewire.retriever.v1 import filter_pb2 as pb
from citewire.retriever.v1.retriever_pb2 import ItemListing, QueryFilter
from google.protobuf.struct_pb2 import Value

from citewire_retriever.service.query_filters.dates import find_dates
from citewire_retriever.service.query_filters.intent import (
    FIELDS,
    Intent,
    Zone,
    explicit_field,
    find_topic,
    is_topic,
    names_set,
    read_intent,
    type_words,
    zones,
)
from citewire_retriever.service.query_filters.spans import DateSpan
from citewire_retriever.service.query_filters.tokens import Tokens, tokenise
from citewire_retriever.service.query_filters.values import Mention, find_mentions, initials
from citewire_retriever.service.query_filters.values import Value as Label
from citewire_retriever.service.query_filters.words import load_all

LONGEST_QUESTION: Final = 400
"""Characters of a longer question that are read: the words for documents are short."""
MOST_LISTED: Final = 50
"""Most documents in a list."""
NEWEST: Final = 10
"""Documents listed for "what is new"."""

_WORD = r"""(?:"(?P<{0}_quoted>[^"\n]{{1,64}})"|(?P<{0}>[\w][\w./+-]{{0,63}}))"""
_HASHTAG: Final = re.compile(r"(?<![\w#&/])#(?P<tag>[^\W\d_][\w-]{1,63})")
_TAGGED: Final = re.compile(r"\b(?:tagged(?: with| as)?|with the tag|tag:)\s+" + _WORD.format("tag"), re.IGNORECASE)
_CATEGORY: Final = re.compile(r"\b(?:in|of|from)(?: the)? category[: ]\s*" + _WORD.format("category"), re.IGNORECASE)
_ENTITY: Final = re.compile(r"\bentity[ _-]?type[: ]\s*" + _WORD.format("entity"), re.IGNORECASE)
_EXPLICIT: Final = (
    (_HASHTAG, "tag", "tags"),
    (_TAGGED, "tag", "tags"),
    (_CATEGORY, "category", "category"),
    (_ENTITY, "entity", "entity_type"),
)
"""Phrases so explicit that they count even if the library has no such label: a step then says that nothing fits."""
_FIELD_OF: Final = {"tag": "tags", "category": "category", "collection": "collection", "entity_type": "entity_type"}
_AS_FILTERED: Final = {"entity_type": "metadata.entity_type", "category": "metadata.category"}


@dataclass(frozen=True, slots=True)
class Reading:
    """A question, read."""

    tokens: Tokens
    spans: tuple[DateSpan, ...]
    intent: Intent
    zone: tzinfo

    @property
    def initials(self) -> list[str]:
        """Initials of the labels that it may name; empty if it asks for none."""
        named = self.intent.any or any(self.tokens.any(field) for field in (*FIELDS, "tagged"))
        return initials(self.tokens) if named or "#" in self.tokens.text else []


def read_question(question: str, now: datetime, zone: tzinfo) -> Reading:
    """Reads a question.

    Args:
        question: The question; only the start of a long one is read.
        now: The time that "last week" is relative to, with a time zone.
        zone: The time zone in which days begin.
    """
    tokens = tokenise(question[:LONGEST_QUESTION])
    spans = tuple(find_dates(tokens, now, zone))
    return Reading(tokens, spans, read_intent(tokens, spans), zone)


def load_words() -> None:
    """Loads all languages, which takes a second, so that no question waits for it."""
    load_all()
    read_question("saved yesterday", datetime.now(UTC), UTC)


def derive(reading: Reading, labels: Iterable[Label]) -> tuple[QueryFilter | None, ItemListing | None]:
    """Returns the filter that a question implies, and the list that it wants; None if it implies none.

    Args:
        reading: The question.
        labels: The library's labels with the initials in `Reading.initials`.
    """
    known = list(labels)
    conditions: list[pb.Filter] = []
    phrases: list[str] = []
    mentions = _chosen_mentions(reading, known)
    for _, values in mentions:
        conditions.append(_any([_condition(field, value) for field, value in values]))
        phrases.append(_phrase(values))
    conditions_of_types, type_phrases, typed = _types(reading, known, mentions)
    conditions += conditions_of_types
    phrases += type_phrases
    for field, value in _explicit(reading, mentions):
        conditions.append(_condition(field, value))
        phrases.append(_phrase([(field, value)]))
    dates = [span for span in reading.spans if _is_date_of_saving(reading, span)]
    for span in dates:
        conditions += _between(span)
        phrases.append(f"saved {_in_words(span, reading.zone)}")
    listing = _listing(reading, mentions, listed=bool(dates) or typed or bool(mentions))
    if not conditions:
        return None, listing
    condition = conditions[0] if len(conditions) == 1 else pb.Filter(all=pb.FilterList(filters=conditions))
    return QueryFilter(filter=condition, phrases=phrases), listing


def _chosen_mentions(reading: Reading, labels: Sequence[Label]) -> list[tuple[Mention, list[Label]]]:
    """The labels that select documents, each with its values."""
    tokens = reading.tokens
    where = zones(tokens)
    result: list[tuple[Mention, list[Label]]] = []
    for mention in find_mentions(tokens, [label for label in labels if label[0] != "type"]):
        if not names_set(tokens, reading.intent, mention, where[mention.first]):
            continue
        field = explicit_field(tokens, mention)
        values = [label for label in mention.values if field is None or label[0] == _FIELD_OF[field]]
        if not values:
            continue
        if where[mention.first] is Zone.ABOUT and field is None:
            values = [label for label in values if label[0] in ("tags", "category")]
        for token in tokens.tokens[mention.first : mention.last]:
            token.consumed = True
        result.append((mention, values))
    return result


def _types(
    reading: Reading, labels: Sequence[Label], mentions: Sequence[tuple[Mention, list[Label]]]
) -> tuple[list[pb.Filter], list[str], bool]:
    """Conditions on the document's type, if the question names one that the library has."""
    intent, tokens = reading.intent, reading.tokens
    there = {value for field, value in labels if field == "type"}
    covered = {index for mention, _ in mentions for index in range(mention.first, mention.last)}
    conditions: list[pb.Filter] = []
    phrases: list[str] = []
    if not (intent.saved or intent.dated or intent.listed or intent.summed):
        return [], [], False
    typed = False
    for index, name in type_words(tokens):
        typed = True
        if index in covered:
            continue
        same = {value for field, value in labels if field == "entity_type" and value.casefold().rstrip("s") == name}
        values: list[Label] = [("entity_type", value) for value in sorted(same)]
        if name in there:
            values.append(("type", name))
        if values and name not in phrases:
            conditions.append(_any([_condition(field, value) for field, value in values]))
            phrases.append(name)
    return conditions, [f"type {name}" for name in phrases], typed


def _explicit(reading: Reading, mentions: Sequence[tuple[Mention, list[Label]]]) -> list[Label]:
    """Labels named by `#` or by their field, as written in the question, that aren't labels of the library."""
    result: list[Label] = []
    for pattern, name, field in _EXPLICIT:
        for match in pattern.finditer(reading.tokens.text):
            group = f"{name}_quoted" if match.groupdict().get(f"{name}_quoted") else name
            start, end = match.span(group)
            value = match[group].rstrip(".-/+")
            covered = any(
                mention.start < end and mention.end > start and any(other == field for other, _ in values)
                for mention, values in mentions
            )
            if not covered:
                result.append((field, value))
    return result


def _is_date_of_saving(reading: Reading, span: DateSpan) -> bool:
    """Whether a date says when something was saved, rather than being a topic of the documents."""
    intent, tokens = reading.intent, reading.tokens
    about = [
        token.start
        for token, zone in zip(tokens.tokens, zones(tokens), strict=True)
        if zone is Zone.ABOUT and "about" in token.classes and token.end <= span.first
    ]
    if about and not span.relative and not _saved_between(tokens, max(about), span.first):
        return False
    if span.year_alone:
        return intent.saved
    if intent.saved or intent.dated:
        return True
    return intent.fresh and span.relative and not any(map(is_topic, tokens.tokens))


def _saved_between(tokens: Tokens, first: int, last: int) -> bool:
    return any(first < token.start < last and token.classes & {"saved", "saved_me"} for token in tokens.tokens)


def _listing(reading: Reading, mentions: Sequence[tuple[Mention, list[Label]]], *, listed: bool) -> ItemListing | None:
    """The list that a question wants: of saved documents, new ones, or those that it names."""
    intent = reading.intent
    if not intent.is_list:
        return None
    topic = find_topic(reading.tokens, [mention for mention, _ in mentions])
    wants_list = intent.saved or ((intent.listed or intent.summed) and listed) or (intent.dated and not topic)
    if intent.fresh and not topic and not wants_list:
        wants_list = True
    if not wants_list:
        return None
    newest = intent.fresh and not reading.spans and not mentions
    return ItemListing(topic=topic, max_items=NEWEST if newest else MOST_LISTED)


def _condition(field: str, value: str) -> pb.Filter:
    operator = pb.OPERATOR_CONTAINS if field == "tags" else pb.OPERATOR_EQ
    return _comparison(_AS_FILTERED.get(field, field), operator, value)


def _any(conditions: list[pb.Filter]) -> pb.Filter:
    return conditions[0] if len(conditions) == 1 else pb.Filter(any=pb.FilterList(filters=conditions))


def _comparison(field: str, operator: pb.Operator, value: str) -> pb.Filter:
    return pb.Filter(comparison=pb.Comparison(field=field, op=operator, value=Value(string_value=value)))


def _between(span: DateSpan) -> list[pb.Filter]:
    results: list[pb.Filter] = []
    if span.start is not None:
        results.append(_comparison("created_at", pb.OPERATOR_GE, _text(span.start)))
    if span.end is not None:
        results.append(_comparison("created_at", pb.OPERATOR_LT, _text(span.end)))
    return results


def _phrase(values: Iterable[Label]) -> str:
    """`entity type restaurant`, `category Food or tags food`."""
    return " or ".join(f"{field.replace('_', ' ')} {value}" for field, value in values)


def _in_words(span: DateSpan, zone: tzinfo) -> str:
    """The days of a span, the last one included: `on 2026-11-20`, `2026-11-16 to 2026-11-22`, `since 2026-11-18`."""
    if span.start is None:
        return "" if span.end is None else f"before {span.end.astimezone(zone):%Y-%m-%d}"
    start = span.start.astimezone(zone)
    if span.end is None:
        return f"since {start:%Y-%m-%d}" if start.time() == time() else f"since {start:%Y-%m-%d %H:%M}"
    last = span.end.astimezone(zone) - timedelta(days=1)
    return f"on {start:%Y-%m-%d}" if last.date() <= start.date() else f"{start:%Y-%m-%d} to {last:%Y-%m-%d}"


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
