"""Reading server-sent events: bytes in, events out, however the network cut them."""

import codecs
from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event: `event` is `message` if the stream named none, `data` its lines joined by LF."""

    event: str
    data: str
    id: str = ""


class SseParser:
    """An incremental parser of the `text/event-stream` format.

    Handles UTF-8 sequences and line ends (LF, CR, CRLF) that are cut anywhere between two chunks, a byte order mark,
    comments, and fields without a colon. As the format says, an event that the end of the stream cuts off is dropped.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._pending = ""
        self._after_cr = False
        self._event = ""
        self._data: list[str] = []
        self._id = ""

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        """The events that `chunk` completes, in order."""
        for line in self._lines(self._decoder.decode(chunk)):
            event = self._take(line)
            if event is not None:
                yield event

    def _lines(self, text: str) -> Iterator[str]:
        if self._after_cr and text:
            # The CR that ended the last chunk has ended its line already: its LF, if this is it, says nothing more.
            text = text.removeprefix("\n")
            self._after_cr = False
        self._pending += text
        start = 0
        while (end := _line_end(self._pending, start)) is not None:
            yield self._pending[start:end]
            if self._pending[end] == "\r":
                if end + 1 == len(self._pending):
                    self._after_cr = True
                elif self._pending[end + 1] == "\n":
                    end += 1
            start = end + 1
        self._pending = self._pending[start:]

    def _take(self, line: str) -> SseEvent | None:
        if not line:
            return self._dispatch()
        if line.startswith(":"):
            return None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None

    def _dispatch(self) -> SseEvent | None:
        event = SseEvent(self._event or "message", "\n".join(self._data), self._id) if self._data else None
        self._event = ""
        self._data = []
        return event


async def read_events(chunks: AsyncIterable[bytes]) -> AsyncGenerator[SseEvent]:
    """The events of a response body; ends when the body ends."""
    parser = SseParser()
    async for chunk in chunks:
        for event in parser.feed(chunk):
            yield event


def _line_end(text: str, start: int) -> int | None:
    ends = [at for at in (text.find("\n", start), text.find("\r", start)) if at >= 0]
    return min(ends) if ends else None
