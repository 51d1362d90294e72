"""The dialect of `/anthropic/v1/messages`: Anthropic's messages, streamed or whole.

An answer is blocks of text, a sentence each, and the citations of a block are what was verified of its sentence: the
words of the passage that support it. A sentence that its passages don't support has none. Markers are left out of the
text, as the citations stand in their place. A call of a tool is a block, too.
"""

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, cast

from citewire.generator.v1 import generator_pb2
from fastapi import Request

from citewire_dialects.anthropic_requests import FIELD_NAMES, BroughtText
from citewire_dialects.dialect import AnswerDialect, ChatStreamDialect, UrlOf
from citewire_dialects.events import (
    Citation,
    Citations,
    Done,
    Event,
    Outcome,
    Tokens,
    ToolCall,
    Usage,
    VerifiedCitation,
)
from citewire_dialects.passed_on import name_of_field, renamed
from citewire_dialects.schemas import anthropic as schemas
from citewire_dialects.schemas import chat
from citewire_http.api.schemas import OpenAiError
from citewire_kit.errors import CitewireError, Code

ANTHROPIC_PREFIX = "/anthropic/"

_END = re.compile(r"(?:[.!?…。！？｡؟۔।][\"'”’»)\]*_]*(?=\s)|[。！？｡][」』”’）]*(?=.)|(?<!\n)(?=\n))", re.DOTALL)
"""The end of a sentence, known once the following text is there."""
_OVERLAP = 8
"""Code points of a sentence's end that may already have been sent."""
_MOST_HELD = 160
"""Code points held back for citations: what a model writes in less than a second."""
_NO_TOKENS = schemas.MessageUsage(input_tokens=0, output_tokens=0)
_QUOTED = frozenset({generator_pb2.VERDICT_SUPPORTED, generator_pb2.VERDICT_PARTIAL})
_ERROR_TYPES: Mapping[Code, str] = {
    Code.INVALID_ARGUMENT: "invalid_request_error",
    Code.FAILED_PRECONDITION: "invalid_request_error",
    Code.NOT_FOUND: "not_found_error",
    Code.UNAUTHENTICATED: "authentication_error",
    Code.PERMISSION_DENIED: "permission_error",
    Code.RESOURCE_EXHAUSTED: "rate_limit_error",
    Code.UNAVAILABLE: "overloaded_error",
    Code.DEADLINE_EXCEEDED: "timeout_error",
}


