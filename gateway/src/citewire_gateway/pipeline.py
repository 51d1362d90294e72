"""The one orchestration: every chat of every profile goes through `ChatPipeline.run`.

The profile says how; no branch here knows a system's name. Events come in the order in which dialects write them.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from citewire_gateway.aftermath import Aftermath
from citewire_gateway.asks import Ask, RunControl
from citewire_gateway.calibration import floor_of
from citewire_gateway.chat_record import ChatRecord
from citewire_gateway.domain import (
    Completed,
    Delta,
    GenerateEvent,
    GenerateQuery,
    Hit,
    Notice,
    Started,
    Suggestions,
)
from citewire_gateway.events import Citation, Citations, ConversationCreated, Done, Event, Step, Tokens, Usage
from citewire_gateway.ports import Embedder, Generator, Retriever
from citewire_gateway.profiles import EmptySelection, NoMatch
from citewire_gateway.records import Records, State
from citewire_gateway.retrieval import Query, Retrieved, both, plan_and_search
from citewire_gateway.steps import finish_step, no_match_answer, suggestions_text, truncated_step
from citewire_kit.errors import CitewireError, Internal
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)


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
    ) -> None:
        """`lease_seconds`: after which a chat that nobody closed counts as lost."""
        self._embedder = embedder
        self._retriever = retriever
        self._generator = generator
        self._records = records
        self._aftermath = aftermath
        self._lease_seconds = lease_seconds

    async def run(self, ask: Ask, control: RunControl) -> AsyncGenerator[Event, None]:
        """Streams a chat's events; `Done` is the last one, and comes only after everything is kept.

        Close it (or cancel the task that iterates it) to stop the chat: calls to services are cancelled at once, and
        what was shown so far is kept.

        Raises:
            CitewireError: The chat failed, before or between events.
        """
        record = ChatRecord(ask, control, self._lease_seconds)
        record.opening = asyncio.create_task(self._records.open(record.exchange))
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
        _, retrieved = await both(asyncio.shield(record.opening), self._retrieve(ask, record))
        # A profile with a no-match answer gives it where nothing was found; the others ask the model all the same.
        if not retrieved.hits and ask.profile.no_match is not None:
            answer = self._no_match(ask.profile.no_match, record, retrieved)
        else:
            answer = self._generated(ask, record, retrieved.hits)
        async with aclosing(answer) as events:
            async for event in events:
                yield event
        yield Usage(record.embedding_tokens, record.usage.prompt_tokens, record.usage.completion_tokens)

    async def _retrieve(self, ask: Ask, record: ChatRecord) -> Retrieved:
        """Finds the chunks; none if nothing is selected, or if no chunk is above the floor."""
        profile, scope = ask.profile, ask.scope
        if scope.document_ids == ():
            if profile.empty_selection is EmptySelection.NOTHING:
                return Retrieved((), None, 0)
            scope = replace(scope, document_ids=None)
        query = Query(ask.question, scope, profile.mode, ask.top_k, ask.min_score)
        found = await plan_and_search(self._embedder, self._retriever, query, profile.strategy, ask.own)
        record.embedding_tokens = found.embedding_tokens
        if found.vector is not None:
            record.embedding_model = found.vector.space.model
            if found.vector.truncated:
                record.steps.append(truncated_step(found.vector))
        return found if _above_floor(found) else replace(found, hits=())

    async def _no_match(
        self, no_match: NoMatch, record: ChatRecord, retrieved: Retrieved
    ) -> AsyncGenerator[Event, None]:
        """The answer where nothing was found: no model is called."""
        for event in await self._begin(record):
            yield event
        record.not_found = True
        not_ready = retrieved.plan.counts.not_ready if retrieved.plan is not None else 0
        yield Citations(())
        yield Tokens((no_match_answer(no_match, not_ready),))

    async def _generated(self, ask: Ask, record: ChatRecord, hits: tuple[Hit, ...]) -> AsyncGenerator[Event, None]:
        """The generator's answer, and questions to ask instead if it found none."""
        query = GenerateQuery(ask.question, hits, ask.profile.answer, model=ask.model)
        async with aclosing(self._generator.generate(query, ask.own)) as stream:
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
            yield Citations(_citations(started, hits))
            async for event in stream:
                # Deltas first: there is one per token, and one of all others.
                if type(event) is Delta:
                    yield Tokens(event.texts)
                elif (step := _noted(event, record)) is not None:
                    yield step
        for event in await self._suggest(ask, record, hits):
            yield event

    async def _begin(self, record: ChatRecord) -> Sequence[Event]:
        """Writes the question into its conversation, and returns what is to be said before the answer."""
        exchange, events = record.exchange, list[Event]()
        if exchange.conversation_id is not None:
            record.ordinal = await self._records.begin(exchange)
            if exchange.creates:
                events.append(ConversationCreated(str(exchange.conversation_id)))
        return [*events, *record.steps]

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
            step = Step("suggestions_failed", "Questions to ask instead could not be suggested.", reason=exc.reason)
            record.steps.append(step)
            events.append(step)
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


def _noted(event: GenerateEvent, record: ChatRecord) -> Step | None:
    """Takes note of an event that is no text, and returns what is to be said of it."""
    match event:
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
    return step


def _above_floor(found: Retrieved) -> bool:
    """Whether at least one chunk has to do with the question; one without a vector (a lexical hit) may."""
    if found.vector is None:
        return bool(found.hits)
    floor = floor_of(found.vector.space.model)
    return any(hit.similarity is None or hit.similarity > floor for hit in found.hits)


def _citations(started: Started, hits: tuple[Hit, ...]) -> tuple[Citation, ...]:
    return tuple(Citation(packed.number, hits[packed.index]) for packed in started.packed)
