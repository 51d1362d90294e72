"""The one orchestration: every chat of every profile goes through `ChatPipeline.run`.

The profile says how; no branch here knows a system's name. Events come in the order in which dialects write them.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from citewire_gateway.background import Aftermath
from citewire_gateway.chat.context import ContextFinder
from citewire_gateway.chat.events import (
    Assessed,
    CheckedCitation,
    Citation,
    Citations,
    ConversationCreated,
    Decided,
    Done,
    Event,
    EventType,
    Sources,
    Step,
    Tokens,
    UncitedSentence,
    Usage,
)
from citewire_gateway.chat.record import ChatRecord
from citewire_gateway.chat.records import Records, State
from citewire_gateway.chat.reflection import Reflection
from citewire_gateway.chat.retrieval import Retrieved, both
from citewire_gateway.chat.run import Ask, RunControl
from citewire_gateway.chat.speculation import Ahead, drop
from citewire_gateway.chat.steps import (
    finish_step,
    no_match_answer,
    path_step,
    suggestions_failed_step,
    suggestions_text,
)
from citewire_gateway.clients.domain import Hit, ScopeCounts, Strategy
from citewire_gateway.clients.generation import (
    Completed,
    Delta,
    GenerateEvent,
    GenerateQuery,
    Notice,
    Started,
    Suggestions,
)
from citewire_gateway.clients.ports import Costs, Embedder, Generator, Retriever
from citewire_gateway.clients.verified import Uncited, Verified
from citewire_gateway.profiles.model import NoMatch, ProfileModels
from citewire_gateway.tenants.accounts import to_usd
from citewire_kit.errors import CitewireError, Internal
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import CallContext, enter_call_context

log = get_logger(__name__)

_COST_SECONDS = 0.5

_NO_MODELS: Final[Mapping[str, ProfileModels]] = MappingProxyType({})


class ChatPipeline:
    """Runs chats over the three services and keeps their records."""

    def __init__(
        self,
        *,
        embedder: Embedder,
        retriever: Retriever,
        generator: Generator,
        records: Records,
        aftermath: Aftermath,
        lease_seconds: float,
        costs: Costs | None = None,
        models: Mapping[str, ProfileModels] = _NO_MODELS,
    ) -> None:
        """Takes what it works with; `models` are those of profiles that have their own, by the profile's name.

        `lease_seconds`: after which a chat that nobody closed counts as lost. Without `costs` none is shown.
        """
        self._models = models
        self._costs = costs
        self._generator = generator
        self._records = records
        self._aftermath = aftermath
        self._lease_seconds = lease_seconds
        self._reflection = Reflection(generator)
        self._contexts = ContextFinder(embedder, retriever, records, self._reflection)

    async def run(self, ask: Ask, control: RunControl) -> AsyncGenerator[Event, None]:
        """Streams a chat's events; `Done` is the last one, and comes only after everything is kept.

        Close it (or cancel the task that iterates it) to stop the chat: calls to services are cancelled at once, and
        what was shown so far is kept.

        Raises:
            CitewireError: The chat failed, before or between events.
        """
        ask = with_models(ask, self._models.get(ask.profile.name))
        record = ChatRecord(ask, control, self._lease_seconds)
        record.opening = asyncio.create_task(self._records.open(record.exchange))
        enter_call_context(CallContext(ask.profile.name, str(record.exchange.exchange_id)))
        try:
            async with aclosing(self._answer(ask, record)) as events:
                async for event in events:
                    record.note(event)
                    yield event
            await self._close(record, "done")
            yield Done(record.outcome())
        except (asyncio.CancelledError, GeneratorExit):
            await self._close(record, "cancelled", control.cause)
            raise
        except CitewireError as exc:
            await self._close(record, "failed", exc.reason)
            raise
        except Exception as exc:
            log.exception("chat_failed")
            await self._close(record, "failed", "INTERNAL")
            raise Internal("something went wrong on our side; the log has the details", reason="INTERNAL") from exc

    async def _answer(self, ask: Ask, record: ChatRecord) -> AsyncGenerator[Event, None]:
        if record.opening is None:
            raise Internal("the exchange was not opened", reason="INTERNAL")
        opened = asyncio.shield(record.opening)
        answer = self._decided(ask, record, opened) if ask.profile.decide else self._found(ask, record, opened)
        async with aclosing(answer) as events:
            async for event in events:
                yield event
        if EventType.SOURCES in ask.profile.events:
            yield Sources(record.citations)
        if ask.profile.assess and record.model:
            yield await self._assess(ask, record)
        record.cost_usd = await self._cost(record)
        yield self._usage(ask, record)

    async def _decided(self, ask: Ask, record: ChatRecord, opened: Awaitable[None]) -> AsyncGenerator[Event, None]:
        """The answer after the decision. Retrieval runs beside it, so that deciding costs no time."""
        searching = asyncio.ensure_future(self._contexts.find(ask, record))
        found = self._answer_from(ask, record, searching)
        ahead = Ahead(found) if ask.profile.speculate else None
        try:
            _, decision = await both(opened, self._reflection.decide(ask))
            record.usage = record.usage.plus(decision.usage)
            for event in await self._begin(record):
                yield event
            yield Decided(decision.needs_retrieval, decision.reason, decision.fallback)
            if not decision.needs_retrieval:
                await drop(searching, ahead)
                found = self._generated(ask, record, (), cite=False)
            async with aclosing(ahead.events() if ahead and decision.needs_retrieval else found) as events:
                async for event in events:
                    yield event
        finally:
            await drop(searching, ahead)

    async def _found(self, ask: Ask, record: ChatRecord, opened: Awaitable[None]) -> AsyncGenerator[Event, None]:
        """The answer from what the question found."""
        searching = asyncio.ensure_future(self._opened_and_retrieved(ask, record, opened))
        try:
            async with aclosing(self._answer_from(ask, record, searching)) as events:
                async for event in events:
                    yield event
        finally:
            await drop(searching, None)

    async def _opened_and_retrieved(self, ask: Ask, record: ChatRecord, opened: Awaitable[None]) -> Retrieved:
        return (await both(opened, self._contexts.find(ask, record)))[1]

    async def _answer_from(
        self, ask: Ask, record: ChatRecord, searching: Awaitable[Retrieved]
    ) -> AsyncGenerator[Event, None]:
        retrieved = await searching
        # A profile with a no-match answer gives it where nothing was found; the others ask the model all the same.
        if not retrieved.hits and ask.profile.no_match is not None:
            answer = self._no_match(ask.profile.no_match, ask, record, retrieved)
        else:
            answer = self._generated(ask, record, retrieved.hits, retrieved.counts)
        async with aclosing(answer) as events:
            async for event in events:
                yield event

    async def _no_match(
        self, no_match: NoMatch, ask: Ask, record: ChatRecord, retrieved: Retrieved
    ) -> AsyncGenerator[Event, None]:
        """The answer where nothing was found: no model is called."""
        self._say_path(ask, record, retrieved.counts, 0)
        for event in await self._begin(record):
            yield event
        record.not_found = True
        not_ready = retrieved.plan.counts.not_ready if retrieved.plan is not None else 0
        yield Citations(())
        yield Tokens((no_match_answer(no_match, not_ready),))

    async def _generated(
        self,
        ask: Ask,
        record: ChatRecord,
        hits: tuple[Hit, ...],
        counts: ScopeCounts | None = None,
        *,
        cite: bool = True,
    ) -> AsyncGenerator[Event, None]:
        """The generator's answer, and questions to ask instead if it found none.

        Args:
            ask: What was asked.
            record: What is known of the chat.
            hits: What the answer may use.
            counts: Of whole items, where they are what `hits` are from.
            cite: False where nothing was looked for.
        """
        async with aclosing(self._generator.generate(generate_query(ask, record, hits), ask.own)) as stream:
            # The question is written down while the model starts; both must have worked before an answer is shown.
            starting = asyncio.ensure_future(_first(stream))
            try:
                for event in await self._begin(record):
                    yield event
                started = await starting
            finally:
                starting.cancel()
                await asyncio.wait((starting,))
            record.provider, record.model = started.provider, started.model
            citations = _citations(started, hits)
            self._say_path(ask, record, counts, len({one.hit.chunk.document_id for one in citations}))
            for event in record.new_steps():
                yield event
            if cite:
                yield Citations(citations)
            async for event in stream:
                # Deltas first: there is one per token, and one of all others.
                if type(event) is Delta:
                    yield Tokens(event.texts)
                elif (shown := _shown(event, record)) is not None:
                    yield shown
        for event in await self._suggest(ask, record, hits):
            yield event

    def _say_path(self, ask: Ask, record: ChatRecord, counts: ScopeCounts | None, kept: int) -> None:
        """Says which context path was taken, where there was a choice."""
        if ask.profile.strategy is not Strategy.SEMANTIC and record.plan is not None:
            record.steps.append(path_step(record.plan, counts or record.plan.counts, kept))

    async def _begin(self, record: ChatRecord) -> Sequence[Event]:
        """Writes the question into its conversation, once, and returns what is to be said before the answer."""
        exchange, events = record.exchange, list[Event]()
        if exchange.conversation_id is not None and record.ordinal is None:
            record.ordinal = await self._records.begin(exchange)
            if exchange.creates:
                events.append(ConversationCreated(str(exchange.conversation_id)))
        return [*events, *record.new_steps()]

    async def _assess(self, ask: Ask, record: ChatRecord) -> Assessed:
        """The model's judgement of its answer."""
        passages = [citation.hit for citation in record.citations]
        assessment = await self._reflection.assess(ask, record.answer, passages)
        record.usage = record.usage.plus(assessment.usage)
        return Assessed(assessment.supported, assessment.utility, assessment.fallback)

    def _usage(self, ask: Ask, record: ChatRecord) -> Usage:
        usage = Usage(record.embedding_tokens, record.usage.prompt_tokens, record.usage.completion_tokens)
        if not ask.profile.full_usage:
            return usage
        path = record.plan.path if record.plan is not None else None
        return replace(usage, path=path, cost_usd=record.cost_usd)

    async def _cost(self, record: ChatRecord) -> float | None:
        """What the chat has cost, in USD: its calls are settled before their answers end. None if that isn't known."""
        if self._costs is None:
            return None
        try:
            # Somebody reads along: a database that is away is waited for where the answer is kept, not here too.
            async with asyncio.timeout(_COST_SECONDS):
                cost = await self._costs.cost_of(record.exchange.tenant, record.exchange.exchange_id)
        except (CitewireError, TimeoutError) as exc:
            log.warning("cost_unknown", error=str(exc) or type(exc).__name__)
            return None
        if cost.nano is None or cost.calls < record.attempts:
            return None  # the services keep no ledger, or not of everything
        return to_usd(cost.nano)

    async def _suggest(self, ask: Ask, record: ChatRecord, hits: tuple[Hit, ...]) -> Sequence[Event]:
        """Adds questions that the passages do answer, where the answer found none and offers too few itself."""
        wanted, given = ask.profile.suggest, record.suggested_questions
        if wanted is None or not record.not_found or given >= wanted.minimum or not hits:
            return ()
        events: list[Event] = []
        try:
            found = await self._generator.suggest_questions(
                ask.question, hits, wanted.wanted, ask.profile.answer.answer_language, ask.own
            )
        except CitewireError as exc:
            # The answer itself is complete: it isn't taken back because an offer to go on could not be made.
            log.warning("suggestions_failed", reason=exc.reason, error=exc.message)
            record.steps.append(suggestions_failed_step(exc.reason))
            events.extend(record.new_steps())
            found = Suggestions(())
        record.usage = record.usage.plus(found.usage)
        text = suggestions_text(wanted, given, found.questions, record.answer)
        return [*events, Tokens((text,))] if text else events

    async def _close(self, record: ChatRecord, state: State, reason: str | None = None) -> None:
        """Writes how a chat ended, once. Who waits for it may be cancelled: the writing goes on."""
        if record.closed:
            return  # writing failed: it was said, and the sweeper will close the exchange
        record.closed = True
        await self._aftermath.finish(self._write(record, state, reason), request_id=record.exchange.request_id)

    async def _write(self, record: ChatRecord, state: State, reason: str | None) -> None:
        if record.opening is not None:
            await asyncio.wait((record.opening,))
            if record.opening.cancelled() or record.opening.exception() is not None:
                return  # there is nothing to close
        try:
            await self._records.close(record.exchange, record.closing(state, reason))
        except CitewireError as exc:
            log.error("exchange_not_closed", state=state, reason=exc.reason)  # noqa: TRY400 - no defect: the database is away
            if state == "done":
                raise  # the answer is not kept: the caller must hear of it


