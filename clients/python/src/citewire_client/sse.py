"""Reads server-sent events: bytes in, events out, wherever the network splits them.

Our own parser, because httpx-sse 0.4.3 has no limit on the memory that a stream can make it use, and yields an event
without data for each heartbeat once an event had an id.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

from citewire_client.errors import InvalidResponseError

MAX_EVENT_CHARACTERS = 16 * 2**20
"""The largest event of a well-formed stream is a search's citations, far below this."""

_LINE_END = re.compile("\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event: `event` is `message` if the stream named none, `data` has its lines joined by LF."""

    event: str
    data: str
    id: str = ""


class SseParser:
    """An incremental parser of the `text/event-stream` format.

    Handles UTF-8 sequences and line endings (LF, CR, CRLF) that are split between chunks anywhere, a byte order mark,
    comments, and fields without a colon. As the format requires, an event cut off by the end of the stream is dropped.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._unfinished: list[str] = []
        self._after_cr = False
        self._size = 0
        self._event = ""
        self._data: list[str] = []
        self._id = ""

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        """The events that `chunk` completes, in order.

        Raises:
            InvalidResponseError: An event is larger than MAX_EVENT_CHARACTERS.
        """
        text = self._decoder.decode(chunk)
        if self._after_cr and text:
            # The CR that ended the last chunk already ended its line; an LF after it belongs to the same line ending.
            text = text.removeprefix("\n")
            self._after_cr = False
        self._after_cr = self._after_cr or text.endswith("\r")
        self._size += len(text)
        *lines, rest = _LINE_END.split(text)
        for line in lines:
            event = self._take("".join(self._unfinished) + line)
            self._unfinished = []
            if event is not None:
                yield event
        self._unfinished.append(rest)
        if self._size > MAX_EVENT_CHARACTERS:
            raise InvalidResponseError(f"An event of the stream has more than {MAX_EVENT_CHARACTERS:,} characters.")

    def _take(self, line: str) -> SseEvent | None:
        if not line:
            event = SseEvent(self._event or "message", "\n".join(self._data), self._id) if self._data else None
            self._event, self._data, self._size = "", [], 0
            return event
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None
