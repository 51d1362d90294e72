"""Contacts and calendars (vCard, iCalendar) by cards, events and tasks: each value under what it is, with its lines.

Both are lines of `NAME;PARAMETER=VALUE:value` (RFC 6350, RFC 5545), folded and escaped alike; cards of version 2.1 may
be in Quoted-Printable. Libraries that read them (vobject, icalendar) refuse a file for one line, and know no lines.
"""

import quopri
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from citewire_retriever.ingest.document import Format, ParsedDocument, ParseLimits, TextBuilder, check_blocks
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.pairs import one_line
from citewire_retriever.ingest.parsers.records import Node, measure, write_records

_CARDS: Final = frozenset({"VCARD", "VEVENT", "VTODO", "VJOURNAL"})
_NAMES: Final = {
    "FN": "name", "N": "name", "NICKNAME": "nickname", "ORG": "organisation", "TITLE": "title", "ROLE": "role",
    "EMAIL": "e-mail", "TEL": "phone", "ADR": "address", "URL": "web", "BDAY": "birthday", "ANNIVERSARY": "anniversary",
    "NOTE": "note", "CATEGORIES": "categories", "IMPP": "chat", "LANG": "language", "RELATED": "related",
    "SUMMARY": "summary", "DTSTART": "start", "DTEND": "end", "DUE": "due", "DURATION": "duration",
    "LOCATION": "place", "DESCRIPTION": "description", "ORGANIZER": "organiser", "ATTENDEE": "attendee",
    "STATUS": "status", "RRULE": "repeats", "COMPLETED": "completed", "PRIORITY": "priority", "COMMENT": "comment",
    "CONTACT": "contact", "RESOURCES": "resources",
}  # fmt: skip
"""Properties that are read, with their labels; others describe the file or aren't text."""
_PARTS: Final = frozenset({"N", "ADR", "ORG", "CATEGORIES", "NICKNAME", "RESOURCES"})
"""Values with several parts, separated by semicolons or commas."""
_PEOPLE: Final = frozenset({"ORGANIZER", "ATTENDEE"})
_SAID_ALREADY: Final = frozenset({"PREF", "VOICE", "INTERNET", "X400"})
"""Types that say nothing about a value."""
_LINE: Final = re.compile(
    r"(?:[\w-]{1,100}\.)?([A-Za-z0-9-]{1,100})((?:;[^:\"\n]*(?:\"[^\"\n]*\"[^:\"\n]*)*)?):(.*)", re.S
)
_PARAMETER: Final = re.compile(r';([^;="]*)(?:=((?:"[^"]*"|[^";])*))?')
_MOMENT: Final = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)(?:T(\d\d):?(\d\d)(?::?\d\d)?(Z?))?")
_ESCAPED: Final = re.compile(r"\\(.)", re.S)
_BETWEEN: Final = re.compile(r"(?<!\\)[;,]")
_MOST_TYPES: Final = 3


@dataclass(frozen=True, slots=True)
class _Property:
    name: str
    parameters: dict[str, str]
    value: str
    first_line: int
    last_line: int


def parse_cards(text: str, limits: ParseLimits, *, media_type: str) -> ParsedDocument:
    """Parses decoded contacts or a calendar. Pictures, keys, alarms and time zones are left out.

    Raises:
        IngestError: CORRUPT if no card or event is in it; EMPTY; TOO_LARGE.
    """
    builder = TextBuilder(limits)
    title: str | None = None
    count = 0
    for properties in _cards(text):
        check_blocks(count, limits)
        card = _card(properties, f"[{count}]")
        count += 1
        measure(card)
        write_records(builder, card)
    for each in _properties(text):
        if each.name == "X-WR-CALNAME":
            title = one_line(_unescaped(each.value)) or None
            break
        if each.name == "BEGIN" and each.value.strip().upper() in _CARDS:
            break
    if not count:
        raise IngestError(IngestCode.CORRUPT, "The file is named as contacts or a calendar but has no card or event.")
    if not builder.blocks:
        raise IngestError(IngestCode.EMPTY, "The cards or events are empty.")
    return ParsedDocument(Format.CARDS, media_type, builder.text(), tuple(builder.blocks), title=title)


