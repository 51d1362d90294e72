"""The one way of an answer: choose the models, pack, say what was packed, stream, watch the text, complete."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from citewire_generator import metrics
from citewire_generator.answer import NotFoundGate
from citewire_generator.chain import Chain, LeaseProvider, open_chain
from citewire_generator.engine import Admitted, Began, Ended, Engine, Work
from citewire_generator.model import (
    Completed,
    Event,
    FinishReason,
    GenerateRequest,
    Grounding,
    Message,
    ModelInfo,
    Notice,
    PackedPassage,
    Started,
    Suggestions,
    SuggestRequest,
    TextDelta,
)
from citewire_generator.planning import AnswerPlan, ServiceLimits
from citewire_generator.providers.base import Delta, End
from citewire_generator.providers.extractive import NO_GENERAL_KNOWLEDGE
from citewire_generator.registry import Chosen, Registry
from citewire_generator.tokens import estimate_tokens
from citewire_generator.verification import AnswerVerifier
from citewire_kit.errors import CitewireError, Unavailable
from citewire_kit.telemetry import get_logger
from citewire_ledger import Purpose
from citewire_verify import MarkerFilter, Sentence, UncitedSentence, VerifiedCitation

log = get_logger(__name__)

SUGGESTION_TOKENS = 64
"""Most tokens of one suggested question."""


class _AnswerText:
    """What is done to the text of one answer on its way: the not-found sentence, then markers."""

    def __init__(self, began: Began, packed: tuple[PackedPassage, ...], request: GenerateRequest) -> None:
        policy = request.policy
        strict = policy.grounding is Grounding.STRICT
        # Quotations of documents aren't read for paraphrases: a document may say that something can't be found.
        quoting = not began.chosen.model.remote
        self._gate = NotFoundGate(policy.not_found_sentence, paraphrases=not quoting) if strict or quoting else None
        self.markers = MarkerFilter(policy.marker_style, len(packed))
        self._verifier: AnswerVerifier | None = None
        if policy.verify_citations or policy.flag_uncited:
            self._verifier = AnswerVerifier(policy, packed, known=(NO_GENERAL_KNOWLEDGE,))

    @property
    def not_found(self) -> bool:
        return self._gate is not None and self._gate.not_found

    @property
    def suggested_questions(self) -> int:
        return self._gate.suggested_questions if self._gate is not None else 0

    def completed_by(self, texts: tuple[str, ...], *, final: bool = False, broken: bool = False) -> list[Sentence]:
        """Returns the sentences that these texts, which were shown, complete; none unless they are asked for.

        Those that are left come with the last texts, or where the answer breaks off.
        """
        if self._verifier is None:
            return []
        found = self._verifier.feed("".join(texts), self.markers.take_markers())
        return found + self._verifier.finish(broken=broken) if final or broken else found

    async def judge(self, sentences: list[Sentence]) -> list[VerifiedCitation | UncitedSentence]:
        """Returns what is to be said of complete sentences."""
        return await self._verifier.verify(sentences, uncited=not self.not_found) if self._verifier else []

    def feed(self, delta: Delta) -> tuple[str, ...]:
        """Returns what may be shown of a delta's texts, entry by entry."""
        gate, markers = self._gate, self.markers
        shown: list[str] = []
        for text in delta.texts:
            passed = text if gate is None else gate.feed(text)
            if passed and (passed := markers.feed(passed)):
                shown.append(passed)
        return tuple(shown)

    def finish(self) -> str:
        """Returns what was still held back."""
        held = self._gate.finish() if self._gate else ""
        return (self.markers.feed(held) if held else "") + self.markers.finish()


class _AnswerWork(Work):
    """An answer, as the engine sees it."""

    purpose = Purpose.GENERATION

    def __init__(self, plan: AnswerPlan) -> None:
        self._plan = plan
        self.chain = plan.chain

    def stream(self, chosen: Chosen) -> AsyncGenerator[Delta | End, None]:
        return chosen.provider.stream(self._plan.task(chosen))

    def prompt_tokens(self) -> int:
        return self._plan.prompt_tokens

    def max_output_tokens(self, chosen: Chosen) -> int:
        return self._plan.task(chosen).max_completion_tokens or 0

    def messages(self, chosen: Chosen) -> Sequence[Message]:
        return self._plan.task(chosen).messages

    def trim(self) -> bool:
        return self._plan.trim()


class _SuggestionWork(Work):
    """Suggested questions: one event, which is the end."""

    purpose = Purpose.SUGGESTIONS

    def __init__(self, request: SuggestRequest, chain: Chain) -> None:
        self._request = request
        self.chain = chain
        self.found: Suggestions | None = None

    async def stream(self, chosen: Chosen) -> AsyncGenerator[Delta | End, None]:
        self.found = await chosen.provider.suggest(self._request, chosen.model.name)
        yield End(FinishReason.STOP, self.found.usage)

    def prompt_tokens(self) -> int:
        return estimate_tokens(self._request.question) + sum(
            one.token_count or estimate_tokens(one.text) for one in self._request.passages
        )

    def max_output_tokens(self, chosen: Chosen) -> int:
        return SUGGESTION_TOKENS * self._request.count


