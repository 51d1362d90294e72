"""What is known of one running chat, for its exchange, its stored answer and its outcome."""

import asyncio
import time
from typing import Any

from citewire_gateway.api.wire import (
    assessment_json,
    checked_json,
    citation_json,
    decision_json,
    step_json,
    uncited_json,
    usage_json,
)
from citewire_gateway.chat.events import (
    Assessed,
    CheckedCitation,
    Citation,
    Citations,
    Decided,
    Event,
    Outcome,
    Step,
    Tokens,
    UncitedSentence,
    Usage,
)
from citewire_gateway.chat.records import Closing, Exchange, State
from citewire_gateway.chat.run import Ask, RunControl
from citewire_gateway.clients.domain import Plan
from citewire_gateway.clients.generation import Completed, Message, TokenUsage
from citewire_gateway.metrics import count_citation, count_uncited, note_first_text
from citewire_kit.ids import uuid7

_CHARS_PER_TOKEN = 4  # rough, and marked as an estimate wherever it is used


class ChatRecord:
    """Gathers, while the pipeline runs, what is to be kept of a chat."""

    def __init__(self, ask: Ask, control: RunControl, lease_seconds: float) -> None:
        persist = ask.persists
        creates = persist and ask.conversation_id is None
        self.exchange = Exchange(
            exchange_id=uuid7(),
            tenant=ask.tenant,
            profile=ask.profile.name,
            dialect=ask.dialect,
            request_id=ask.request_id,
            question=ask.question,
            conversation_id=uuid7() if creates else (ask.conversation_id if persist else None),
            creates=creates,
            lease_seconds=lease_seconds,
        )
        self.opening: asyncio.Task[None] | None = None
        self.ordinal: int | None = None
        self.steps: list[Step] = []
        self.plan: Plan | None = None
        self.answerable_threshold: float | None = None
        self.history: tuple[Message, ...] = ()
        self.embedding_model = ""
        self.embedding_tokens = 0
        self.provider = ""
        self.model = ""
        self.usage = TokenUsage()
        self.attempts = 0
        self.cost_usd: float | None = None
        self.not_found = False
        self.suggested_questions = 0
        self.closed = False
        self._control = control
        self._verifies = ask.profile.answer.verify_citations
        self._flags = ask.profile.answer.flag_uncited
        self._started = time.monotonic()
        self._first_token_ms: int | None = None
        self._texts: list[str] = []
        self._citations: tuple[Citation, ...] = ()
        self._checked: list[CheckedCitation] = []
        self._uncited: list[UncitedSentence] = []
        self._decided: Decided | None = None
        self._assessed: Assessed | None = None
        self._steps_shown = 0
        self._completed: Completed | None = None

    @property
    def answer(self) -> str:
        """The text so far."""
        return "".join(self._texts)

    @property
    def citations(self) -> tuple[Citation, ...]:
        """What was placed in the prompt; empty until that is known."""
        return self._citations

    def new_steps(self) -> tuple[Step, ...]:
        """Returns the steps that weren't returned before."""
        steps = tuple(self.steps[self._steps_shown :])
        self._steps_shown = len(self.steps)
        return steps

    def note(self, event: Event) -> None:
        """Takes note of an event that is about to be shown."""
        if type(event) is Tokens:
            if self._first_token_ms is None:
                seconds = time.monotonic() - self._started
                self._first_token_ms = round(seconds * 1000)
                note_first_text(self.exchange.profile, seconds)
            self._texts.extend(event.texts)
        elif type(event) is Citations:
            self._citations = event.citations
        elif type(event) is CheckedCitation:
            self._checked.append(event)
            count_citation(self.exchange.profile, event.verdict)
        elif type(event) is UncitedSentence:
            self._uncited.append(event)
            count_uncited(self.exchange.profile)
        elif type(event) is Decided:
            self._decided = event
        elif type(event) is Assessed:
            self._assessed = event

    def complete(self, completed: Completed) -> None:
        """Takes note of the generator's end."""
        self._completed = completed
        self.usage = self.usage.plus(completed.usage)
        self.attempts += completed.attempts
        self.not_found = completed.not_found
        self.suggested_questions = completed.suggested_questions
        if completed.provider:
            self.provider, self.model = completed.provider, completed.model

    def outcome(self) -> Outcome:
        """Returns what a client may know at the end."""
        conversation_id = self.exchange.conversation_id
        return Outcome(
            conversation_id=str(conversation_id) if conversation_id else None,
            exchange_id=str(self.exchange.exchange_id),
            profile=self.exchange.profile,
            provider=self.provider,
            model=self.model,
            finish_reason=self._completed.finish_reason if self._completed else "stop",
            not_found=self.not_found,
            cited=self._completed.cited if self._completed else (),
            steps=tuple(self.steps),
            answerable_score=self._completed.answerable_score if self._completed else None,
        )

    def closing(self, state: State, reason: str | None = None) -> Closing:
        """Returns how the chat is to be closed now."""
        usage = self.usage
        if state != "done" and self._completed is None and self.provider:
            usage = usage.plus(self._estimate())
        return Closing(
            state=state,
            reason=reason,
            ordinal=self.ordinal,
            discard=state != "done" and not self._control.committed,
            answer=_storable(self.answer),
            details=self._details(usage, ended=state == "done" or self._completed is not None),
            provider=self.provider,
            model=self.model,
            embedding_model=self.embedding_model,
            embedding_tokens=self.embedding_tokens,
            usage=usage,
            first_token_ms=self._first_token_ms,
        )

    def _estimate(self) -> TokenUsage:
        """A cut stream never reports what it spent."""
        prompt = len(self.exchange.question) // _CHARS_PER_TOKEN
        prompt += sum(citation.hit.chunk.token_count for citation in self._citations)
        return TokenUsage(prompt, -(-len(self.answer) // _CHARS_PER_TOKEN), estimated=True)

    def _details(self, usage: TokenUsage, *, ended: bool) -> dict[str, Any]:
        outcome = self.outcome()
        counts = usage_json(
            Usage(self.embedding_tokens, usage.prompt_tokens, usage.completion_tokens, cost_usd=self.cost_usd)
        )
        judged: dict[str, Any] = {}
        if self._decided is not None:
            judged["decision"] = decision_json(self._decided)
        if self._assessed is not None:
            judged["assessment"] = assessment_json(self._assessed)
        if self._verifies:
            judged["verified"] = [checked_json(checked) for checked in self._checked]
        if self._flags:
            judged["uncited"] = [uncited_json(uncited) for uncited in self._uncited]
        return judged | {
            "citations": [citation_json(citation) for citation in self._citations],
            "cited": list(outcome.cited),
            "usage": counts | ({"estimated": True} if usage.estimated else {}),
            "steps": [step_json(step) for step in self.steps],
            "provider": outcome.provider,
            "model": outcome.model,
            # One that was cut off has none: its state says what became of it.
            **({"finish_reason": outcome.finish_reason} if ended else {}),
            "not_found": outcome.not_found,
        }


def _storable(text: str) -> str:
    """Postgres keeps every character but NUL."""
    return text.replace("\x00", "\ufffd")
