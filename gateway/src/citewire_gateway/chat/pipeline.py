"""The one orchestration: every chat of every profile goes through `ChatPipeline.run`.

The profile says how; no branch here knows a system's name. Events come in the order in which dialects write them.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any
from uuid import UUID

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

from citewire_accounts.tenants.accounts import Cost, to_usd
from citewire_dialects.events import (
    Assessment,
    Citations,
    ConversationCreated,
    Decision,
    Done,
    Event,
    Sources,
    Tokens,
    Usage,
)
from citewire_dialects.profile import EventType, NoMatch, ProfileModels
from citewire_gateway.chat.answer import AnswerWriter, Reflection, passage_messages
from citewire_gateway.chat.context import ContextFinder
from citewire_gateway.chat.filled_libraries import is_narrowed
from citewire_gateway.chat.records import Closing, State
from citewire_gateway.chat.retrieval import Retrieval, both
from citewire_gateway.chat.run import CHARS_PER_TOKEN, ChatInput, ChatRun
from citewire_gateway.chat.steps import no_match_answer
from citewire_gateway.chat.store import ChatStore
from citewire_gateway.clients.embedder import Embedder
from citewire_gateway.clients.generator import Generator
from citewire_gateway.clients.retriever import Retriever
from citewire_http.background import BackgroundTasks
from citewire_http.runs.live import LiveRuns
from citewire_http.supervision import StreamControl
from citewire_kit.audit import fail, touch
from citewire_kit.errors import Aborted, CitewireError, Internal
from citewire_kit.limiter import Limiter
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import CallContext, Tenant, enter_call_context
from citewire_kit.turns import in_turn

log = get_logger(__name__)

_COMPLETION_TOKENS = 2_048  # if neither profile nor request sets it; the generator's own default
_COST_SECONDS = 0.5
_ERROR_SECONDS = 0.5  # longest wait for the record of an error, which the database may have caused
_MANY_CITATIONS = 50  # from which their JSON is built outside the event loop

DetailsJson = Callable[[ChatRun, generator_pb2.TokenUsage, bool], Mapping[str, Any]]
CostOf = Callable[[Tenant, UUID], Coroutine[Any, Any, Cost]]


class ChatPipeline:
    """Runs chats over the three services and stores their records."""

    def __init__(
        self,
        *,
        embedder: Embedder,
        retriever: Retriever,
        generator: Generator,
        records: ChatStore,
        limiter: Limiter,
        background: BackgroundTasks,
        runs: LiveRuns[Event],
        lease_seconds: float,
        keep_seconds: float,
        keep_for_key_seconds: float,
        details_json: DetailsJson,
        cost_of: CostOf | None = None,
        models: Mapping[str, ProfileModels] | None = None,
        rerank_seconds: float = 0.3,
    ) -> None:
        """Sets the dependencies.

        Args:
            embedder: See `Embedder`.
            retriever: See `Retriever`.
            generator: See `Generator`.
            records: Where chats are stored.
            limiter: Enforces the caller's limits on concurrent chats and tokens.
            background: Runs writes that must happen after a chat was cancelled.
            runs: The runs of this gateway.
            lease_seconds: Time after which a chat that nobody closed counts as lost.
            keep_seconds: How long the events of a stored run are kept after its end.
            keep_for_key_seconds: The same for a run stored for an Idempotency-Key.
            details_json: Returns the details stored with an answer, given its run, its usage and whether it completed.
            cost_of: Returns an exchange's cost so far; None: costs aren't shown.
            models: Models of profiles that have their own, by profile name.
            rerank_seconds: Time limit for reranking if the profile has none.
        """
        self._models = models or {}
        self._cost_of = cost_of
        self._records = records
        self._limiter = limiter
        self._background = background
        self._runs = runs
        self._lease_seconds = lease_seconds
        self._keep_seconds = {False: keep_seconds, True: max(keep_seconds, keep_for_key_seconds)}
        self._details_json = details_json
        self._reflection = Reflection(generator)
        self._contexts = ContextFinder(embedder, retriever, records, self._reflection, rerank_seconds)
        self._answers = AnswerWriter(generator, self._begin_decided)

    async def run(self, chat: ChatInput, control: StreamControl) -> AsyncGenerator[Event, None]:
        """Streams a chat's events; `Done` is the last one, and only sent after everything is stored.

        Close it (or cancel the task that iterates it) to stop the chat: calls to services are cancelled at once, and
        what was shown so far is stored.

        Raises:
            CitewireError: The chat failed, before or between events.
        """
        lease_seconds = self._runs.lease_seconds if chat.stored else self._lease_seconds
        async with (
            self._limiter.chat(chat.tenant, _tokens_at_least(chat), self._lease_seconds) as spending,
            self._runs.track(chat.tenant, chat.run_id, control, stored=chat.stored) as recorder,
        ):
            ready = with_models(chat, self._models.get(chat.profile.name))
            run = ChatRun(ready, control, lease_seconds, self._keep_seconds[chat.kept_for_key])
            run.opening = asyncio.create_task(self._records.open(run.exchange))
            if recorder is not None:
                run.recorder = recorder
                recorder.begin(run.opening)
            conversation_id = str(run.exchange.conversation_id or "")
            enter_call_context(CallContext(chat.profile.name, str(run.exchange.exchange_id), conversation_id))
            try:
                async with aclosing(self._events(run)) as events:
                    async for event in events:
                        run.note(event)
                        if recorder is not None:
                            await recorder.add(event)
                        yield event
                done = Done(run.outcome())
                if recorder is not None:
                    await recorder.add(done)
                await self._close(run, "done")
                yield done
            except (asyncio.CancelledError, GeneratorExit):
                await self._close(run, "cancelled", control.error or _unread(), control.cause)
                raise
            except CitewireError as exc:
                await self._close(run, "failed", exc)
                raise
            except Exception as exc:
                log.exception("chat_failed")
                error = Internal("something went wrong on our side; the log has the details", reason="INTERNAL")
                await self._close(run, "failed", error)
                raise error from exc
            finally:
                touch(*_objects_of(run))
                usage = run.final_usage(done=False)
                spending.tokens = usage.prompt_tokens + usage.completion_tokens

    def forget_library(self, org_id: str) -> None:
        """Clears the cache of whether an organisation has documents, because some were deleted."""
        self._contexts.libraries.forget(org_id)

    async def _events(self, run: ChatRun) -> AsyncGenerator[Event, None]:
        if run.opening is None:
            raise Internal("the exchange was not opened", reason="INTERNAL")
        opened = asyncio.shield(run.opening)
        profile = run.chat.profile
        if profile.decide:
            answer = self._decide_and_answer(run, opened)
        else:
            run.decided.set()
            answer = self._answer_from(run, self._open_and_retrieve(run, opened))
        async with aclosing(answer) as events:
            async for event in events:
                yield event
        if EventType.SOURCES in profile.events:
            yield Sources(run.citations)
        if profile.assess and run.model:
            yield await self._assess(run)
        run.cost_usd = await self._cost(run)
        yield self._usage(run)

    async def _decide_and_answer(self, run: ChatRun, opened: Awaitable[None]) -> AsyncGenerator[Event, None]:
        """The answer after the decision. Retrieval runs concurrently, so that deciding takes no extra time."""
        retrieving = asyncio.ensure_future(self._contexts.find(run))
        answer = self._answer_from(run, retrieving)
        prefetch = Prefetch(answer) if run.chat.profile.speculate else None
        try:
            checked = both(self._contexts.check_scope(run), self._reflection.decide(run.chat))
            _, (_, (decision, failed)) = await both(opened, checked)
            run.add_usage(decision.usage)
            for event in await self._begin(run):
                yield event
            yield Decision(decision)
            if failed is not None:
                run.steps.append(failed)
                for event in run.new_steps():
                    yield event
            if not decision.needs_retrieval:
                await _stop(retrieving, prefetch)
                answer = self._answers.write(run, run.chat.brought, cite=bool(run.chat.brought))
            run.decided.set()
            async with aclosing(prefetch.events() if prefetch and decision.needs_retrieval else answer) as events:
                async for event in events:
                    yield event
        finally:
            await _stop(retrieving, prefetch)

    async def _open_and_retrieve(self, run: ChatRun, opened: Awaitable[None]) -> Retrieval:
        return (await both(opened, self._contexts.find(run)))[1]

    async def _answer_from(self, run: ChatRun, retrieving: Awaitable[Retrieval]) -> AsyncGenerator[Event, None]:
        retrieval = await retrieving
        retrieval = replace(retrieval, results=(*run.chat.brought, *retrieval.results))
        # If nothing matches, a profile with a no-match answer returns it; others call the model anyway.
        no_match = run.chat.profile.no_match
        if not retrieval.results and no_match is not None and not run.chat.needs_model:
            answer = self._no_match_answer(run, no_match, retrieval)
        else:
            answer = self._answers.write(run, retrieval.results, retrieval.counts)
        async with aclosing(answer) as events:
            async for event in events:
                yield event

    async def _no_match_answer(
        self, run: ChatRun, no_match: NoMatch, retrieval: Retrieval
    ) -> AsyncGenerator[Event, None]:
        """The answer if nothing matches, without calling a model."""
        run.add_path_step(retrieval.counts, 0, 0)
        for event in await self._begin_decided(run):
            yield event
        run.not_found = True
        counts = retrieval.plan.counts if retrieval.plan is not None else retriever_pb2.ScopeCounts()
        empty = retrieval.plan is not None and not counts.items and not counts.not_ready
        empty = empty and not is_narrowed(run.chat.scope)
        yield Citations(())
        yield Tokens((no_match_answer(no_match, counts.not_ready, empty_library=empty),))

    async def _begin_decided(self, run: ChatRun) -> Sequence[Event]:
        """See `_begin`. A prefetched answer waits here, so that it has no effect if the decision is against it."""
        await run.decided.wait()
        return await self._begin(run)

    async def _begin(self, run: ChatRun) -> Sequence[Event]:
        """Stores the question in its conversation, once, and returns the events to send before the answer."""
        exchange, events = run.exchange, list[Event]()
        if exchange.conversation_id is not None and run.ordinal is None:
            run.ordinal = await self._records.begin(exchange)
            if exchange.creates:
                events.append(ConversationCreated(str(exchange.conversation_id)))
        return [*events, *run.new_steps()]

    async def _assess(self, run: ChatRun) -> Assessment:
        """The model's assessment of its answer."""
        passages = passage_messages([citation.result for citation in run.citations])
        assessment = await self._reflection.assess(run.chat, run.answer, passages)
        run.add_usage(assessment.usage)
        return Assessment(assessment)

    def _usage(self, run: ChatRun) -> Usage:
        spent = run.usage
        usage = Usage(
            run.embedding_tokens,
            spent.prompt_tokens,
            spent.completion_tokens,
            cached_tokens=spent.cached_prompt_tokens or None,
            cache_write_tokens=spent.cache_write_prompt_tokens or None,
        )
        return replace(usage, path=run.path, cost_usd=run.cost_usd) if run.chat.profile.full_usage else usage

    async def _cost(self, run: ChatRun) -> float | None:
        """The chat's cost in USD, or None if unknown. Its calls are settled before their answers end."""
        if self._cost_of is None:
            return None
        try:
            # A client is waiting. An unreachable database is already waited for when the answer is stored.
            async with asyncio.timeout(_COST_SECONDS):
                cost = await self._cost_of(run.exchange.tenant, run.exchange.exchange_id)
        except (CitewireError, TimeoutError) as exc:
            log.warning("cost_unknown", error=str(exc) or type(exc).__name__)
            return None
        if cost.nano is None or cost.calls < run.attempts:
            return None  # the services have no ledger, or not for all calls
        return to_usd(cost.nano)

    async def _close(
        self, run: ChatRun, state: State, error: CitewireError | None = None, cause: str | None = None
    ) -> None:
        """Stores how a chat ended, once. Writing continues if the caller is cancelled or reports an error."""
        if run.closed:
            return  # writing failed and was reported; the sweeper will close the exchange
        run.closed = True
        reason = cause or (None if error is None else error.reason)
        if state != "done":
            fail(reason or state)
        await self._background.finish(
            self._write(run, state, reason, error),
            request_id=run.exchange.request_id,
            wait_seconds=None if state == "done" else _ERROR_SECONDS,
        )

    async def _write(self, run: ChatRun, state: State, reason: str | None, error: CitewireError | None) -> None:
        if run.opening is not None:
            await asyncio.wait((run.opening,))
            if run.opening.cancelled() or run.opening.exception() is not None:
                return  # nothing to close
        events = [] if run.recorder is None else await run.recorder.rest(error)
        try:
            closing = await self._closing(run, state, reason)
            await self._records.close(run.exchange, replace(closing, events=events))
        except CitewireError as exc:
            log.error("exchange_not_closed", state=state, reason=exc.reason)  # noqa: TRY400 - not a defect: no database
            if state == "done":
                raise  # the answer isn't stored, which the caller must know

    async def _closing(self, run: ChatRun, state: State, reason: str | None) -> Closing:
        done = state == "done"
        usage = run.final_usage(done=done)
        if len(run.verified) + len(run.citations) > _MANY_CITATIONS:
            details = await in_turn(self._details_json, run, usage, done)
        else:
            details = self._details_json(run, usage, done)
        return Closing(
            state=state,
            reason=reason,
            ordinal=run.ordinal,
            discard=not done and not run.control.committed,
            # Postgres can store every character except NUL.
            answer=(run.answer or run.outcome().refusal).replace("\x00", "\ufffd"),
            details=details,
            provider=run.provider,
            model=run.model,
            embedding_model=run.embedding_model,
            embedding_tokens=run.embedding_tokens,
            usage=usage,
            first_token_ms=run.first_token_ms,
        )


