"""E-mails (EML): the main headers, the text, and readable attachments as parts of the document."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.errors import HeaderParseError
from email.message import EmailMessage
from email.policy import EmailPolicy
from mmap import mmap
from pathlib import PurePosixPath
from typing import Final, cast

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.decode import clean, decode, decode_as, in_utf8
from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument, TextBuilder
from citewire_retriever.ingest.encodings import codec_of
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.kinds import BY_MEDIA_TYPE
from citewire_retriever.ingest.parsers.html import parse_html_page
from citewire_retriever.ingest.parsers.nesting import Inside, PartNames, embed
from citewire_retriever.ingest.parsers.outlook_rtf import rtf_text
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, one_line
from citewire_retriever.ingest.parsers.plain import parse_plain
from citewire_retriever.ingest.parsers.tnef import is_wrapped, unwrap

MEDIA_TYPE: Final = "message/rfc822"
HEADER_CHARS: Final = 4_000
"""Characters of a header that are read: parsing a malicious one takes more than linear time."""
_MOST_ATTACHMENTS: Final = 100
_MOST_NESTED: Final = 3
"""Levels of messages within messages that are read."""
_NAME_CHARS: Final = 100
_SHOWN: Final = ("From", "To", "Cc", "Date", "Subject")
_KNOWN: Final = (*_SHOWN, "Received", "Return-Path", "MIME-Version", "Message-ID", "Content-Type")
_FORWARDED: Final = re.compile(
    r"-{2,10} ?(?:Original Message|Forwarded message|Original-Nachricht|Ursprüngliche Nachricht"
    r"|Weitergeleitete Nachricht|Message d'origine|Message transféré) ?-{2,10}\s*",
    re.I,
)
_ENCODED: Final = re.compile(r"=\?([\w.:+-]{2,40})(?:\*[\w-]{1,40})?\?(?=[bq]\?)", re.I)
"""Matches the encoding of words in a header."""
_MOST_LINE: Final = 100
_SIGNATURES: Final = frozenset(
    {"application/pkcs7-signature", "application/x-pkcs7-signature", "application/pgp-signature"}
)
_RICH: Final = frozenset({"text/enriched", "text/richtext"})
_RICH_TAG: Final = re.compile(r"</?[A-Za-z][\w-]{0,60}>")
_LONG: Final = 1500
"""Characters."""
_FULLER: Final = 3
"""If the HTML's text is this many times longer, the plain text is assumed to be only a pointer to it."""


class _BoundedPolicy(EmailPolicy):
    """Reads headers up to a length limit, and decodes those that aren't ASCII as UTF-8."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        value = value[:HEADER_CHARS].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return name, _ENCODED.sub(lambda match: f"=?{codec_of(match[1]) or match[1]}?", value)


class _InUtf8(_BoundedPolicy):
    """Also reads texts without a transfer encoding as UTF-8, whatever they declare."""


POLICY: Final = _BoundedPolicy()
"""The policy for reading any message's headers."""
_ENCODINGS: Final = frozenset({"base64", "quoted-printable"})


@dataclass(slots=True)
class Contents:
    """The content of a message."""

    plain: list[str] = field(default_factory=list[str])
    html: list[str] = field(default_factory=list[str])
    attachments: list[tuple[str, bytes | EmailMessage, str]] = field(
        default_factory=list[tuple[str, bytes | EmailMessage, str]]
    )
    """Name, content and media type, in order."""


def parse_mail(data: bytes | mmap, inside: Inside) -> ParsedDocument:
    """Parses an e-mail.

    Its subject is the title. Sender, receivers, date and subject are the first paragraph, with the names of the
    attachments. The plain text follows, and the HTML's text below it where the plain one is missing or only
    points to it. Quoted lines keep their `>`. A forwarded or answered message becomes a section named by the line that
    introduces it. A readable attachment is a section with its own places and its name as their `part`; others are
    listed as not read.

    Args:
        data: The file.
        inside: Reads attachments.

    Raises:
        IngestError: CORRUPT if it isn't an e-mail; EMPTY; TOO_LARGE.
    """
    return render_mail(read_message(data), inside, MEDIA_TYPE)


def read_message(data: bytes | mmap) -> EmailMessage:
    """A file as a message. Raises IngestError: CORRUPT if it isn't one.

    A byte order mark or UTF-16 means that an editor saved it, as a whole in another encoding than its texts declare.
    """
    raw = data[:]
    saved = in_utf8(raw)
    policy = POLICY if saved is None else _InUtf8()
    try:
        message = cast("EmailMessage", message_from_bytes(raw if saved is None else saved, policy=policy))
    except RecursionError:
        raise IngestError(IngestCode.CORRUPT, "The e-mail's parts are nested too deeply to be read.") from None
    if not any(name in message for name in _KNOWN):
        raise IngestError(IngestCode.CORRUPT, "The file is named as an e-mail but has no header of one.")
    return message


