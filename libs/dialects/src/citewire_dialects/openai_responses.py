"""The dialect of `/v1/responses`: OpenAI's responses, streamed or whole.

Markers are left out of the text: each sentence that its passages support has annotations of type `file_citation` at its
end, with the words that support it beside OpenAI's own fields.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal
from uuid import UUID

from citewire.generator.v1 import generator_pb2

from citewire_dialects import events
from citewire_dialects.dialect import AnswerDialect, ChatStreamDialect, quoted
from citewire_dialects.events import Citation, Citations, ConversationCreated, Done, Event, Outcome, Tokens, Usage
from citewire_dialects.response_bodies import (
    Status,
    file_citation,
    incomplete_reason,
    output_text,
    response_body,
    search_call,
    search_result,
    usage_of,
)
from citewire_dialects.schemas import response_answers as schemas
from citewire_dialects.schemas.chat import VerifiedCitation
from citewire_kit.errors import CitewireError, Code

_QUOTED = frozenset({generator_pb2.VERDICT_SUPPORTED, generator_pb2.VERDICT_PARTIAL})


class ResponseWriter:
    """A response while it is being written."""

    def __init__(self, settings: schemas.ResponseSettings, question: str, *, shows_results: bool) -> None:
        """Takes the request's parameters.

        Args:
            settings: Parameters to repeat in the response.
            question: The search query.
            shows_results: Whether the search item includes its passages.
        """
        self._settings = settings.members()
        self._question = question
        self._shows_results = shows_results
        self._run_id = UUID(int=0)
        self._by_number: Mapping[int, Citation] = {}
        self._conversation: str | None = None
        self.call: schemas.FileSearchCall | None = None
        """The search, if it was requested by name and performed."""
        self.texts: list[str] = []
        self.annotations: list[schemas.FileCitation] = []
        self.usage: Usage | None = None
        self.outcome: Outcome | None = None
        """None until the answer is complete."""

    def identify(self, run_id: UUID) -> None:
        """Sets the run's id, from which all others are derived."""
        self._run_id = run_id

    @property
    def message_id(self) -> str:
        """The answer's id."""
        return f"msg_{self._run_id.hex}"

    @property
    def place(self) -> int:
        """The answer's place in the output."""
        return 0 if self.call is None else 1

    def add(self, event: Event) -> schemas.FileCitation | None:
        """Adds an event; returns the annotation that results."""
        match event:
            case Citations(citations=citations):
                self._by_number = {citation.index: citation for citation in citations}
                if self._settings["tools"]:
                    self.call = self._searched(citations)
            case Tokens(texts=texts):
                self.texts.extend(texts)
            case events.VerifiedCitation():
                return self._annotate(event)
            case Usage():
                self.usage = event
            case ConversationCreated(conversation_id=conversation_id):
                self._conversation = conversation_id
            case Done(outcome=outcome):
                self.outcome, self._conversation = outcome, outcome.conversation_id
            case _:
                pass
        return None

    def message(
        self, status: Literal["in_progress", "completed", "incomplete"], *, empty: bool
    ) -> schemas.OutputMessage:
        """Returns the answer so far; `empty`: without its text."""
        content = [] if empty else [output_text("".join(self.texts), self.annotations)]
        return schemas.OutputMessage(
            id=self.message_id, type="message", role="assistant", status=status, content=content
        )

    def body(self, status: Status, error: schemas.ResponseFailure | None = None) -> schemas.ResponseBody:
        """Returns the current response."""
        ended = status != "in_progress"
        output: list[schemas.FileSearchCall | schemas.OutputMessage] = [] if self.call is None else [self.call]
        if self.outcome is not None or self.texts:
            output.append(self.message("completed" if status == "completed" else "incomplete", empty=False))
        return response_body(
            self._settings,
            self._run_id,
            status,
            output if ended else [],
            error=error,
            reason=None if self.outcome is None else incomplete_reason(self.outcome.finish_reason),
            usage=usage_of(self.usage) if ended and self.usage is not None else None,
            conversation=self._conversation,
            completed_at=int(time.time()) if ended else None,
        )

    @property
    def status(self) -> Literal["completed", "incomplete"]:
        """Whether the answer is complete."""
        whole = self.outcome is None or incomplete_reason(self.outcome.finish_reason) is None
        return "completed" if whole else "incomplete"

    def _searched(self, citations: Sequence[Citation]) -> schemas.FileSearchCall:
        results = [search_result(citation) for citation in citations] if self._shows_results else None
        return search_call(self._run_id, self._question, results)

    def _annotate(self, event: events.VerifiedCitation) -> schemas.FileCitation | None:
        citation = self._by_number.get(event.verified.number)
        if citation is None or event.verified.verdict not in _QUOTED:
            return None
        added = file_citation(VerifiedCitation.read(event), citation.document_name)
        self.annotations.append(added)
        return added