class Prefetch:
    """Events of a generator that starts before anything is requested from it."""

    def __init__(self, events: AsyncGenerator[Event, None]) -> None:
        self._events = events
        self._first = asyncio.ensure_future(anext(events, None))

    async def events(self) -> AsyncGenerator[Event, None]:
        """All events, from the first."""
        first = await self._first
        if first is not None:
            yield first
        async for event in self._events:
            yield event

    async def close(self) -> None:
        """Stops the work at any point."""
        await _stop(self._first, None)
        await self._events.aclose()


async def _stop(work: asyncio.Future[Any], prefetch: Prefetch | None) -> None:
    """Stops work that is still running; failures of work that isn't needed any more are ignored."""
    if prefetch is not None:
        await prefetch.close()
    work.cancel()
    await asyncio.wait((work,))
    if not work.cancelled():
        work.exception()  # retrieved, so that asyncio doesn't log it


def _unread() -> Aborted:
    return Aborted("the answer was stopped: nobody was reading it", reason="RUN_CANCELLED")


def _objects_of(run: ChatRun) -> list[str]:
    """A chat's objects in the audit trail: itself, its conversation, the documents in its prompt."""
    conversation = run.exchange.conversation_id
    named = [f"exchange:{run.exchange.exchange_id}", *([f"conversation:{conversation}"] if conversation else [])]
    documents = (citation.chunk.document_id for citation in run.citations if not citation.is_brought)
    return named + [f"document:{document_id}" for document_id in documents]


def _tokens_at_least(chat: ChatInput) -> int:
    """The tokens known before retrieval: the question, its history, and the longest answer."""
    text = len(chat.question) + sum(len(message.content) for message in chat.messages)
    return text // CHARS_PER_TOKEN + (chat.profile.max_completion_tokens or _COMPLETION_TOKENS)


def with_models(chat: ChatInput, models: ProfileModels | None) -> ChatInput:
    """Selects a profile's own models, unless the request or a tenant provider decides."""
    if models is None or chat.route.require_own:
        return chat
    model = chat.model or ("" if chat.route.chat is not None else models.chat)
    return replace(chat, model=model, embedding_model=models.embedding)