def render_mail(message: EmailMessage, inside: Inside, media_type: str) -> ParsedDocument:
    """Renders a message as `parse_mail` does. Raises IngestError: EMPTY, TOO_LARGE."""
    writer = _Writer(inside)
    writer.write(message, "", 0)
    if not writer.builder.blocks:
        raise IngestError(IngestCode.EMPTY, "The e-mail has neither text nor attachments.")
    title = one_line(header_of(message, "Subject"))[:LABEL_LIMIT] or None
    return ParsedDocument(Format.MAIL, media_type, writer.builder.text(), tuple(writer.builder.blocks), title=title)


class _Writer:
    def __init__(self, inside: Inside) -> None:
        self.builder = TextBuilder(inside.limits)
        self.inside = inside
        self.names = PartNames()
        self.attachments = 0

    def write(self, message: EmailMessage, part: str, depth: int) -> None:
        """Writes a message; `part` is its name if it is attached to another."""
        place = Place(part=part) if part else Place()
        contents = contents_of(message)
        self._unwrap(contents)
        attachments = [
            (self.names.name(part, name), data, media_type)
            for name, data, media_type in contents.attachments[:_MOST_ATTACHMENTS]
        ]
        lines = [f"{name}: {value}" for name in _SHOWN if (value := one_line(header_of(message, name)))]
        if attachments:
            names = [PurePosixPath(name).name for name, _, _ in attachments]
            if more := len(contents.attachments) - len(attachments):
                names.append(f"{more} more")
            lines.append(f"Attachments: {', '.join(names)}")
        self._paragraph("\n".join(lines), place)
        for text in contents.plain:
            self._text(text, place, 2 * depth + 1)
        plain = sum(len(text.strip()) for text in contents.plain)
        # A long plain text isn't just a pointer to the HTML, which then needn't be read.
        texts = contents.html if plain < _LONG else []
        pages = [page for text in texts if (page := self._page(text)) is not None]
        if sum(len(page.text) for page in pages) > _FULLER * plain:
            for page in pages:
                embed(self.builder, page, place, deeper=2 * depth)
        for name, data, media_type in attachments:
            self._attachment(name, data, media_type, depth)

    def _unwrap(self, contents: Contents) -> None:
        """Replaces Outlook's wrapper (winmail.dat) by its content."""
        attachments: list[tuple[str, bytes | EmailMessage, str]] = []
        for name, data, media_type in contents.attachments:
            if not isinstance(data, bytes) or not is_wrapped(data):
                attachments.append((name, data, media_type))
                continue
            wrapped = unwrap(data)
            attachments += [(each, content, "") for each, content in wrapped.attachments]
            if any(text.strip() for text in (*contents.plain, *contents.html)):
                continue
            if wrapped.html:
                contents.html.append(wrapped.html)
            contents.plain.append(wrapped.plain or rtf_text(wrapped.rtf, self.inside.budget, self.inside.limits))
        contents.attachments = attachments

    def _attachment(self, name: str, data: bytes | EmailMessage, media_type: str, depth: int) -> None:
        level, place, label = 2 * depth + 1, Place(part=name), PurePosixPath(name).name
        self.attachments += 1
        inner = self._read(data, label, media_type) if self.attachments <= _MOST_ATTACHMENTS else None
        is_message = isinstance(data, EmailMessage) and depth < _MOST_NESTED
        if inner is None and not is_message:
            self._paragraph(f"{label} (not read)", place)
            return
        heading = self.builder.write(label)
        self.builder.add(Block(BlockKind.HEADING, *heading, level=level, label=label, place=place))
        if inner is not None:
            embed(self.builder, inner, place, deeper=level)
        elif isinstance(data, EmailMessage):
            self.write(data, name, depth + 1)

    def _read(self, data: bytes | EmailMessage, name: str, media_type: str) -> ParsedDocument | None:
        """An attached file's document; None if it can't be read, whatever the reason."""
        if isinstance(data, EmailMessage):
            return None
        try:
            return self.inside.read(data, name, media_type)
        except IngestError:
            if self.inside.budget.exceeded:
                raise
            return None

    def _page(self, text: str) -> ParsedDocument | None:
        """An HTML text as a page; None if it has no words, for example only a picture."""
        try:
            return parse_html_page(text, self.builder.limits)
        except IngestError as error:
            if error.code is IngestCode.TOO_LARGE:
                raise
            return None

    def _text(self, text: str, place: Place, level: int) -> None:
        """Writes plain text; a message quoted in it starts a section."""
        start = position = 0
        while position < len(text):
            newline = text.find("\n", position)
            end = len(text) if newline < 0 else newline
            if end - position <= _MOST_LINE and _FORWARDED.fullmatch(text, position, end):
                self._plain(text[start:position], place)
                label = one_line(text[position:end])
                heading = self.builder.write(label)
                self.builder.add(Block(BlockKind.HEADING, *heading, level=level, label=label.strip("- "), place=place))
                start = end
            position = end + 1
        self._plain(text[start:], place)

    def _plain(self, text: str, place: Place) -> None:
        if text.strip():
            embed(self.builder, _without_lines(parse_plain(text.strip("\n"), self.builder.limits)), place)

    def _paragraph(self, text: str, place: Place) -> None:
        if text:
            self.builder.add(Block(BlockKind.PARAGRAPH, *self.builder.write(text), place=place))