class Blocks:
    """Splits an answer, while it is written, into blocks of text with the citations of their own sentence.

    A sentence's citations arrive a few words after its end, so text after the end is held back until one has arrived,
    or for a limited time.
    """

    def __init__(self, url_of: UrlOf, brought: Sequence[BroughtText] = ()) -> None:
        self._url_of = url_of
        self._brought = brought
        self._behind = 1 + max((text.result_index for text in brought), default=-1)
        """Number of search results in the request; other passages are numbered after them."""
        self._calls: set[int] = set()
        """Numbers of the tool calls that have begun."""
        self._citations: Mapping[int, Citation] = {}
        self._index = -1
        self._last = ""
        """The end of the open block's text."""
        self._ended = True
        """Whether the open block's sentence is complete, or there is none yet."""
        self._begun = 0
        """Code points before the open block."""
        self._written = 0
        """Code points in blocks."""
        self._held: deque[str] = deque()
        """Following sentences; the last may be incomplete."""
        self._cited = False
        """Whether citations of the last written sentence have arrived: further ones arrive before the next text."""
        self._late: list[schemas.Reference] = []
        """Citations of earlier, complete blocks: they follow the text, in blocks without text."""

    def add(self, event: Event) -> Iterator[schemas.MessageEvent]:
        """Yields what an event changes: `BlockStart`, `BlockDelta` and `BlockStop`."""
        match event:
            case Citations(citations=citations):
                self._citations = {citation.index: citation for citation in citations}
            case Tokens(texts=texts):
                text = "".join(texts)
                if self._held and not self._cited and sum(map(len, self._held)) + len(text) <= _MOST_HELD:
                    self._held.extend(_sentences(self._held.pop() + text))
                else:
                    yield from self._release()
                    yield from self._write(text)
            case VerifiedCitation():
                yield from self._cite(event)
            case ToolCall(piece=piece):
                yield from self._call(piece)
            case Done():
                yield from self._release()
                for reference in self._late:
                    yield from self._open()
                    yield self._delta(reference)
                yield from self._close()
            case _:
                pass

    def _release(self) -> Iterator[schemas.MessageEvent]:
        while self._held:
            yield from self._next()

    def _next(self) -> Iterator[schemas.MessageEvent]:
        yield from self._text(self._held.popleft())
        self._ended = bool(self._held)  # only the last may be incomplete

    def _write(self, text: str) -> Iterator[schemas.MessageEvent]:
        """Writes up to the first end of a sentence, and holds back the rest."""
        before = "" if self._ended else self._last
        first, *rest = _sentences(before + text, len(before))
        yield from self._text(first)
        if rest:
            self._ended, self._cited = True, False
            self._held.extend(rest)

    def _cite(self, event: VerifiedCitation) -> Iterator[schemas.MessageEvent]:
        verified = event.verified
        citation = self._citations.get(verified.number)
        while self._held and self._written < verified.sentence.end:
            yield from self._next()
        self._cited = True
        if citation is None or verified.verdict not in _QUOTED or not verified.quote:
            return
        reference = self._reference(citation, event)
        if reference is None:
            return
        if verified.sentence.end <= self._begun:
            self._late.append(reference)
            return
        self._ended = True
        yield self._delta(reference)

    def _call(self, piece: generator_pb2.ToolCallDelta) -> Iterator[schemas.MessageEvent]:
        """Writes a piece of a call; providers send calls one after the other."""
        yield from self._release()
        if piece.index not in self._calls:
            self._calls.add(piece.index)
            yield from self._begin(schemas.ToolUseBlock(type="tool_use", id=piece.id, name=piece.name, input={}))
            self._ended = True  # text that follows has a block of its own
        if piece.arguments:
            delta = schemas.InputJsonDelta(type="input_json_delta", partial_json=piece.arguments)
            yield schemas.BlockDelta(type="content_block_delta", index=self._index, delta=delta)

    def _text(self, text: str) -> Iterator[schemas.MessageEvent]:
        if not text:
            return
        if self._ended:
            yield from self._open()
        self._last = (self._last + text)[-_OVERLAP:]
        self._written += len(text)
        delta = schemas.TextDelta(type="text_delta", text=text)
        yield schemas.BlockDelta(type="content_block_delta", index=self._index, delta=delta)

    def _open(self) -> Iterator[schemas.MessageEvent]:
        yield from self._begin(schemas.TextBlock(type="text", text="", citations=None))

    def _begin(self, block: schemas.ContentBlock) -> Iterator[schemas.MessageEvent]:
        yield from self._close()
        self._index += 1
        self._ended, self._last, self._begun = False, "", self._written
        yield schemas.BlockStart(type="content_block_start", index=self._index, content_block=block)

    def _delta(self, reference: schemas.Reference) -> schemas.MessageEvent:
        delta = schemas.CitationsDelta(type="citations_delta", citation=reference)
        return schemas.BlockDelta(type="content_block_delta", index=self._index, delta=delta)

    def _close(self) -> Iterator[schemas.MessageEvent]:
        if self._index >= 0:
            yield schemas.BlockStop(type="content_block_stop", index=self._index)

    def _reference(self, citation: Citation, event: VerifiedCitation) -> schemas.Reference | None:
        """The form in which a citation is sent; None for a search result that must not be cited."""
        index, details = citation.index - 1, chat.VerifiedCitation.read(event)
        if citation.is_brought:
            return _brought_reference(self._brought[citation.chunk.chunk_index], details)
        if event.document_start is not None and event.document_end is not None:
            return schemas.CharLocation(
                type="char_location",
                cited_text=event.verified.quote,
                document_index=index,
                document_title=citation.chunk.label,
                start_char_index=event.document_start,
                end_char_index=event.document_end,
                file_id=str(citation.chunk.document_id),
                citewire=details,
            )
        return schemas.SearchResultLocation(
            type="search_result_location",
            cited_text=citation.chunk.text,
            search_result_index=self._behind + index,
            source=self._url_of(citation),
            title=citation.chunk.label,
            start_block_index=0,
            end_block_index=1,
            citewire=details,
        )


@dataclass(slots=True)
class _Block:
    """A block of a complete answer while it is collected."""

    begun: schemas.ContentBlock
    texts: list[str] = field(default_factory=list[str])
    references: list[schemas.Reference] = field(default_factory=list[schemas.Reference])

    def whole(self) -> schemas.ContentBlock:
        text = "".join(self.texts)
        if isinstance(self.begun, schemas.ToolUseBlock):
            return self.begun.model_copy(update={"input": _arguments(text)})
        return schemas.TextBlock(type="text", text=text, citations=self.references or None)


class MessagesAnswer(AnswerDialect):
    """One `message` with its blocks."""

    name: ClassVar[str] = "anthropic_json"

    def __init__(self, message_id: str, model: str, url_of: UrlOf, brought: Sequence[BroughtText] = ()) -> None:
        """`model` is named as the request named it; `brought` are its own texts."""
        super().__init__()
        self._head: dict[str, Any] = {"id": message_id, "model": model}
        self._blocks = Blocks(url_of, brought)
        self._content: list[_Block] = []

    def add(self, event: Event) -> None:
        """See `BodyDialect.add`."""
        super().add(event)
        for change in self._blocks.add(event):
            match change:
                case schemas.BlockStart(content_block=block):
                    self._content.append(_Block(block))
                case schemas.BlockDelta(delta=schemas.TextDelta(text=text)):
                    self._content[-1].texts.append(text)
                case schemas.BlockDelta(delta=schemas.InputJsonDelta(partial_json=text)):
                    self._content[-1].texts.append(text)
                case schemas.BlockDelta(delta=schemas.CitationsDelta(citation=reference)):
                    self._content[-1].references.append(reference)
                case _:
                    pass

    def body(self) -> schemas.Message:
        """See `AnswerDialect.body`."""
        content = [block.whole() for block in self._content]
        return _message(self._head, content, _stop_reason(self.outcome), _usage(self.all(Usage)))


