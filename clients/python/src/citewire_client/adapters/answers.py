"""Converts answers for frameworks, complete or during streaming."""

from collections.abc import Iterable, Sequence
from typing import Any

from citewire_client import models
from citewire_client.adapters.passages import members
from citewire_client.events import ChatEvent


class StopSequences:
    """Ends a streamed text where a stop sequence begins."""

    def __init__(self, sequences: str | Iterable[str]) -> None:
        """One or more stop sequences; empty ones are ignored."""
        several = (sequences,) if isinstance(sequences, str) else sequences
        self._sequences = [sequence for sequence in several if sequence]
        self._held = ""
        self.reached = False
        """Whether a stop sequence was found; then no text may follow."""

    def __bool__(self) -> bool:
        """Whether there are stop sequences."""
        return bool(self._sequences)

    def feed(self, text: str) -> str:
        """Takes a piece and returns the text that can be shown; the beginning of a stop sequence is held back."""
        self._held += text
        starts = [place for sequence in self._sequences if (place := self._held.find(sequence)) >= 0]
        if starts:
            self.reached = True
            shown, self._held = self._held[: min(starts)], ""
            return shown
        length = max((self._overlap(sequence) for sequence in self._sequences), default=0)
        end = len(self._held) - length
        shown, self._held = self._held[:end], self._held[end:]
        return shown

    def rest(self) -> str:
        """Returns the text held back, once the stream has ended."""
        rest, self._held = self._held, ""
        return rest

    def _overlap(self, sequence: str) -> int:
        lengths = range(min(len(sequence) - 1, len(self._held)), 0, -1)
        return next((length for length in lengths if self._held.endswith(sequence[:length])), 0)


def cited_sentence(verified: models.VerifiedCitation, passages: Sequence[models.Citation]) -> dict[str, Any]:
    """A verified citation: the sentence's span in the answer, the quote, the verdict, and the place of the quote."""
    fields = members(verified)
    sentence = fields.pop("sentence")
    passage = next((passage for passage in passages if passage.index == verified.index), None)
    document: dict[str, Any] = {}
    if passage is not None:
        document = {"title": passage.title, "file_name": passage.file_name, "ref": passage.ref, "url": passage.url}
    named = {name: value for name, value in document.items() if value}
    return {"start": sentence["start"], "end": sentence["end"]} | named | fields


class AnswerReader:
    """Collects an answer from its events."""

    def __init__(self, model: str, stop: str | Iterable[str] = ()) -> None:
        """`model` is the name in the request; a sequence in `stop` ends the text."""
        self._stop = StopSequences(stop)
        self._passages: Sequence[models.Citation] = ()
        self.text = ""
        """The text so far."""
        self.details: dict[str, Any] = {"model": model, "citations": [], "passages": []}
        """The other details so far, as in `answer_details`, without those that streams lack."""
        self.is_over = False
        """Whether the answer is complete or a stop sequence was reached."""

    def read(self, event: ChatEvent) -> str:
        """Takes an event and returns the text that it adds."""
        piece = ""
        match event:
            case models.ConversationEvent(data=data):
                self.details["conversation_id"] = str(data.conversation_id)
            case models.CitationsEvent(data=data):
                self._passages = data.citations
                self.details["passages"] = [members(passage) for passage in data.citations]
            case models.TokenEvent(data=data):
                piece = self._stop.feed(data.text)
                self.is_over = self._stop.reached
            case models.ToolCallEvent(data=data):
                self._call(data)
            case models.CitationEvent(data=data):
                self.details["citations"] = [*self.details["citations"], cited_sentence(data, self._passages)]
            case models.UncitedEvent(data=data):
                self.details["uncited"] = [*self.details.get("uncited", []), members(data)]
            case models.UsageEvent(data=data):
                self.details["usage"] = usage_counts(data)
            case models.DoneEvent(data=data):
                piece = self._stop.rest()
                self.is_over = True
                known = {"finish_reason": data.finish_reason, "refusal": data.refusal}
                self.details |= {name: value for name, value in known.items() if value}
            case _:
                pass
        self.text += piece
        return piece

    def _call(self, piece: models.ToolCallDelta) -> None:
        calls: list[dict[str, Any]] = self.details.setdefault("tool_calls", [])
        if piece.index == len(calls):
            calls.append({"id": piece.id or "", "name": piece.name or "", "arguments": ""})
        calls[piece.index]["arguments"] += piece.arguments


def answer_details(answer: models.ChatAnswer, model: str) -> dict[str, Any]:
    """The details of a complete answer besides its text; `model` is the name in the request."""
    details: dict[str, Any] = {
        "model": model,
        "citations": [cited_sentence(verified, answer.citations) for verified in answer.verified or ()],
        "passages": [members(passage) for passage in answer.citations],
        "usage": usage_counts(answer.usage),
        "finish_reason": answer.finish_reason,
        "tool_calls": None if answer.tool_calls is None else [_called(call) for call in answer.tool_calls],
        "refusal": answer.refusal,
        "not_found": answer.not_found,
        "provider": answer.provider,
        "chat_model": answer.model,
        "exchange_id": str(answer.exchange_id),
        "conversation_id": None if answer.conversation_id is None else str(answer.conversation_id),
        "uncited": None if answer.uncited is None else [members(sentence) for sentence in answer.uncited],
    }
    return {name: value for name, value in details.items() if value is not None}


def _called(call: models.ToolCallParam) -> dict[str, Any]:
    return {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}


def usage_counts(usage: models.TokenUsage) -> dict[str, int]:
    """The chat model's token counts, under the names that most frameworks use."""
    read, written = usage.prompt_tokens, usage.completion_tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
