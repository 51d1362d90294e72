"""The one way of an answer: choose the model, pack, say what was packed, stream, watch the text, complete."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from citewire_generator import metrics
from citewire_generator.answer import NotFoundGate
from citewire_generator.calls import Call
from citewire_generator.markers import MarkerFilter
from citewire_generator.model import (
    Completed,
    Event,
    GenerateRequest,
    Grounding,
    ModelInfo,
    Notice,
    Started,
    Suggestions,
    SuggestRequest,
    TextDelta,
    Usage,
)
from citewire_generator.packing import MARGIN, Budget, Packed, pack
from citewire_generator.prompts import build_messages
from citewire_generator.providers.base import ChatTask, Delta, End
from citewire_generator.registry import Chosen, Registry
from citewire_generator.tokens import estimate_messages
from citewire_kit.errors import InvalidArgument, Unavailable
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """What an answer may take where its request doesn't say."""

    max_completion_tokens: int = 2048


@dataclass(frozen=True, slots=True)
class _Plan:
    """An answer that is ready to be written."""

    chosen: Chosen
    packed: Packed
    task: ChatTask
    notices: tuple[Notice, ...]


class _AnswerText:
    """What is done to the text of one answer on its way: the not-found sentence, then markers."""

    def __init__(self, plan: _Plan, request: GenerateRequest) -> None:
        policy = request.policy
        strict = policy.grounding is Grounding.STRICT
        # Quotations of documents aren't read for paraphrases: a document may say that something can't be found.
        quoting = not plan.chosen.model.remote
        self._gate = NotFoundGate(policy.not_found_sentence, paraphrases=not quoting) if strict or quoting else None
        self.markers = MarkerFilter(policy.marker_style, len(plan.packed.passages))

    @property
    def not_found(self) -> bool:
        return self._gate is not None and self._gate.not_found

    @property
    def suggested_questions(self) -> int:
        return self._gate.suggested_questions if self._gate is not None else 0

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


class Generator:
    """Writes answers and suggests questions.

    Args:
        registry: The models.
        limits: Defaults of requests.
    """

    def __init__(self, registry: Registry, limits: ServiceLimits | None = None) -> None:
        self._registry = registry
        self._limits = limits or ServiceLimits()

    def models(self) -> list[ModelInfo]:
        """The models offered, the default first."""
        return self._registry.models()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        """Streams an answer: `Started`, notices and text, `Completed`.

        Closing the generator stops the provider.

        Raises:
            CitewireError: The request can't be served, or the provider failed; then there is no `Completed`.
        """
        plan = self._plan(request)
        yield Started(plan.chosen.provider.name, plan.chosen.model.name, plan.packed.passages)
        for notice in plan.notices:
            yield notice
        text = _AnswerText(plan, request)
        call = Call(plan.chosen, plan.task.messages)
        end: End | None = None
        with call.measured():
            async with aclosing(plan.chosen.provider.stream(plan.task)) as events:
                async for event in events:
                    if isinstance(event, End):
                        end = event
                        break
                    call.received(event.texts)
                    if texts := text.feed(event):
                        yield TextDelta(texts)
            if end is None:
                raise Unavailable("the model provider's stream broke: it has no end", reason="PROVIDER_STREAM_BROKEN")
            if rest := text.finish():
                yield TextDelta((rest,))
            usage = call.settle(end.usage)
        yield self._completed(plan, text, end, usage)

    async def suggest(self, request: SuggestRequest) -> Suggestions:
        """Suggests questions that the passages answer.

        Raises:
            CitewireError: There is no such model, or the provider failed.
        """
        chosen = self._registry.choose(request.model)
        call = Call(chosen, ())
        with call.measured():
            suggestions = await chosen.provider.suggest(request, chosen.model.name)
            call.settle(suggestions.usage)
        return suggestions

    def _plan(self, request: GenerateRequest) -> _Plan:
        chosen = self._registry.choose(request.model)
        limit = request.max_completion_tokens
        if limit is None and chosen.model.remote:
            limit = self._limits.max_completion_tokens
        if limit is not None and chosen.model.max_completion_tokens:
            limit = min(limit, chosen.model.max_completion_tokens)
        request, tokens, notices = _fit(request, chosen.model, limit or 0)
        policy = request.policy
        asked = policy.max_context_tokens or None
        budget = Budget(
            chars=policy.max_context_chars or None,
            tokens=min((value for value in (asked, tokens) if value is not None), default=None),
        )
        packed = pack(request.passages, policy.context_format, budget)
        task = ChatTask(
            model=chosen.model.name,
            messages=build_messages(request, packed.context),
            question=request.question,
            packed=packed.passages,
            policy=policy,
            max_completion_tokens=limit,
            temperature=request.temperature,
        )
        return _Plan(chosen, packed, task, (*notices, *packed.notices))

    def _completed(self, plan: _Plan, text: _AnswerText, end: End, usage: Usage) -> Completed:
        completed = Completed(
            usage=usage,
            finish_reason=end.finish_reason,
            attempts=1 if plan.chosen.model.remote else 0,
            not_found=end.not_found or text.not_found,
            suggested_questions=text.suggested_questions,
            invalid_markers=text.markers.invalid,
            cited=text.markers.cited,
        )
        metrics.CITED.inc(len(completed.cited))
        metrics.INVALID.inc(completed.invalid_markers)
        metrics.REMOVED.inc(text.markers.removed)
        (metrics.ANSWERS_NOT_FOUND if completed.not_found else metrics.ANSWERS_FOUND).inc()
        log.info(
            "answer_completed",
            provider=plan.chosen.provider.name,
            model=plan.chosen.model.name,
            packed=len(plan.packed.passages),
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            estimated=usage.estimated,
            finish_reason=end.finish_reason.name,
            not_found=completed.not_found,
            cited=len(completed.cited),
            invalid_markers=completed.invalid_markers,
            removed_markers=text.markers.removed,
        )
        return completed


def _fit(
    request: GenerateRequest, model: ModelInfo, completion: int
) -> tuple[GenerateRequest, int | None, tuple[Notice, ...]]:
    """Finds what the model's window leaves for the context, leaving out the oldest messages where it must.

    Returns:
        The request with the history that fits, the tokens that are left (None without a window), and notices.

    Raises:
        InvalidArgument: Not even the question fits.
    """
    if not model.context_window:
        return request, None, ()
    room = int(model.context_window * MARGIN) - completion
    history = list(request.history)
    fixed = [message for message in build_messages(replace(request, history=()), "\n") if message.content]
    left = room - estimate_messages(fixed)
    if left < 0:
        raise InvalidArgument(
            "the question and its instructions don't fit the model's context window with this max_completion_tokens",
            reason="CONTEXT_TOO_LONG",
            metadata={"context_window": str(model.context_window)},
        )
    dropped = 0
    # Passages are what is asked about: history leaves them half of the room at least.
    for_history = left // 2 if request.passages else left
    while history and estimate_messages(history) > for_history:
        history.pop(0)
        dropped += 1
    notices: tuple[Notice, ...] = ()
    if dropped:
        text = f"{dropped} of {dropped + len(history)} earlier messages don't fit the model's window and were left out."
        notices = (Notice("context_trimmed", text),)
    return replace(request, history=tuple(history)), left - estimate_messages(history), notices