class MessagesStream(ChatStreamDialect):
    """`message_start`, the blocks, `message_delta` and `message_stop`; a failed answer ends with `error`."""

    name: ClassVar[str] = "anthropic"

    def __init__(self, message_id: str, model: str, url_of: UrlOf, brought: Sequence[BroughtText] = ()) -> None:
        """`model` is named as the request named it; `brought` are its own texts."""
        self._head: dict[str, Any] = {"id": message_id, "model": model}
        self._blocks = Blocks(url_of, brought)
        self._usage: list[Usage] = []
        self._started = False

    def encode(self, event: Event) -> bytes:
        """See `StreamDialect.encode`."""
        frames = list[schemas.MessageEvent]()
        if isinstance(event, Usage):
            self._usage.append(event)
        if not self._started and isinstance(event, Citations | Tokens | ToolCall | Done):
            self._started = True
            message = _message(self._head, [], None, _NO_TOKENS)
            frames.append(schemas.MessageStart(type="message_start", message=message))
        frames.extend(self._blocks.add(event))
        if isinstance(event, Done):
            end = schemas.MessageEnd(stop_reason=_stop_reason(event.outcome), stop_sequence=None)
            frames.append(schemas.MessageDelta(type="message_delta", delta=end, usage=_usage(self._usage)))
            frames.append(schemas.MessageStop(type="message_stop"))
        return "".join([_frame(frame) for frame in frames]).encode()

    def failed(self, error: CitewireError) -> bytes:
        """See `StreamDialect.failed`."""
        return _frame(schemas.MessageFault(type="error", error=anthropic_error(error))).encode()


def _brought_reference(brought: BroughtText, details: chat.VerifiedCitation) -> schemas.SearchResultLocation | None:
    if not brought.result.cited:
        return None
    return schemas.SearchResultLocation(
        type="search_result_location",
        cited_text=brought.text,
        search_result_index=brought.result_index,
        source=brought.result.source,
        title=brought.result.title,
        start_block_index=brought.block_index,
        end_block_index=brought.block_index + 1,
        citewire=details,
    )


def _arguments(text: str) -> dict[str, Any]:
    """Reads a call's arguments; truncated ones count as empty."""
    try:
        arguments: Any = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}


def _sentences(text: str, start: int = 0) -> list[str]:
    """Splits the text from `start` after each end of a sentence; the text before only shows where one ended."""
    ends = [match.end() for match in _END.finditer(text) if match.end() >= max(start, 1)]
    return [text[begin:end] for begin, end in pairwise([start, *ends, len(text)])]


def anthropic_error(error: CitewireError) -> schemas.AnthropicError:
    """Returns an error as Anthropic's clients read it."""
    message = renamed(error, FIELD_NAMES).get("detail", error.message)
    return schemas.AnthropicError(type=_ERROR_TYPES.get(error.code, "api_error"), message=message)


def anthropic_members(request: Request, error: CitewireError) -> dict[str, Any]:
    """Returns the member that Anthropic's clients look for in a problem document; they ignore the others."""
    if not request.url.path.startswith(ANTHROPIC_PREFIX):
        return {}
    param = name_of_field(error.violations[0].field, FIELD_NAMES) if error.violations else None
    # The member of problems for compatible clients; Anthropic's read the type and the message.
    member = OpenAiError(**anthropic_error(error).members(), param=param, code=error.reason.lower())
    return {**renamed(error, FIELD_NAMES), "error": member.members()}


def _frame(event: schemas.MessageEvent) -> str:
    return f"event: {event.type}\n{event.frame()}"


def _message(
    head: Mapping[str, Any],
    content: list[schemas.ContentBlock],
    stop_reason: schemas.StopReason | None,
    usage: schemas.MessageUsage,
) -> schemas.Message:
    return schemas.Message(
        **head,
        type="message",
        role="assistant",
        content=content,
        stop_reason=stop_reason,
        stop_sequence=None,
        usage=usage,
    )


def _usage(spent: list[Usage]) -> schemas.MessageUsage:
    if not spent:
        return _NO_TOKENS
    # Anthropic's count of the input excludes tokens read from the cache and written to it.
    read, written = spent[0].cached_tokens or 0, spent[0].cache_write_tokens or 0
    return schemas.MessageUsage(
        input_tokens=max(0, spent[0].prompt_tokens - read - written),
        cache_read_input_tokens=read,
        cache_creation_input_tokens=written,
        output_tokens=spent[0].completion_tokens,
    )


def _stop_reason(outcome: Outcome) -> schemas.StopReason:
    match outcome.finish_reason:
        case "stop":
            return "end_turn"
        case "length":
            return "max_tokens"
        case "tool_calls":
            return "tool_use"
        case _:
            return "refusal"
