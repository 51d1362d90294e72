"""Shared by the readers of providers' stream formats: errors after texts, proper ends, complete characters."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Protocol
from uuid import uuid4

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.model import FinishReason, Usage
from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger
from citewire_remote.failures import as_mapping, from_stream, parse_json, read_error, stream_broken
from citewire_remote.redaction import Redaction
from citewire_remote.stream_decoders import SseDecoder

log = get_logger(__name__)

_SURROGATE = re.compile("[\ud800-\udfff]")
_HIGH_AT_END = re.compile("[\ud800-\udbff]\\Z")


class Decoder(Protocol):
    """Finds the events in the bytes."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Takes the next bytes and returns the data of the events that they complete."""
        ...

    def finish(self) -> list[bytes]:
        """Returns data left incomplete by the end of the stream."""
        ...


class AnswerReader(ABC):
    """Reads one streamed answer.

    Args:
        provider: The provider's name, for errors.
        redact: Removes its key and address from logged text.
    """

    decoder: ClassVar[type[Decoder]] = SseDecoder
    """Finds the format's events."""

    def __init__(self, provider: str, redact: Redaction | None = None) -> None:
        self._decoder = self.decoder()
        self._provider = provider
        self._redact = redact or Redaction()
        self._high = ""
        self._failure: CitewireError | None = None
        self._finish: FinishReason | None = None
        self._refused = False
        self.done = False
        """Whether the stream's last event was read."""
        self.usage: Usage | None = None
        """The usage reported by the provider; the last one if there are several."""
        self._calls: dict[object, int] = {}
        self._pieces: list[pb.ToolCallDelta] = []
        self.progress = 0
        """Number of events so far with text, reasoning or an end; comments and empty ones don't count."""

    @property
    def finished(self) -> bool:
        """Whether the answer's end was read; usage may follow."""
        return self.done

    @property
    def finish_reason(self) -> FinishReason:
        """Why the answer ended; STOP if only the stream's last event said so."""
        if self._refused and self._finish in {None, FinishReason.STOP}:
            return FinishReason.REFUSAL
        return self._finish or FinishReason.STOP

    def feed(self, chunk: bytes) -> list[str]:
        """Takes the next bytes and returns the texts that they complete.

        Texts before an error are returned, and the error is raised by the next call, or by `check`.

        Raises:
            CitewireError: The stream contains an error, or is malformed.
        """
        self.check()
        texts: list[str] = []
        try:
            for data in self._decoder.feed(chunk):
                self._data(data, texts)
        except CitewireError as exc:
            if not texts:
                raise
            self._failure = exc
        return texts

    def check(self) -> None:
        """Raises the error that followed the texts last returned by `feed`, if there was one."""
        if self._failure is not None:
            raise self._failure

    def finish(self) -> list[str]:
        """Ends the body.

        Raises:
            Unavailable: The answer hadn't ended.
        """
        self.check()
        texts: list[str] = []
        for data in self._decoder.finish():
            self._data(data, texts)
        if not self.finished:
            raise stream_broken("it ended before the answer did")
        if not self.done:
            log.warning("provider_stream_without_done", provider=self._provider)
        if self._high:
            texts.append("\ufffd")
            self._high = ""
        return texts

    def whole(self, body: bytes) -> list[str]:
        """Reads an answer in one piece.

        Raises:
            CitewireError: It contains an error, or isn't an answer.
        """
        texts: list[str] = []
        self._whole(_object(body), texts)
        if not self.finished:
            raise stream_broken("it isn't a completion")
        self.done = True
        return texts

    def take_tool_calls(self) -> tuple[pb.ToolCallDelta, ...]:
        """Returns the pieces of tool calls read since the last call."""
        pieces, self._pieces = tuple(self._pieces), []
        return pieces

    @abstractmethod
    def _event(self, event: Mapping[str, object], texts: list[str]) -> None:
        """Reads an event."""

    @abstractmethod
    def _whole(self, answer: Mapping[str, object], texts: list[str]) -> None:
        """Reads a whole answer."""

    def _data(self, data: bytes, texts: list[str]) -> None:
        stripped = data.strip()
        if stripped and not self.done:
            self._event(_object(stripped), texts)

    def _text(self, text: str, texts: list[str]) -> None:
        """Adds text of the answer."""
        text = self._whole_characters(text)
        if text:
            texts.append(text)
        self.progress += 1

    def _tool_call(self, key: object, *, call_id: object = "", name: object = "", arguments: object = "") -> None:
        """Adds a piece of a tool call.

        Args:
            key: Identifies it among the answer's calls.
            call_id: Its id; generated if the server sends none.
            name: The tool's name.
            arguments: The next piece of its arguments; an object if the server sends them complete.
        """
        piece = pb.ToolCallDelta(arguments=_arguments(arguments))
        if key not in self._calls:
            self._calls[key] = len(self._calls)
            piece.id = scrubbed(call_id) if isinstance(call_id, str) and call_id else f"call_{uuid4().hex}"
            piece.name = scrubbed(name) if isinstance(name, str) else ""
            if not piece.name:
                raise stream_broken("a tool call has no name")
        piece.index = self._calls[key]
        self._pieces.append(piece)
        self.progress += 1

    def _whole_characters(self, text: str) -> str:
        """Joins the halves of a character that a server split between two events; a lone half is replaced."""
        if not self._high and text.isascii():
            return text
        text = self._high + text
        self._high = ""
        high = _HIGH_AT_END.search(text)
        if high:
            self._high = high.group()
            text = text[: high.start()]
        if _SURROGATE.search(text) is None:
            return text
        return scrubbed(text)

    def _named(self, reason: object, known: Mapping[str, FinishReason]) -> FinishReason:
        """Returns the meaning of a provider's finish reason; an unknown one is still an end."""
        name = reason if isinstance(reason, str) else ""
        if name not in known:
            log.warning("provider_finish_reason_unknown", provider=self._provider, finish_reason=name[:40])
        return known.get(name, FinishReason.STOP)

    def _raise(self, event: Mapping[str, object]) -> None:
        error = read_error(event)
        log.warning("provider_error_in_stream", provider=self._provider, **error.log_fields(self._redact))
        raise from_stream(error, self._provider)


def scrubbed(text: str) -> str:
    """Joins the halves of characters, and replaces lone ones, which messages can't contain."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def text_in(event: Mapping[str, object], name: str) -> str:
    """A text in an event; "" for anything else."""
    value = event.get(name)
    return value if isinstance(value, str) else ""


def place_in(event: Mapping[str, object], name: str) -> int | None:
    """The index of a part of an answer in an event; None for anything else."""
    value = event.get(name)
    return value if isinstance(value, int) else None


def _arguments(arguments: object) -> str:
    if isinstance(arguments, str):
        return scrubbed(arguments)
    return scrubbed(json.dumps(arguments, ensure_ascii=False)) if isinstance(arguments, Mapping) else ""


def _object(data: bytes) -> Mapping[str, object]:
    try:
        return as_mapping(parse_json(data.decode("utf-8")))
    except ValueError as exc:
        raise stream_broken("an event isn't JSON") from exc
