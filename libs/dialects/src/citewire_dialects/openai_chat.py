"""The dialect of `/v1/chat/completions`: OpenAI's chat completion, streamed or whole.

While streaming, markers stay visible and a list of sources follows the text; the whole answer carries them as
`annotations` of type `url_citation`. A stream's last delta carries the annotations too, for clients that read them.
"""

import re
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Literal

from citewire.generator.v1 import generator_pb2
from fastapi import Request
from pydantic import MISSING

from citewire_dialects.dialect import AnswerDialect, ChatStreamDialect, UrlOf, quoted
from citewire_dialects.events import Citation, Citations, Done, Event, Tokens, ToolCall, Usage, VerifiedCitation
from citewire_dialects.openai_requests import openai_param
from citewire_dialects.schemas import chat as schemas
from citewire_dialects.schemas.openai_answers import (
    Annotation,
    AnswerMessage,
    ChunkChoice,
    Completion,
    CompletionChoice,
    CompletionChunk,
    CompletionFault,
    CompletionUsage,
    Delta,
    FunctionChunk,
    PromptTokensDetails,
    ToolCallChunk,
    UrlCitation,
)
from citewire_http.api.schemas import OpenAiError
from citewire_kit.errors import CitewireError, Code

OPENAI_PATHS = frozenset({"/v1/chat/completions", "/v1/embeddings", "/v1/models", "/v1/rerank", "/v2/rerank"})
OPENAI_PREFIXES = ("/v1/responses", "/v1/files", "/v1/vector_stores")

