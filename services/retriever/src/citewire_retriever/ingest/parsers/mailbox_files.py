"""The messages of a mailbox (MBOX), each as a file named by its subject."""

import io
import re
from collections.abc import Iterator
from email import message_from_bytes
from email.message import EmailMessage
from mmap import mmap
from typing import Final, cast

from citewire_retriever.ingest.parsers.mail import POLICY, header_of
from citewire_retriever.ingest.parsers.pairs import one_line

_SEPARATOR: Final = re.compile(
    rb"(?:\A|\r?\n\r?\n)From [^\r\n]{1,300}? \d{1,2}:\d\d(?::\d\d)? [^\r\n]{0,40}\r?\n(?=[A-Za-z][\w-]{0,60}:)"
)
_HEADERS: Final = 16_384
_SUBJECT_CHARS: Final = 80


def is_mailbox(head: bytes | mmap) -> bool:
    """Whether a file begins as a mailbox."""
    return head[:5] == b"From " and _SEPARATOR.match(head) is not None


def mailbox_messages(data: bytes | mmap) -> Iterator[tuple[str, io.BytesIO]]:
    """Yields a mailbox's messages in order, each with a name that ends in .eml."""
    start = -1
    number = 0
    for match in _SEPARATOR.finditer(data):
        if start >= 0:
            number += 1
            yield _message(data, start, match.start(), number)
        start = match.end()
    if start >= 0:
        yield _message(data, start, len(data), number + 1)


def _message(data: bytes | mmap, start: int, end: int, number: int) -> tuple[str, io.BytesIO]:
    headers = re.split(rb"\r?\n\r?\n", data[start : min(end, start + _HEADERS)], maxsplit=1)[0]
    message = cast("EmailMessage", message_from_bytes(headers, policy=POLICY))
    subject = one_line(header_of(message, "Subject"))[:_SUBJECT_CHARS].strip()
    label = re.sub(r"[/\\]", "-", subject) or f"message {number}"
    return f"{label}.eml", io.BytesIO(data[start:end])