class ResponsesAnswer(AnswerDialect):
    """One `response`."""

    name: ClassVar[str] = "responses_json"

    def __init__(self, writer: ResponseWriter) -> None:
        super().__init__()
        self._writer = writer

    def identify(self, run_id: UUID) -> None:
        """See `AnswerDialect.identify`."""
        self._writer.identify(run_id)

    def add(self, event: Event) -> None:
        """See `BodyDialect.add`."""
        super().add(event)
        self._writer.add(event)

    def body(self) -> schemas.ResponseBody:
        """See `AnswerDialect.body`."""
        return self._writer.body(self._writer.status)


class ResponsesStream(ChatStreamDialect):
    """The response's events, numbered from 0. If the answer fails, the stream ends with `response.failed`."""

    name: ClassVar[str] = "responses"

    def __init__(self, writer: ResponseWriter) -> None:
        self._writer = writer
        self._sequence = 0
        self._begun = self._opened = False
        self._before_text = ""

    def identify(self, run_id: UUID) -> None:
        """See `ChatStreamDialect.identify`."""
        self._writer.identify(run_id)

    def encode(self, event: Event) -> bytes:
        """See `StreamDialect.encode`."""
        annotation = self._writer.add(event)
        frames = self._begin()
        match event:
            case Citations() if self._writer.call is not None:
                frames += self._search(self._writer.call)
            case Tokens(texts=texts):
                frames += self._open()
                frames += [self._delta(text) for text in texts]
            case events.VerifiedCitation() if annotation is not None:
                frames += [*self._open(), self._annotation(annotation)]
            case Done():
                frames += [*self._open(), *self._end()]
            case _:
                pass
        return "".join(frames).encode()

    def failed(self, error: CitewireError) -> bytes:
        """See `StreamDialect.failed`."""
        code = "rate_limit_exceeded" if error.code is Code.RESOURCE_EXHAUSTED else "server_error"
        body = self._writer.body("failed", schemas.ResponseFailure(code=code, message=error.message))
        frames = [*self._begin(), self._frame(schemas.ResponseEvent, "response.failed", response=body)]
        return "".join(frames).encode()

    def _begin(self) -> list[str]:
        if self._begun:
            return []
        self._begun = True
        body = self._writer.body("in_progress")
        return [
            self._frame(schemas.ResponseEvent, f"response.{name}", response=body) for name in ("created", "in_progress")
        ]

    def _search(self, call: schemas.FileSearchCall) -> list[str]:
        begun = call.model_copy(update={"status": "in_progress", "results": None})
        states = ("in_progress", "searching", "completed")
        return [
            self._item("added", 0, begun),
            *(
                self._frame(schemas.SearchEvent, f"response.file_search_call.{state}", output_index=0, item_id=call.id)
                for state in states
            ),
            self._item("done", 0, call),
        ]

    def _open(self) -> list[str]:
        """Begins the answer's text. Idempotent."""
        if self._opened:
            return []
        self._opened = True
        writer = self._writer
        self._before_text = (
            f'"item_id": {quoted(writer.message_id)}, "output_index": {writer.place}, "content_index": 0, '
            '"type": "response.output_text.delta", "delta": '
        )
        return [
            self._item("added", writer.place, writer.message("in_progress", empty=True)),
            self._part(schemas.PartEvent, "response.content_part.added", part=output_text("", [])),
        ]

    def _delta(self, text: str) -> str:
        """One frame per delta, in one piece: this runs for every token of every stream."""
        number = self._sequence
        self._sequence = number + 1
        return (
            f'event: response.output_text.delta\ndata: {{"sequence_number": {number}, {self._before_text}'
            f'{quoted(text)}, "logprobs": []}}\n\n'
        )

    def _annotation(self, annotation: schemas.FileCitation) -> str:
        return self._part(
            schemas.AnnotationEvent,
            "response.output_text.annotation.added",
            annotation_index=len(self._writer.annotations) - 1,
            annotation=annotation,
        )

    def _end(self) -> list[str]:
        writer, status = self._writer, self._writer.status
        text = "".join(writer.texts)
        part = output_text(text, writer.annotations)
        return [
            self._part(schemas.TextDoneEvent, "response.output_text.done", text=text, logprobs=[]),
            self._part(schemas.PartEvent, "response.content_part.done", part=part),
            self._item("done", writer.place, writer.message(status, empty=False)),
            self._frame(schemas.ResponseEvent, f"response.{status}", response=writer.body(status)),
        ]

    def _item(self, state: str, place: int, item: schemas.FileSearchCall | schemas.OutputMessage) -> str:
        return self._frame(schemas.ItemEvent, f"response.output_item.{state}", output_index=place, item=item)

    def _part(self, kind: type[schemas.StreamedEvent], name: str, **fields: object) -> str:
        place = {"item_id": self._writer.message_id, "output_index": self._writer.place, "content_index": 0}
        return self._frame(kind, name, **place, **fields)

    def _frame(self, kind: type[schemas.StreamedEvent], name: str, **fields: Any) -> str:  # noqa: ANN401 # of any event
        event = kind(type=name, sequence_number=self._sequence, **fields)  # pyright: ignore[reportArgumentType] # each event's names
        self._sequence += 1
        return f"event: {name}\n{event.frame()}"