def _without_lines(document: ParsedDocument) -> ParsedDocument:
    """A text without line numbers: a message's lines aren't those of its file."""
    for block in document.blocks:
        block.place.Clear()
    return document


def contents_of(message: EmailMessage) -> Contents:
    """A message's content, however its parts are nested."""
    contents = Contents()
    rich: list[str] = []
    for part in _leaves(message):
        media_type = part.get_content_type()
        name = _file_name(part)
        if media_type == MEDIA_TYPE and part.is_multipart():
            inner = cast("EmailMessage", part.get_payload(0))
            subject = one_line(header_of(inner, "Subject")).replace("/", "-")[:_NAME_CHARS]
            contents.attachments.append((name or f"{subject or 'message'}.eml", inner, media_type))
            continue
        data = part.get_payload(decode=True)
        if not isinstance(data, bytes) or not data:
            continue
        if part.get_content_maintype() == "multipart":  # without the boundary that its header announces
            media_type = "text/plain"
        is_attached = part.get_content_disposition() == "attachment"
        if media_type in _RICH and not name and not is_attached:
            rich.append(_RICH_TAG.sub("", _decoded(part, data)))
        elif media_type not in {"text/plain", "text/html"} or name or is_attached:
            name = name or _name_of(media_type, is_attached=is_attached)
            if name and media_type not in _SIGNATURES:
                contents.attachments.append((name, data, media_type))
        else:
            (contents.plain if media_type == "text/plain" else contents.html).append(_decoded(part, data))
    if not contents.plain and not contents.html:
        contents.plain = rich
    return contents


def _name_of(media_type: str, *, is_attached: bool) -> str:
    """A name for a part without one; empty if it isn't an attachment but, for example, a picture in the text."""
    if media_type == "text/calendar":
        return "invitation.ics"
    kind = BY_MEDIA_TYPE.get(media_type)
    if kind is None or media_type.startswith("image/"):
        return "attachment" if is_attached else ""
    return f"attachment{kind.suffixes[0]}"


def _leaves(message: EmailMessage) -> Iterator[EmailMessage]:
    """The parts that hold something, in order; messages within it as they are."""
    stack = [message]
    while stack:
        part = stack.pop()
        if part.get_content_maintype() == "multipart" and part.is_multipart():
            stack += reversed(cast("list[EmailMessage]", part.get_payload()))
        else:
            yield part


def _file_name(part: EmailMessage) -> str:
    try:
        name = part.get_filename() or ""
    except (HeaderParseError, ValueError, LookupError, AttributeError, IndexError):  # raised for malformed headers
        name = ""
    name = one_line(clean(name)).replace("\\", "/").rpartition("/")[2]
    stem, dot, suffix = name.rpartition(".")
    return f"{stem[:_NAME_CHARS]}.{suffix[:_NAME_CHARS]}" if dot else name[:_NAME_CHARS]


def header_of(message: EmailMessage, name: str) -> str:
    """A header as text; empty if it is missing or can't be read."""
    try:
        return clean(str(message.get(name, "")))
    except (HeaderParseError, ValueError, LookupError, AttributeError, IndexError, RecursionError):
        return ""  # raised for malformed headers


def _decoded(part: EmailMessage, data: bytes) -> str:
    is_saved = isinstance(part.policy, _InUtf8)
    is_own = not is_saved or header_of(part, "Content-Transfer-Encoding").lower() in _ENCODINGS
    encoding = (part.get_content_charset() or "") if is_own else "utf-8"
    try:
        return decode_as(data, encoding) or decode(data, what="e-mail")
    except IngestError:
        return ""
