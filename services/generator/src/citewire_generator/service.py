"""The path of an answer: select models, pack, announce citations, stream, verify, complete."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator import metrics
from citewire_generator.abilities import able_models
from citewire_generator.answer import DELTA_COST, SLICE, AnswerText, slices_of
from citewire_generator.engine import Admitted, Began, Ended, Engine, EngineEvent, Work
from citewire_generator.model import FINISH_REASONS, Event, FinishReason, Message, ModelInfo, Suggestions
from citewire_generator.planning import AnswerPlan
from citewire_generator.providers.base import Delta, End
from citewire_generator.registry import Chain, ChatModel, ModelRoute, Registry
from citewire_generator.structured import StructuredAnswer
from citewire_generator.suggestions import name_topics, suggest_from_passages
from citewire_generator.tokens import estimate_tokens
from citewire_kit import deadline
from citewire_kit.errors import CitewireError, Unavailable
from citewire_kit.telemetry import get_logger
from citewire_kit.turns import in_turn
from citewire_ledger import Purpose

log = get_logger(__name__)

SUGGESTION_TOKENS = 64
"""Maximum tokens of one suggested question."""
MIN_SUGGESTIONS = 2
"""Number of a model's questions below which questions from the passages' topics are added."""
SUGGESTION_MARGIN_SECONDS = 0.5
"""Part of the caller's time reserved for questions from topics, if the model takes too long."""


class Generator:
    """Writes answers and suggests questions.

    Args:
        registry: The models.
        engine: Makes the calls.
        max_completion_tokens: Limit of an answer if the request doesn't set one.
    """

    def __init__(self, registry: Registry, engine: Engine | None = None, max_completion_tokens: int = 2048) -> None:
        self._registry = registry
        self._engine = engine or Engine()
        self._max_completion_tokens = max_completion_tokens

    def models(self) -> list[ModelInfo]:
        """The models offered, the default first."""
        return self._registry.models()

    async def generate(
        self, request: pb.GenerateRequest, history: Sequence[Message] = (), route: ModelRoute | None = None
    ) -> AsyncGenerator[Event, None]:
        """Streams an answer: `Started`, notices and text, `Completed`.

        `Started` contains the citations, so it is sent as soon as these can't change any more and no budget rejects
        the call: before the provider's first word, or with it if a provider may still reject the prompt as too long.

        Closing the generator stops the provider.

        Args:
            request: The request, completed by the converters.
            history: The earlier messages, oldest first.
            route: The models that may answer.

        Raises:
            CitewireError: The request can't be served, or the provider failed; then there is no `Completed`.
        """
        async with self._run(request, history, route or ModelRoute()) as (plan, events):
            opening = _Opening(plan)
            async for event in events:
                for message in opening.feed(event):
                    yield message
                if isinstance(event, Began):
                    break
            began = opening.began
            if began is None:
                raise _no_end()
            quoted = not began.chat_model.model.remote
            text: AnswerText | StructuredAnswer = AnswerText(request.policy, plan.context.citations, quoted=quoted)
            if request.HasField("format"):
                text = StructuredAnswer(request, plan.context.citations)
            ended: EngineEvent = began
            work_done = 0
            try:
                async for event in events:
                    if not isinstance(event, Delta):
                        ended = event
                        break
                    for texts in slices_of(event.texts):
                        if work_done > SLICE:
                            await asyncio.sleep(0)  # yields to others, however the provider split its text
                            work_done = 0
                        work_done += DELTA_COST + sum(map(len, texts))
                        if shown := text.feed(texts):
                            yield pb.TextDelta(texts=shown)
                        for message in await text.verify() if text.sentences else ():
                            yield message
                    for piece in event.tool_calls:
                        yield piece
                if not isinstance(ended, Ended):
                    raise _no_end()
            except CitewireError:
                if rest := text.abort():
                    yield pb.TextDelta(texts=[rest])
                for message in await text.verify():
                    yield message
                raise
            await asyncio.sleep(0)  # the end takes as long as a slice
            # Text was processed as it arrived; JSON is processed now, which may take a second.
            in_json = isinstance(text, StructuredAnswer)
            if rest := await in_turn(text.finish, ended.end) if in_json else text.finish(ended.end):
                yield pb.TextDelta(texts=[rest])
            for message in await text.verify():
                yield message
            yield _completed(plan, began, text, ended)

    async def suggest(self, request: pb.SuggestQuestionsRequest, route: ModelRoute | None = None) -> Suggestions:
        """Suggests questions that the passages can answer; without a model in time, from their topics.

        Raises:
            CitewireError: There is no such model.
        """
        async with self._registry.open_chain(route or ModelRoute()) as chain:
            work = _SuggestionWork(request, chain)
            suggestions = await self._ask_for_suggestions(work)
        given, passages, language = suggestions.questions, request.passages, request.language
        if not work.by_rule and len(given) < min(MIN_SUGGESTIONS, request.count):
            avoid = request.question
            topics = await in_turn(suggest_from_passages, passages, request.count, avoid=avoid, language=language)
            given = tuple(dict.fromkeys((*given, *topics)))[: request.count]
            suggestions = replace(suggestions, questions=given, fallback=True)
        if len(given) < request.minimum:
            known = (request.question, *given)
            named = await in_turn(name_topics, passages, request.count - len(given), avoid=known, language=language)
            suggestions = replace(suggestions, questions=(*given, *named))
        return suggestions

    async def _ask_for_suggestions(self, work: "_SuggestionWork") -> Suggestions:
        """A model's suggestions; nothing if none responds within the caller's time."""
        left = deadline.remaining()
        scope = asyncio.timeout(None if left is None else max(left - SUGGESTION_MARGIN_SECONDS, 0.0))
        try:
            async with scope, aclosing(self._engine.run(work)) as events:
                async for _ in events:
                    pass
        except TimeoutError:
            if not scope.expired():
                raise
            log.warning("suggestions_late")
        except CitewireError as exc:
            log.warning("suggestions_failed", reason=exc.reason)
        return work.suggestions

    @asynccontextmanager
    async def _run(
        self, request: pb.GenerateRequest, history: Sequence[Message], route: ModelRoute
    ) -> AsyncGenerator[tuple[AnswerPlan, AsyncGenerator[EngineEvent, None]]]:
        """Plans the prompt and starts the call; leaving the block stops it."""
        async with self._registry.open_chain(route) as chain:
            able = able_models(request, chain)
            plan = AnswerPlan(request, history, able, self._max_completion_tokens)
            async with aclosing(self._engine.run(_AnswerWork(plan))) as events:
                yield plan, events


