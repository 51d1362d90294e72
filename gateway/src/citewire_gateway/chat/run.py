"""A chat run: its input, how it may be stopped, and its data for the exchange and the outcome."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

from citewire_accounts.tenants.providers import OPERATOR_ROUTE, ModelRoute
from citewire_dialects.events import (
    Assessment,
    Citation,
    Citations,
    Decision,
    Event,
    Outcome,
    Step,
    Tokens,
    UncitedSentence,
    VerifiedCitation,
)
from citewire_dialects.profile import EventType, Persist, Profile
from citewire_gateway.chat.records import Exchange
from citewire_gateway.chat.steps import path_step
from citewire_gateway.metrics import CITATIONS, FIRST_TEXT, UNCITED_SENTENCES, profile_label
from citewire_http.runs.recorder import Recorder
from citewire_http.supervision import StreamControl
from citewire_kit.enums import enum_text
from citewire_kit.ids import uuid7
from citewire_kit.tenant import Tenant

CHARS_PER_TOKEN = 4  # approximate, and marked as an estimate wherever it is used


@dataclass(frozen=True, slots=True)
class ChatInput:
    """A chat run's input: the question, and how to answer it according to the request and its profile."""

    tenant: Tenant
    profile: Profile
    question: str
    scope: retriever_pb2.Scope
    """The scope of the search. The selection is the request's; the profile determines what an empty one means."""
    top_k: int
    min_score: float | None
    dialect: str
    """Name of the wire format, for records and metrics."""
    request_id: str
    messages: tuple[generator_pb2.Message, ...] = ()
    """The conversation from the request, the question last; empty if there was only a question."""
    conversation_id: UUID | None = None
    """The conversation to continue; None creates one, if the profile stores conversations."""
    model: str = ""
    """The chat model; "" for the default."""
    temperature: float | None = None
    """0–2; None leaves it to the provider."""
    passed_on: generator_pb2.GenerateRequest = field(default_factory=generator_pb2.GenerateRequest)
    """Parts of the request passed to the generator unchanged: format, tools, sampling, images."""
    brought: tuple[retriever_pb2.SearchResult, ...] = ()
    """The request's own passages, without documents; they come before search results."""
    embedding_model: str = ""
    """The operator's model that embeds the question; "" for the default."""
    route: ModelRoute = OPERATOR_ROUTE
    """The providers for its calls."""
    keep: bool = False
    """Whether to store the chat as a conversation, if the profile leaves that to the request."""
    min_score_calibrated: bool = False
    """Whether the searched space's threshold replaces `min_score`, if it is known."""
    time_zone: str = ""
    """IANA name of the time zone of the question's days; "" means UTC."""
    run_id: UUID = field(default_factory=uuid7)
    """Id of the run and of its exchange."""
    creates: bool = False
    """Whether `conversation_id` belongs to a conversation to be created."""
    shown: frozenset[EventType] = frozenset()
    """The events that may be shown to a reader."""
    grace_seconds: float = 0.0
    """How long it continues without a reader; infinite if it needs none."""
    kept_for_key: bool = False
    """Whether its answer is stored for an Idempotency-Key."""
    request: Mapping[str, Any] | None = None
    """Request parameters to be stored with the answer, for an API that returns them with it; None for none."""

    @property
    def stored(self) -> bool:
        """Whether its events are stored for later readers."""
        return self.kept_for_key or self.grace_seconds > 0

    @property
    def needs_model(self) -> bool:
        """Whether a fixed sentence can't be the answer, because JSON is requested or tools may find the answer."""
        return self.passed_on.HasField("format") or self.passed_on.HasField("tools")

    @property
    def persists(self) -> bool:
        """Whether question and answer are stored in a conversation."""
        if self.profile.persist is Persist.ON_REQUEST:
            return self.keep or self.conversation_id is not None
        return self.profile.persist is Persist.ALWAYS


