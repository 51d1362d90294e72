"""Contacts and calendars: the text of cards and events, and its places."""

from __future__ import annotations

import io
import random
from datetime import datetime
from typing import Any, cast

import pytest
import vobject

from citewire_retriever.ingest.chunks import Chunk
from citewire_retriever.ingest.detect import detect
from citewire_retriever.ingest.document import Format
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse
from round_trips import QUOTES, Prose, check

CONTACTS = r"""BEGIN:VCARD
VERSION:3.0
N:Lovelace;Ada;King;Dr.;
FN:Dr. Ada Lovelace
ORG:Analytical\, Ltd.;Engines
item1.EMAIL;TYPE=INTERNET,pref,work:ada@example.org
EMAIL:ada@home.example
TEL;TYPE="cell,voice":+44 20 1234
ADR;TYPE=HOME:;;1 St James's;London;;SW1;UK
BDAY:18151210
NOTE:First line\nand a second one that is
  folded
PHOTO;ENCODING=b;TYPE=JPEG:AAAA
END:VCARD
BEGIN:VCARD
VERSION:2.1
N;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:M=FCller;J=F6rg
TEL;WORK;VOICE:123
NOTE;ENCODING=QUOTED-PRINTABLE;CHARSET=UTF-8:gr=C3=BC=
n und gut
END:VCARD
"""
CALENDAR = r"""BEGIN:VCALENDAR
X-WR-CALNAME:Team
BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:STANDARD
DTSTART:19701025T030000
END:STANDARD
END:VTIMEZONE
BEGIN:VEVENT
UID:1
SUMMARY:Planning\, part 2
DTSTART;TZID=Europe/Berlin:20260302T090000
DTEND:20260302T100000Z
ATTENDEE;CN="Bob, Jr.";ROLE=REQ-PARTICIPANT:mailto:bob@example.org
BEGIN:VALARM
DESCRIPTION:Alarm
END:VALARM
END:VEVENT
END:VCALENDAR
"""


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_values_have_labels_and_lines(ends: str) -> None:
    document = parse(CONTACTS.replace("\n", ends).encode(), "a.vcf")
    assert (document.format, document.media_type) == (Format.CARDS, "text/vcard")
    assert document.text.split("\n") == [
        "name: Dr. Ada Lovelace",
        "organisation: Analytical, Ltd., Engines",
        "e-mail (work): ada@example.org",
        "e-mail: ada@home.example",
        "phone (cell): +44 20 1234",
        "address (home): 1 St James's, London, SW1, UK",
        "birthday: 1815-12-10",
        "note: First line",
        "and a second one that is folded",
        "",
        "name: Jörg Müller",
        "phone (work): 123",
        "note: grün und gut",
    ]
    first, second = document.blocks
    assert (first.place.record_path, first.place.start_line, first.place.end_line) == ("[0]", 2, 13)
    places = [(child.place.record_path, child.place.start_line, child.place.end_line) for child in first.children]
    assert places[3] == ("[0].EMAIL[1]", 7, 7)
    assert places[-1] == ("[0].NOTE", 11, 12)
    assert (second.children[-1].place.start_line, second.children[-1].place.end_line) == (19, 20)


def test_events_are_read_without_alarms_and_time_zones() -> None:
    document = parse(CALENDAR.encode(), "a.ics")
    assert (document.media_type, document.title) == ("text/calendar", "Team")
    assert document.text.split("\n") == [
        "summary: Planning, part 2",
        "start: 2026-03-02 09:00 Europe/Berlin",
        "end: 2026-03-02 10:00 UTC",
        "attendee: Bob, Jr. <bob@example.org>",
    ]


def test_both_are_recognised_by_their_first_line() -> None:
    assert detect(CONTACTS.encode(), "contacts.txt").media_type == "text/vcard"
    assert detect(b"\xef\xbb\xbf" + CALENDAR.encode(), "").media_type == "text/calendar"
    assert detect(b"A letter that says BEGIN:VCARD somewhere", "a.txt").format is Format.TEXT


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"no card at all", IngestCode.CORRUPT),
        (b"BEGIN:VCARD\nFN:Never ended\n", IngestCode.CORRUPT),
        (b"BEGIN:VCARD\nPHOTO;ENCODING=b:AAAA\nEND:VCARD\n", IngestCode.EMPTY),
    ],
)
def test_a_file_without_a_card_is_an_error(data: bytes, code: IngestCode) -> None:
    with pytest.raises(IngestError) as error:
        parse(data, "a.vcf")
    assert error.value.code is code


@pytest.mark.parametrize("unit", ["BEGIN:X\n", "BEGIN:VCARD\nEND:VCARD\n", 'TEL;x="a";', "NOTE:a\n ", "=\n", ";;;;"])
def test_hostile_files_are_refused_in_time(unit: str) -> None:
    """Quadratic time would exceed the test's time limit."""
    with pytest.raises(IngestError):
        parse(f"BEGIN:VCARD\nPHOTO;QUOTED-PRINTABLE:x=\n{unit * (400_000 // len(unit))}".encode(), "a.vcf")


NAMES = {"FN": "name", "ORG": "organisation", "NOTE": "note", "EMAIL": "e-mail"}


def made_cards(prose: Prose) -> bytes:
    """Written with vobject, which folds and escapes."""
    cards: list[str] = []
    for _ in range(20):
        card: Any = cast("Any", vobject).vCard()
        card.add("fn").value = prose.sentence()
        card.add("note").value = f"{prose.paragraph()}; {prose.sentence()}, {prose.name()}"
        card.add("org").value = [prose.sentence("English"), prose.name()]
        email = card.add("email")
        email.value = f"{prose.name()}@example.org"
        email.type_param = "work"
        card.add("n").value = cast("Any", vobject).vcard.Name(family=prose.name(), given=prose.name())
        cards.append(card.serialize())
    return "".join(cards).encode()


def at_lines(data: bytes, chunk: Chunk) -> str:
    """The values that vobject reads in the lines of a place, with their labels."""
    lines = data.decode().split("\n")[chunk.place.start_line - 1 : chunk.place.end_line]
    base = cast("Any", vobject).base
    shown: list[str] = []
    for text, _ in base.getLogicalLines(io.StringIO("\n".join(lines)), allowQP=False):
        content = base.textLineToContentLine(text)
        value = content.value.replace("\\,", ",").replace("\\;", ";").replace("\\n", "\n")
        value = ", ".join(value.split(";")) if content.name == "ORG" else value
        shown += [f"{NAMES[content.name]}: {value}", f"{NAMES[content.name]} (work): {value}"]
    return "\n".join(shown)


def test_each_quote_is_in_the_lines_of_its_place() -> None:
    assert check(made_cards(Prose(random.Random(18))), "a.vcf", at_lines) >= QUOTES


def test_events_of_another_library_are_read() -> None:
    calendar: Any = cast("Any", vobject).iCalendar()
    for number in range(3):
        event = calendar.add("vevent")
        event.add("summary").value = f"Meeting, number {number}; with a long title that has to be folded by its writer"
        event.add("dtstart").value = datetime(2026, 3, 1 + number, 9, 30)  # noqa: DTZ001 # as in calendars
    document = parse(calendar.serialize().encode(), "a.ics")
    assert sorted(document.text.split("\n\n")[1].split("\n")) == [
        "start: 2026-03-02 09:30",
        "summary: Meeting, number 1; with a long title that has to be folded by its writer",
    ]