_MARKER = re.compile(r"\[(?:ref:|SOURCE )(\d{1,6})\]")
_MOST_ANNOTATIONS = 500
"""Maximum number of annotated markers in an answer, equal to that of verified sentences."""
_MANY_TEXTS = 1_000
_LONG_TEXT = 4_000
"""Length of text in which markers are found within a millisecond."""
_BESIDE = re.compile(rf"(?:{_MARKER.pattern}|[^\w\[])*")
"""Text between a sentence and its marker: other markers, no words."""
_LEADS = re.compile(rf"(?:{_MARKER.pattern}|[\s>*+•-]|\d{{1,3}}[.)])*")
"""Text allowed before a marker at the start of a line."""
_CODE = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,}).*?(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)|(?<!`)(?P<ticks>`++)[^`\n]++(?P=ticks)",
    re.MULTILINE | re.DOTALL,
)
"""Each run of backticks is read once, so that a long one takes linear time."""
_REACH = 400
"""Maximum code points between a sentence and its marker, or before a marker at the start of a line."""
_SLOT = "\ufffc"
"""Placeholder for a token in a frame that is built once."""

FinishReason = Literal["stop", "length", "content_filter", "tool_calls"]
_ERROR_TYPES: Mapping[Code, str] = {
    Code.INVALID_ARGUMENT: "invalid_request_error",
    Code.NOT_FOUND: "invalid_request_error",
    Code.FAILED_PRECONDITION: "invalid_request_error",
    Code.UNAUTHENTICATED: "authentication_error",
    Code.PERMISSION_DENIED: "permission_error",
    Code.RESOURCE_EXHAUSTED: "rate_limit_error",
}


class OpenAiAnswer(AnswerDialect):
    """One `chat.completion` with its annotations."""

    name: ClassVar[str] = "openai_json"

    def __init__(self, completion_id: str, model: str, url_of: UrlOf, *, structured: bool = False) -> None:
        """`model` is named as the request named it; `structured`: whether the answer is to be JSON."""
        super().__init__()
        self._structured = structured
        self.head: dict[str, Any] = {"id": completion_id, "created": int(time.time()), "model": model}
        """The fields with which every body and frame begins."""
        self._url_of = url_of

    @property
    def takes_long(self) -> bool:
        """See `AnswerDialect.takes_long`: markers without a verdict are annotated too."""
        texts = self._texts
        return super().takes_long or len(texts) > _MANY_TEXTS or sum(map(len, texts)) > _LONG_TEXT

    def body(self) -> Completion:
        """See `AnswerDialect.body`."""
        calls = self.tool_calls
        message = AnswerMessage(
            role="assistant",
            content=self.text,
            refusal=self.outcome.refusal or None,
            annotations=self.annotations(),
            tool_calls=calls or MISSING,
        )
        choice = CompletionChoice(index=0, message=message, logprobs=None, finish_reason=self.finish_reason())
        return Completion(**self.head, object="chat.completion", choices=[choice], usage=self.usage())

    def annotations(self) -> list[Annotation]:
        """One for each marker, at its position; further markers share one for each unverified passage.

        Without markers: one for each verified sentence; if nothing was verified, one for each passage, covering the
        whole answer.
        """
        answer = self.text
        by_number = {citation.index: citation for citation in self.citations}
        if self.outcome.not_found:
            return []
        code = [match.span() for match in _CODE.finditer(answer)]
        markers = (
            match
            for match in _MARKER.finditer(answer)
            if int(match[1]) in self.outcome.cited and int(match[1]) in by_number
            # Code contains no markers.
            if not _is_inside(match.start(), code)
        )
        sentences = self._sentences()
        spans = [
            (by_number[int(match[1])], *match.span(), _of_marker(answer, sentences[int(match[1])], *match.span()))
            for match in islice(markers, _MOST_ANNOTATIONS)
        ]
        told = {id(verified) for *_, verified in spans}
        spans += [
            (by_number[event.verified.number], event.verified.sentence.start, event.verified.sentence.end, event)
            for event in self.all(VerifiedCitation)
            if event.verified.number in by_number and (not told or (_is_unverified(event) and id(event) not in told))
        ]
        if not spans and not self.outcome.refusal and not (self._structured or self.all(ToolCall)):
            spans = [(citation, 0, len(answer), None) for citation in self.citations]
        return [self._annotation(citation, start, end, verified) for citation, start, end, verified in spans]

    def source_list(self) -> str:
        """The sources as Markdown, to follow a streamed text; "" if there are none to name."""
        if self.outcome.not_found or not self.citations or self._structured or self.all(ToolCall):
            return ""  # text after JSON would make it invalid, and a call isn't an answer
        cited = [citation for citation in self.citations if citation.index in self.outcome.cited]
        lines = [
            f"- [{citation.index}] [{_label(citation)}]({self._url_of(citation)})"
            for citation in cited or self.citations
        ]
        return "\n\nSources:\n" + "\n".join(lines)

    def finish_reason(self) -> FinishReason:
        """Why it ended, in OpenAI's terms."""
        match self.outcome.finish_reason:
            case "stop" | "length" | "tool_calls" as reason:
                return reason
            case "refusal" if self.outcome.refusal:
                return "stop"
            case _:
                return "content_filter"

    def usage(self) -> CompletionUsage:
        """Tokens of the chat model."""
        usage = self.all(Usage)
        prompt, completion = (usage[0].prompt_tokens, usage[0].completion_tokens) if usage else (0, 0)
        cached = (usage[0].cached_tokens or 0) if usage else 0
        return CompletionUsage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=prompt + completion,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=cached),
        )

    def _sentences(self) -> Mapping[int, Sequence[VerifiedCitation]]:
        """Verified citations by number, in the answer's order."""
        sentences: dict[int, list[VerifiedCitation]] = defaultdict(list)
        for event in sorted(self.all(VerifiedCitation), key=_sentence_start):
            sentences[event.verified.number].append(event)
        return sentences

    def _annotation(self, citation: Citation, start: int, end: int, verified: VerifiedCitation | None) -> Annotation:
        return Annotation(
            citewire=MISSING if verified is None else schemas.VerifiedCitation.read(verified),
            type="url_citation",
            url_citation=UrlCitation(
                start_index=start, end_index=end, url=self._url_of(citation), title=citation.chunk.label
            ),
        )


def _of_marker(answer: str, own: Sequence[VerifiedCitation], start: int, end: int) -> VerifiedCitation | None:
    """The verified citation of the sentence to which a marker belongs: around it, before it, or after it.

    A marker at the start of a line belongs to what follows, any other to what precedes it.
    """
    place = bisect_right(own, start, key=_sentence_start)
    before = own[place - 1] if place else None
    if before is not None and start < _sentence(before).end:
        return before
    place = bisect_left(own, end, key=_sentence_start)
    after = own[place] if place < len(own) else None
    if before is not None and not _is_beside(answer, _sentence(before).end, start):
        before = None
    if after is None or not _is_beside(answer, end, _sentence(after).start):
        return before
    line = answer.rfind("\n", max(start - _REACH, 0), start) + 1
    leads = (line > 0 or start <= _REACH) and _LEADS.fullmatch(answer, line, start) is not None
    same_line = "\n" not in answer[end : _sentence(after).start]
    return after if leads and same_line else before or after


def _is_beside(answer: str, start: int, end: int) -> bool:
    """Whether there are only markers and punctuation between a sentence and its marker."""
    return end - start <= _REACH and _BESIDE.fullmatch(answer, start, end) is not None


def _sentence_start(event: VerifiedCitation) -> int:
    return event.verified.sentence.start


def _start_of(span: tuple[int, int]) -> int:
    return span[0]


def _is_inside(place: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a position is in one of the given spans, which are in order."""
    index = bisect_right(spans, place, key=_start_of) - 1
    return index >= 0 and place < spans[index][1]


class OpenAiStream(ChatStreamDialect):
    """`chat.completion.chunk` objects, then `[DONE]`; a failed answer ends with an `error` object instead."""

    name: ClassVar[str] = "openai"

    def __init__(
        self, completion_id: str, model: str, url_of: UrlOf, *, include_usage: bool, structured: bool = False
    ) -> None:
        """`include_usage`: whether a last chunk without choices carries the usage. See `OpenAiAnswer`."""
        self._answer = OpenAiAnswer(completion_id, model, url_of, structured=structured)
        self._include_usage = include_usage
        self._started = False
        slot = self._delta(Delta(content=_SLOT))
        self._before_token, _, self._after_token = slot.rpartition(quoted(_SLOT))

    def encode(self, event: Event) -> bytes:
        """See `StreamDialect.encode`."""
        self._answer.add(event)
        match event:
            case Citations():
                return self._start()
            case Tokens(texts=texts):
                before, after = self._before_token, self._after_token
                return self._start() + "".join([f"{before}{quoted(text)}{after}" for text in texts]).encode()
            case ToolCall(piece=piece):
                return self._start() + self._delta(Delta(tool_calls=[_call_delta(piece)])).encode()
            case Done():
                return self._start() + self._end().encode()
            case _:
                return b""

    def takes_long(self, event: Event) -> bool:
        """See `StreamDialect.takes_long`: the sources and annotations come last."""
        return isinstance(event, Done) and self._answer.takes_long

    def failed(self, error: CitewireError) -> bytes:
        """See `StreamDialect.failed`."""
        return CompletionFault(error=openai_error(error)).frame().encode()

    def _start(self) -> bytes:
        if self._started:
            return b""
        self._started = True
        return self._delta(Delta(role="assistant", content="")).encode()

    def _end(self) -> str:
        answer = self._answer
        sources = answer.source_list()
        frames = self._delta(Delta(content=sources)) if sources else ""
        if answer.outcome.refusal:
            frames += self._delta(Delta(refusal=answer.outcome.refusal))
        frames += self._delta(Delta(annotations=answer.annotations() or MISSING), answer.finish_reason())
        if self._include_usage:
            frames += self._chunk([], answer.usage())
        return frames + "data: [DONE]\n\n"

    def _delta(self, delta: Delta, finish_reason: FinishReason | None = None) -> str:
        choice = ChunkChoice(index=0, delta=delta, logprobs=None, finish_reason=finish_reason)
        return self._chunk([choice], None if self._include_usage else MISSING)

    def _chunk(self, choices: list[ChunkChoice], usage: CompletionUsage | MISSING | None) -> str:
        chunk = CompletionChunk(**self._answer.head, object="chat.completion.chunk", choices=choices, usage=usage)
        return chunk.frame()


def openai_error(error: CitewireError) -> OpenAiError:
    """Returns an error as OpenAI's clients read it."""
    return OpenAiError(
        message=error.message,
        type=_ERROR_TYPES.get(error.code, "server_error"),
        param=openai_param(error.violations[0].field) if error.violations else None,
        code=error.reason.lower(),
    )


def openai_members(request: Request, error: CitewireError) -> dict[str, Any]:
    """Returns the member that OpenAI's clients look for in a problem document; they ignore the others."""
    path = request.url.path
    known = path in OPENAI_PATHS or path.startswith(OPENAI_PREFIXES)
    return {"error": openai_error(error).members()} if known else {}


def _call_delta(piece: generator_pb2.ToolCallDelta) -> ToolCallChunk:
    function = FunctionChunk(name=piece.name or MISSING, arguments=piece.arguments)
    return ToolCallChunk(
        index=piece.index, id=piece.id or MISSING, type="function" if piece.id else MISSING, function=function
    )


def _is_unverified(event: VerifiedCitation) -> bool:
    return event.verified.verdict == generator_pb2.VERDICT_UNVERIFIED


def _label(citation: Citation) -> str:
    return citation.chunk.label.replace("[", "(").replace("]", ")")


def _sentence(event: VerifiedCitation) -> generator_pb2.AnswerSpan:
    return event.verified.sentence