def _cards(text: str) -> Iterator[list[_Property]]:
    """The properties of each card, event or task, without those of nested components."""
    inside: list[str] = []
    cards = 0  # number of open ones
    properties: list[_Property] = []
    for each in _properties(text):
        kind = each.value.strip().upper()
        if each.name == "BEGIN":
            inside.append(kind)
            if kind in _CARDS:
                properties = properties if cards else []
                cards += 1
        elif each.name == "END":
            if inside and inside.pop() in _CARDS:
                cards -= 1
                if not cards:
                    yield properties
        elif inside and inside[-1] in _CARDS:
            properties.append(each)


def _card(properties: list[_Property], step: str) -> Node:
    has_name = any(each.name == "FN" and each.value.strip() for each in properties)
    lines = [line for each in properties for line in (each.first_line, each.last_line)]
    card = Node(step, first_line=min(lines, default=0), last_line=max(lines, default=0))
    count: Counter[str] = Counter()
    for each in properties:
        number = count[each.name]
        count[each.name] += 1
        if each.name in _NAMES and not (each.name == "N" and has_name) and not _is_bytes(each):
            step = f".{each.name}[{number}]" if number else f".{each.name}"
            line = Node(step, _called(each), _shown(each), first_line=each.first_line, last_line=each.last_line)
            card.children.append(line)
    return card


def _properties(text: str) -> Iterator[_Property]:
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        first = index
        pieces = [lines[index]]
        index += 1
        while index < len(lines) and lines[index][:1] in {" ", "\t"} and len(lines[index]) > 1:
            pieces.append(lines[index][1:])
            index += 1
        match = _LINE.fullmatch("".join(pieces))
        if match is None:
            continue
        name, parameters, value = match[1].upper(), _parameters(match[2]), match[3]
        if parameters.get("ENCODING", "").upper() == "QUOTED-PRINTABLE":
            soft = [value]
            while soft[-1].endswith("=") and index < len(lines):
                soft.append(lines[index].lstrip())
                index += 1
            value = _decoded("".join(piece.removesuffix("=") for piece in soft), parameters.get("CHARSET", "utf-8"))
        yield _Property(name, parameters, value, first + 1, index)


def _parameters(text: str) -> dict[str, str]:
    """Parameters by name; those without a name in version 2.1 are types or the encoding."""
    results: dict[str, str] = {}
    for match in _PARAMETER.finditer(text):
        name, value = match[1].strip().upper(), match[2]
        if value is None:
            name, value = ("ENCODING" if name in {"QUOTED-PRINTABLE", "BASE64"} else "TYPE"), name
        value = value.replace('"', "")
        results[name] = f"{results[name]},{value}" if name in results else value
    return results


def _decoded(value: str, charset: str) -> str:
    try:
        return quopri.decodestring(value.encode()).decode(charset, "replace")
    except LookupError:
        return quopri.decodestring(value.encode()).decode("utf-8", "replace")


def _is_bytes(each: _Property) -> bool:
    return each.parameters.get("ENCODING", "").upper() in {"B", "BASE64"} or each.value.startswith("data:")


def _called(each: _Property) -> str:
    types = [kind.strip().lower() for kind in each.parameters.get("TYPE", "").split(",")]
    types = [kind for kind in dict.fromkeys(types) if kind and kind.upper() not in _SAID_ALREADY][:_MOST_TYPES]
    return f"{_NAMES[each.name]} ({', '.join(types)})" if types else _NAMES[each.name]


def _shown(each: _Property) -> str:
    value = each.value.strip()
    if each.name in _PARTS:
        between = " " if each.name == "N" else ", "
        parts = [one_line(_unescaped(part)) for part in _BETWEEN.split(value)]
        if each.name == "N":  # family name; given names; others; before; behind
            parts = [*parts[3:4], *parts[1:3], *parts[:1], *parts[4:]]
        return between.join(part for part in parts if part)
    if each.name in _PEOPLE:
        address = re.sub(r"^mailto:", "", value, flags=re.I)
        person = each.parameters.get("CN", "").strip()
        return one_line(f"{person} <{address}>" if person and person != address else address)
    moment = _MOMENT.fullmatch(value)
    if moment is not None:
        year, month, day, hour, minute, is_utc = moment.groups()
        zone = "UTC" if is_utc else each.parameters.get("TZID", "")
        return one_line(f"{year}-{month}-{day} {hour}:{minute} {zone}" if hour else f"{year}-{month}-{day}")
    return _unescaped(value)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: "\n" if match[1] in "nN" else match[1], text)
