"""Decoders of providers' streams, server-sent events and JSON lines, from bytes that are cut anywhere."""

from citewire_remote.failures import stream_broken

MAX_LINE = 1024 * 1024
"""Longest line, and longest event, in bytes; a longer one is an error."""

_BOM = b"\xef\xbb\xbf"


class SseDecoder:
    """Takes bytes and returns the data of each event.

    Follows the WHATWG rules: lines end with LF, CR LF or CR; a blank line ends an event; `data:` lines of one event are
    joined; comments and other fields are skipped. Lines are cut before bytes are decoded, so that a chunk may end
    inside a character or between CR and LF.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._rest_size = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self._after_cr = False
        self._started = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Takes the next bytes and returns the data of the events that they complete.

        Raises:
            Unavailable: A line or an event is longer than `MAX_LINE`.
        """
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\n" not in chunk and b"\r" not in chunk:
            self._keep(chunk)
            return []
        # splitlines of bytes splits at LF, CR LF and CR only.
        lines = (b"".join(self._rest) + chunk).splitlines(keepends=True)
        self._rest.clear()
        self._rest_size = 0
        if lines[-1][-1:] not in b"\r\n":
            self._keep(lines.pop())
        elif lines[-1].endswith(b"\r"):
            self._after_cr = True
        events: list[bytes] = []
        for line in lines:
            self._line(line.rstrip(b"\r\n"), events)
        return events

    def finish(self) -> list[bytes]:
        """Returns a last event that the stream ended without a blank line, if there is one.

        The rules drop it, but some servers omit the last blank line, and the reader of the data notices whether it is
        complete.
        """
        events: list[bytes] = []
        if self._rest:
            self._line(b"".join(self._rest), events)
            self._rest.clear()
        self._line(b"", events)
        return events

    def _keep(self, part: bytes) -> None:
        self._rest.append(part)
        self._rest_size += len(part)
        if self._rest_size > MAX_LINE:
            raise stream_broken("a line of the stream is too long")

    def _line(self, line: bytes, events: list[bytes]) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                events.append(b"\n".join(self._data))
                self._data.clear()
                self._data_size = 0
        elif line.startswith(b"data:"):
            self._append(line[6:] if line[5:6] == b" " else line[5:])
        elif line == b"data":
            self._append(b"")

    def _append(self, data: bytes) -> None:
        self._data.append(data)
        self._data_size += len(data) + 1
        if self._data_size > MAX_LINE:
            raise stream_broken("an event of the stream is too long")


class LineDecoder:
    """Takes bytes and returns the lines of JSON, without their ends and without empty ones."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._rest_size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Takes the next bytes and returns the lines that they complete.

        Raises:
            Unavailable: A line is longer than `MAX_LINE`.
        """
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
            self._rest_size = 0
        self._rest.append(rest)
        self._rest_size += len(rest)
        if self._rest_size > MAX_LINE:
            raise stream_broken("a line of the stream is too long")
        return [line for line in lines if line.strip()]

    def finish(self) -> list[bytes]:
        """Returns the last line if the stream ended without a line end."""
        rest = b"".join(self._rest)
        self._rest.clear()
        self._rest_size = 0
        return [rest] if rest.strip() else []