class Generator:
    """Writes answers and suggests questions.

    Args:
        registry: The operator's models.
        limits: Defaults of requests.
        engine: Makes the calls.
        lease: Opens tenant providers; None if this process takes none.
    """

    def __init__(
        self,
        registry: Registry,
        limits: ServiceLimits | None = None,
        *,
        engine: Engine | None = None,
        lease: LeaseProvider | None = None,
    ) -> None:
        self._registry = registry
        self._limits = limits or ServiceLimits()
        self._engine = engine or Engine()
        self._lease = lease

    def models(self) -> list[ModelInfo]:
        """The models offered, the default first."""
        return self._registry.models()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        """Streams an answer: `Started`, notices and text, `Completed`.

        `Started` says what is cited, so it comes as soon as nothing can change that any more and no budget refuses the
        call: before the provider's first word, or with it where a provider may still find the prompt too long.

        Closing the generator stops the provider.

        Raises:
            CitewireError: The request can't be served, or the provider failed; then there is no `Completed`.
        """
        async with open_chain(self._registry, self._lease, request) as chain:
            plan = AnswerPlan(request, chain, self._limits)
            shown = False
            early: list[Notice] = []
            began: Began | None = None
            text: _AnswerText | None = None
            async with aclosing(self._engine.run(_AnswerWork(plan))) as events:
                try:
                    async for event in events:
                        # Deltas first: there is one per token, and one of all others.
                        if isinstance(event, Delta) and text is not None:
                            if texts := text.feed(event):
                                yield TextDelta(texts)
                                if sentences := text.completed_by(texts):
                                    for found in await text.judge(sentences):
                                        yield found
                        elif isinstance(event, Notice):
                            if shown:
                                yield event
                            else:
                                early.append(event)
                        elif isinstance(event, Admitted):
                            if not plan.may_overflow:
                                shown = True
                                for first in (*_beginning(plan, event.chosen), *early):
                                    yield first
                        elif isinstance(event, Began):
                            if not shown:
                                for first in (*_beginning(plan, event.chosen), *early):
                                    yield first
                            began, text = event, _AnswerText(event, plan.packed.passages, request)
                        elif isinstance(event, Ended) and began is not None and text is not None:
                            if rest := text.finish():
                                yield TextDelta((rest,))
                            for found in await text.judge(text.completed_by((rest,), final=True)):
                                yield found
                            yield _completed(plan, began, text, event)
                            return
                    raise Unavailable("the answer has no end", reason="PROVIDER_STREAM_BROKEN")
                except CitewireError:
                    # What was sent before the provider failed is kept, so it is verified too.
                    if text is not None:
                        for found in await text.judge(text.completed_by((), broken=True)):
                            yield found
                    raise

    async def suggest(self, request: SuggestRequest) -> Suggestions:
        """Suggests questions that the passages answer.

        Raises:
            CitewireError: There is no such model, or the provider failed.
        """
        async with open_chain(self._registry, self._lease, request) as chain:
            work = _SuggestionWork(request, chain)
            async with aclosing(self._engine.run(work)) as events:
                async for _ in events:
                    pass
        return work.found or Suggestions(())


def _beginning(plan: AnswerPlan, chosen: Chosen) -> tuple[Event, ...]:
    plan.settle()
    return Started(chosen.provider.name, chosen.model.name, plan.packed.passages), *plan.notices


def _completed(plan: AnswerPlan, began: Began, text: _AnswerText, ended: Ended) -> Completed:
    chosen, usage = began.chosen, ended.usage
    completed = Completed(
        usage=usage,
        finish_reason=ended.end.finish_reason,
        attempts=began.attempts,
        not_found=ended.end.not_found or text.not_found,
        suggested_questions=text.suggested_questions,
        invalid_markers=text.markers.invalid,
        cited=text.markers.cited,
        provider=chosen.provider.name,
        model=chosen.model.name,
        answerable_score=ended.end.answerable_score,
    )
    metrics.CITED.inc(len(completed.cited))
    metrics.INVALID.inc(completed.invalid_markers)
    metrics.REMOVED.inc(text.markers.removed)
    (metrics.ANSWERS_NOT_FOUND if completed.not_found else metrics.ANSWERS_FOUND).inc()
    log.info(
        "answer_completed",
        provider=chosen.provider.name,
        model=chosen.model.name,
        attempts=began.attempts,
        packed=len(plan.packed.passages),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        estimated=usage.estimated,
        finish_reason=ended.end.finish_reason.name,
        not_found=completed.not_found,
        cited=len(completed.cited),
        invalid_markers=completed.invalid_markers,
        removed_markers=text.markers.removed,
    )
    return completed