class ChatRun:
    """One pass of the pipeline, with the data to be stored about it."""

    def __init__(
        self, chat: ChatInput, control: StreamControl, lease_seconds: float, keep_seconds: float = 0.0
    ) -> None:
        persist = chat.persists
        creates = persist and (chat.creates or chat.conversation_id is None)
        self.chat = chat
        self.control = control
        self.exchange = Exchange(
            exchange_id=chat.run_id,
            tenant=chat.tenant,
            profile=chat.profile.name,
            dialect=chat.dialect,
            request_id=chat.request_id,
            question=chat.question,
            conversation_id=(chat.conversation_id or uuid7()) if persist else None,
            creates=creates,
            lease_seconds=lease_seconds,
            shown=sorted(chat.shown) if chat.stored else None,
            keep_seconds=keep_seconds,
        )
        self.opening: asyncio.Task[None] | None = None
        self.recorder: Recorder[Event] | None = None
        """Stores its events, if they are stored."""
        self.decided = asyncio.Event()
        """Set once it is known whether the question needs retrieval."""
        self.ordinal: int | None = None
        self.steps: list[Step] = []
        self.plan: retriever_pb2.PlanResponse | None = None
        self.listing: retriever_pb2.ItemListing | None = None
        """The list of documents that the question asks for; None if it doesn't."""
        self.answerable_threshold: float | None = None
        self.history: tuple[generator_pb2.Message, ...] = ()
        self.embedding_model = ""
        self.embedding_tokens = 0
        self.provider = ""
        self.model = ""
        self.usage = generator_pb2.TokenUsage()
        self.attempts = 0
        self.cost_usd: float | None = None
        self.not_found = False
        self.suggested_questions = 0
        self.closed = False
        self.citations: tuple[Citation, ...] = ()
        """The passages in the prompt; empty until they are known."""
        self.completed: generator_pb2.Completed | None = None
        self.first_token_ms: int | None = None
        """Milliseconds from the request to the first token; None if there was none."""
        self.verified: list[VerifiedCitation] = []
        self.uncited: list[UncitedSentence] = []
        self.decision: Decision | None = None
        self.assessment: Assessment | None = None
        self._metrics_profile = profile_label(self.exchange.profile)
        self._started = time.monotonic()
        self._texts: list[str] = []
        self._steps_shown = 0
        self._path_step: Step | None = None

    @property
    def answer(self) -> str:
        """The text so far."""
        return "".join(self._texts)

    @property
    def path(self) -> str | None:
        """Name of the context path; None until it is known."""
        if self._path_step is not None:
            return self._path_step.path
        return None if self.plan is None else enum_text(retriever_pb2.ContextPath, self.plan.path)

    def new_steps(self) -> tuple[Step, ...]:
        """Returns the new steps; if there is a context path, each includes it and the counts."""
        if self.has_path and self._path_step is None:
            return ()  # they wait until the model's passages are known
        if (path := self._path_step) is not None:
            self.steps = [
                step if step.path is not None else replace(step, path=path.path, counts=path.counts)
                for step in self.steps
            ]
        steps = tuple(self.steps[self._steps_shown :])
        self._steps_shown = len(self.steps)
        return steps

    def add_path_step(self, counts: retriever_pb2.ScopeCounts | None, given: int, matches: int) -> None:
        """Adds a step about the context path, if there was a choice, and how many items the model was given.

        Args:
            counts: Counts of whole items; None if there was a search.
            given: Number of items in the prompt.
            matches: Number of items that the search found.
        """
        if self.plan is not None and self.has_path:
            in_scope = counts or self.plan.counts
            self._path_step = path_step(self.plan, in_scope, given, matches if counts is None else in_scope.items)
            self.steps.append(self._path_step)

    @property
    def has_path(self) -> bool:
        """Whether there was a choice of context paths, and one has been taken."""
        return self.plan is not None and self.chat.profile.strategy != retriever_pb2.STRATEGY_SEMANTIC

    def add_usage(self, usage: generator_pb2.TokenUsage) -> None:
        """Adds a call's usage."""
        add_usage(self.usage, usage)

    def note(self, event: Event) -> None:
        """Records an event that is about to be shown."""
        if type(event) is Tokens:
            if self.first_token_ms is None:
                seconds = time.monotonic() - self._started
                self.first_token_ms = round(seconds * 1000)
                FIRST_TEXT.labels(self._metrics_profile).observe(seconds)
            self._texts.extend(event.texts)
        elif type(event) is Citations:
            self.citations = event.citations
        elif type(event) is VerifiedCitation:
            self.verified.append(event)
            CITATIONS.labels(event.verdict, self._metrics_profile).inc()
        elif type(event) is UncitedSentence:
            self.uncited.append(event)
            UNCITED_SENTENCES.labels(self._metrics_profile).inc()
        elif type(event) is Decision:
            self.decision = event
        elif type(event) is Assessment:
            self.assessment = event

    def complete(self, completed: generator_pb2.Completed) -> None:
        """Records the generator's `Completed`."""
        self.completed = completed
        self.add_usage(completed.usage)
        self.attempts += completed.attempts
        self.not_found = completed.not_found
        self.suggested_questions = completed.suggested_questions
        if completed.provider:
            self.provider, self.model = completed.provider, completed.model

    def final_usage(self, *, done: bool) -> generator_pb2.TokenUsage:
        """Returns the run's final usage. A stream that was cut off doesn't report it, so that part is estimated."""
        usage = generator_pb2.TokenUsage()
        usage.CopyFrom(self.usage)
        if not done and self.completed is None and self.provider:
            prompt = len(self.exchange.question) // CHARS_PER_TOKEN
            prompt += sum(citation.chunk.token_count for citation in self.citations)
            completion = -(-len(self.answer) // CHARS_PER_TOKEN)
            estimate = generator_pb2.TokenUsage(prompt_tokens=prompt, completion_tokens=completion, estimated=True)
            add_usage(usage, estimate)
        return usage

    def outcome(self) -> Outcome:
        """Returns the final information for a client."""
        conversation_id, completed = self.exchange.conversation_id, self.completed
        outcome = Outcome(
            conversation_id=str(conversation_id) if conversation_id else None,
            exchange_id=str(self.exchange.exchange_id),
            profile=self.exchange.profile,
            provider=self.provider,
            model=self.model,
            not_found=self.not_found,
            steps=tuple(self.steps),
        )
        if completed is None:
            return outcome
        return replace(
            outcome,
            finish_reason=enum_text(generator_pb2.FinishReason, completed.finish_reason),
            cited=tuple(completed.cited_numbers),
            answerable_score=completed.answerable_score if completed.HasField("answerable_score") else None,
            refusal=completed.refusal,
        )


def add_usage(total: generator_pb2.TokenUsage, usage: generator_pb2.TokenUsage) -> None:
    """Adds `usage` to `total`; the sum is an estimate if a part is."""
    total.prompt_tokens += usage.prompt_tokens
    total.cached_prompt_tokens += usage.cached_prompt_tokens
    total.cache_write_prompt_tokens += usage.cache_write_prompt_tokens
    total.completion_tokens += usage.completion_tokens
    total.estimated |= usage.estimated
