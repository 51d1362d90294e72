"""JSON lines from raw bytes, whatever the chunks are that the bytes arrive in."""

from citewire_remote.failures import stream_broken
from citewire_remote.sse import MAX_LINE


class LineDecoder:
    """Takes bytes and gives lines, without their ends; empty ones are left out."""

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
        """Returns the line that the stream's end left without its line end, if there is one."""
        rest = b"".join(self._rest)
        self._rest.clear()
        self._rest_size = 0
        return [rest] if rest.strip() else []