async def _first(stream: AsyncGenerator[GenerateEvent, None]) -> Started:
    first = await anext(stream, None)
    if not isinstance(first, Started):
        raise Internal("the generator didn't begin with Started", reason="INTERNAL")
    return first


def _shown(event: GenerateEvent, record: ChatRecord) -> Event | None:
    """Takes note of an event that is no text, and returns what is to be said of it."""
    match event:
        case Verified(number=number):
            hit = next((one.hit for one in record.citations if one.index == number), None)
            if hit is None:
                raise Internal("the generator verified a passage that isn't in the prompt", reason="INTERNAL")
            return CheckedCitation.of(event, hit.chunk)
        case Uncited():
            return UncitedSentence.of(event)
        case Notice(name=name, text=text):
            step = Step(name, text)
            if event.provider:
                record.provider, record.model = event.provider, event.model
        case Completed():
            record.complete(event)
            step = finish_step(event.finish_reason)
        case _:
            raise Internal("the generator sent an event out of order", reason="INTERNAL")
    if step is not None:
        record.steps.append(step)
        record.new_steps()
    return step


def generate_query(ask: Ask, record: ChatRecord, hits: tuple[Hit, ...]) -> GenerateQuery:
    """What the generator is asked, within the budgets of the profile and the plan."""
    profile = ask.profile
    policy = replace(profile.answer, answerable_threshold=record.answerable_threshold)
    if profile.budget is not None:
        policy = replace(policy, max_context_tokens=profile.budget.context_tokens(ask.tenant.plan))
    if profile.history is not None and profile.history.tokens is not None:
        policy = replace(policy, max_history_tokens=profile.history.tokens)
    return GenerateQuery(
        question=ask.question,
        passages=hits,
        policy=policy,
        history=record.history,
        model=ask.model,
        max_completion_tokens=profile.max_completion_tokens,
    )


def _citations(started: Started, hits: tuple[Hit, ...]) -> tuple[Citation, ...]:
    return tuple(Citation(packed.number, hits[packed.index]) for packed in started.packed)


def with_models(ask: Ask, models: ProfileModels | None) -> Ask:
    """Names a profile's own models, where neither the request nor a provider of the tenant's own decides."""
    if models is None or ask.own.only_own:
        return ask
    chat = ask.model or ("" if ask.own.chat is not None else models.chat)
    return replace(ask, model=chat, embedding_model=models.embedding)