class _Opening:
    """Events before the first token: `Started` once its citations are fixed, followed by notices."""

    def __init__(self, plan: AnswerPlan) -> None:
        self._plan = plan
        self._early: list[pb.Notice] = []
        self._started = False
        self.began: Began | None = None

    def feed(self, event: EngineEvent) -> Sequence[Event]:
        """Takes an engine event and returns the events to send now."""
        if isinstance(event, pb.Notice):
            if self._started:
                return (event,)
            self._early.append(event)
        elif isinstance(event, Began):
            self.began = event
            return () if self._started else self._start(event.chat_model)
        elif isinstance(event, Admitted) and not self._plan.may_overflow:
            return self._start(event.chat_model)
        return ()

    def _start(self, chat_model: ChatModel) -> Sequence[Event]:
        self._started = True
        self._plan.settle()
        citations = [
            pb.Citation(number=citation.number, passage_index=citation.index, chars=len(citation.text))
            for citation in self._plan.context.citations
        ]
        started = pb.Started(provider=chat_model.provider.name, model=chat_model.model.name, citations=citations)
        return (started, *self._plan.notices, *self._early)


class _AnswerWork(Work):
    """An answer as an engine task."""

    purpose = Purpose.GENERATION

    def __init__(self, plan: AnswerPlan) -> None:
        self._plan = plan
        self.chain = plan.chain
        self.expects_text = plan.expects_text

    def stream(self, chat_model: ChatModel) -> AsyncGenerator[Delta | End, None]:
        return chat_model.provider.stream(self._plan.task(chat_model))

    def prompt_tokens(self) -> int:
        return self._plan.prompt_tokens

    def max_output_tokens(self, chat_model: ChatModel) -> int:
        return self._plan.task(chat_model).max_completion_tokens or 0

    def messages(self, chat_model: ChatModel) -> Sequence[Message]:
        return self._plan.task(chat_model).messages

    def trim(self) -> bool:
        return self._plan.trim()


class _SuggestionWork(Work):
    """Suggested questions as an engine task: one event, which is the end."""

    purpose = Purpose.SUGGESTIONS

    def __init__(self, request: pb.SuggestQuestionsRequest, chain: Chain) -> None:
        self._request = request
        self.chain = chain
        self.suggestions = Suggestions()
        self.by_rule = False
        """Whether the suggestions don't come from a language model."""

    async def stream(self, chat_model: ChatModel) -> AsyncGenerator[Delta | End, None]:
        self.by_rule = not chat_model.model.remote
        self.suggestions = await chat_model.provider.suggest(self._request, chat_model.model.name)
        yield End(FinishReason.STOP, self.suggestions.usage)

    def prompt_tokens(self) -> int:
        return estimate_tokens(self._request.question) + sum(
            passage.token_count or estimate_tokens(passage.text) for passage in self._request.passages
        )

    def max_output_tokens(self, chat_model: ChatModel) -> int:
        return SUGGESTION_TOKENS * self._request.count


def _no_end() -> CitewireError:
    return Unavailable("the answer has no end", reason="PROVIDER_STREAM_BROKEN")


def _completed(plan: AnswerPlan, began: Began, text: AnswerText | StructuredAnswer, ended: Ended) -> pb.Completed:
    chat_model, usage, markers = began.chat_model, ended.usage, text.markers
    not_found = ended.end.not_found or text.not_found
    metrics.CITED.inc(len(markers.cited))
    metrics.INVALID.inc(markers.invalid)
    metrics.REMOVED.inc(markers.removed)
    (metrics.ANSWERS_NOT_FOUND if not_found else metrics.ANSWERS_FOUND).inc()
    log.info(
        "answer_completed",
        provider=chat_model.provider.name,
        model=chat_model.model.name,
        attempts=began.attempts,
        citations=len(plan.context.citations),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        estimated=usage.estimated,
        finish_reason=ended.end.finish_reason.value,
        not_found=not_found,
        cited=len(markers.cited),
        invalid_markers=markers.invalid,
        removed_markers=markers.removed,
    )
    return pb.Completed(
        usage=usage.to_proto(),
        finish_reason=FINISH_REASONS.to_proto(ended.end.finish_reason),
        attempts=began.attempts,
        not_found=not_found,
        suggested_questions=text.suggested_questions,
        invalid_markers=markers.invalid,
        cited_numbers=markers.cited,
        provider=chat_model.provider.name,
        model=chat_model.model.name,
        answerable_score=ended.end.answerable_score,
        refusal=text.refusal,
    )
