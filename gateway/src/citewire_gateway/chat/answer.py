"""The pipeline's calls to the generator: answers as events, judgements and rewriting."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from typing import Any

from citewire.common.v1 import place_pb2
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2, table_pb2

from citewire_dialects.events import (
    Citation,
    Citations,
    Event,
    Step,
    Tokens,
    ToolCall,
    UncitedSentence,
    VerifiedCitation,
)
from citewire_gateway.chat.run import ChatInput, ChatRun
from citewire_gateway.chat.steps import (
    decision_failed_step,
    finish_step,
    relevance_failed_step,
    relevance_step,
    suggestions_failed_step,
    suggestions_text,
)
from citewire_gateway.clients.generator import Generator
from citewire_http.api.schemas import MAX_ID
from citewire_kit.enums import enum_text
from citewire_kit.errors import CitewireError, Internal
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

FALLBACK_UTILITY = 0.7
"""Utility of an answer that could not be assessed."""

_OF_CHUNK = sorted(
    {*generator_pb2.Passage.DESCRIPTOR.fields_by_name} & {*retriever_pb2.Chunk.DESCRIPTOR.fields_by_name}
)
"""Fields that a passage copies from its chunk."""

_OF_QUOTE = [name for name in generator_pb2.VerifiedCitation.DESCRIPTOR.fields_by_name if name.startswith("quote")]
"""Fields of a verified citation that describe its quote."""

Results = tuple[retriever_pb2.SearchResult, ...]


class AnswerWriter:
    """Calls the generator to write answers."""

    def __init__(self, generator: Generator, begin: Callable[[ChatRun], Awaitable[Sequence[Event]]]) -> None:
        """`begin` stores the question, and returns the events to send before the answer."""
        self._generator = generator
        self._begin = begin

    async def write(
        self,
        run: ChatRun,
        results: Results,
        counts: retriever_pb2.ScopeCounts | None = None,
        *,
        cite: bool = True,
    ) -> AsyncGenerator[Event, None]:
        """Streams an answer.

        Args:
            run: The chat run.
            results: The results that the answer may use.
            counts: Counts of whole items, if `results` come from them.
            cite: False if there was no retrieval.
        """
        async with aclosing(self._generator.generate(generate_request(run, results))) as stream:
            # The question is stored while the model starts; both must succeed before an answer is shown.
            starting = asyncio.ensure_future(_start(stream))
            try:
                for event in await self._begin(run):
                    yield event
                started = await starting
            finally:
                starting.cancel()
                await asyncio.wait((starting,))
            run.provider, run.model = started.provider, started.model
            citations = tuple(Citation(passage.number, results[passage.passage_index]) for passage in started.citations)
            given = {citation.chunk.document_id for citation in citations} - {0}
            run.add_path_step(counts, len(given), len({result.chunk.document_id for result in results} - {0}))
            for event in run.new_steps():
                yield event
            if cite:
                yield Citations(citations)
            async for message in stream:
                # Deltas first: there is one per token, and one of each other event.
                if message.HasField("delta"):
                    yield Tokens(tuple(message.delta.texts))
                elif (event := _event(run, message)) is not None:
                    yield event
        for event in await self._suggest(run, results):
            yield event

    async def _suggest(self, run: ChatRun, results: Results) -> Sequence[Event]:
        """Adds questions that the passages can answer, if the answer is a not-found one and offers too few itself."""
        suggest, given = run.chat.profile.suggest, run.suggested_questions
        if suggest is None or not run.not_found or given >= suggest.minimum or not results or not run.answer:
            return ()
        request = generator_pb2.SuggestQuestionsRequest(
            question=run.chat.question,
            passages=passage_messages(results),
            count=suggest.count,
            minimum=suggest.minimum - given,
            language=run.chat.profile.answer.answer_language,
            model=run.chat.model,
            provider=run.chat.route.chat,
        )
        try:
            response = await self._generator.suggest_questions(request)
        except CitewireError as exc:
            # The answer itself is complete, and isn't discarded because suggestions failed.
            log.warning("suggestions_failed", reason=exc.reason, error=exc.message)
            run.steps.append(suggestions_failed_step(exc))
            return run.new_steps()
        if response.fallback:
            run.steps.append(suggestions_failed_step())
        run.add_usage(response.usage)
        heading = response.heading or suggest.heading
        text = suggestions_text(replace(suggest, heading=heading), given, response.questions, run.answer)
        return [*run.new_steps(), *((Tokens((text,)),) if text else ())]


class Reflection:
    """Decides, assesses and rewrites with the generator.

    None of these may prevent an answer: if a call fails, the documented default is used, and a step says so.
    """

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    async def decide(self, chat: ChatInput) -> tuple[generator_pb2.DecideResponse, Step | None]:
        """Returns whether the question needs retrieval (true if that can't be determined), and the failed provider."""
        try:
            decision = await self._generator.decide(
                generator_pb2.DecideRequest(question=chat.question, **_model_fields(chat))
            )
        except CitewireError as exc:
            log.warning("decision_failed", reason=exc.reason, error=exc.message)
            step = decision_failed_step(error=exc)
            return generator_pb2.DecideResponse(needs_retrieval=True, reason=step.text, fallback=True), step
        return decision, decision_failed_step(decision.failure) if decision.HasField("failure") else None

    async def judge_relevance(
        self, chat: ChatInput, question: str, passages: Sequence[generator_pb2.Passage]
    ) -> tuple[generator_pb2.JudgeRelevanceResponse, Step]:
        """Returns the irrelevant passages, and the step that reports them."""
        request = generator_pb2.JudgeRelevanceRequest(question=question, passages=passages, **_model_fields(chat))
        try:
            response = await self._generator.judge_relevance(request)
        except CitewireError as exc:
            log.warning("relevance_not_judged", reason=exc.reason, error=exc.message)
            return generator_pb2.JudgeRelevanceResponse(fallback=True), relevance_failed_step(exc)
        if response.judged:
            return response, relevance_step(len(passages), response.judged, len(response.irrelevant))
        return response, relevance_failed_step(failure=response.failure, no_model=response.heuristic)

    async def assess(
        self, chat: ChatInput, answer: str, passages: Sequence[generator_pb2.Passage]
    ) -> generator_pb2.AssessResponse:
        """Returns whether the passages support the answer, and how useful it is."""
        request = generator_pb2.AssessRequest(
            question=chat.question, answer=answer, passages=passages, **_model_fields(chat)
        )
        try:
            return await self._generator.assess(request)
        except CitewireError as exc:
            log.warning("assessment_failed", reason=exc.reason, error=exc.message)
            return generator_pb2.AssessResponse(supported=True, utility=FALLBACK_UTILITY, fallback=True)

    async def rewrite(
        self,
        kind: generator_pb2.RewriteKind,
        chat: ChatInput,
        question: str,
        history: Sequence[generator_pb2.Message] = (),
    ) -> generator_pb2.RewriteResponse | None:
        """Returns the rewritten question; None if rewriting failed."""
        request = generator_pb2.RewriteRequest(kind=kind, question=question, history=history, **_model_fields(chat))
        try:
            response = await self._generator.rewrite(request)
        except CitewireError as exc:
            kind_text = enum_text(generator_pb2.RewriteKind, kind)
            log.warning("rewrite_failed", kind=kind_text, reason=exc.reason, error=exc.message)
            return None
        return response if response.text.strip() else None

    async def fill_table_query(
        self, chat: ChatInput, question: str, tables: Sequence[table_pb2.TableInReach]
    ) -> generator_pb2.FillTableQueryResponse:
        """Returns the model's query of one of the tables for the question; an empty message if there is none."""
        request = generator_pb2.FillTableQueryRequest(
            question=question, tables=tables, time_zone=chat.time_zone, **_model_fields(chat)
        )
        try:
            return await self._generator.fill_table_query(request)
        except CitewireError as exc:
            log.warning("table_query_not_filled", reason=exc.reason, error=exc.message)
            return generator_pb2.FillTableQueryResponse()


def _model_fields(chat: ChatInput) -> dict[str, Any]:
    return {"model": chat.model, "provider": chat.route.chat, "fallbacks": chat.route.fallbacks}


async def _start(stream: AsyncGenerator[generator_pb2.GenerateResponse, None]) -> generator_pb2.Started:
    first = await anext(stream, None)
    if first is None or not first.HasField("started"):
        raise Internal("the generator didn't begin with Started", reason="INTERNAL")
    return first.started


def _event(run: ChatRun, message: generator_pb2.GenerateResponse) -> Event | None:
    """Handles a message other than text, and returns the resulting events."""
    match message.WhichOneof("event"):
        case "verified_citation":
            return _verified_citation(run, message.verified_citation)
        case "tool_call":
            return ToolCall(message.tool_call)
        case "uncited_sentence":
            return UncitedSentence(message.uncited_sentence.sentence)
        case "notice":
            notice = message.notice
            # The step about the context path reports in items what didn't fit into the prompt.
            step = None if notice.passages_left_out and run.has_path else Step(notice.name, notice.text)
            if notice.provider:
                run.provider, run.model = notice.provider, notice.model
        case "completed":
            run.complete(message.completed)
            step = finish_step(enum_text(generator_pb2.FinishReason, message.completed.finish_reason))
        case None:  # from a later version
            return None
        case _:
            raise Internal("the generator sent an event out of order", reason="INTERNAL")
    if step is not None:
        run.steps.append(step)
        return run.new_steps()[-1]
    return None


def _verified_citation(run: ChatRun, verified: generator_pb2.VerifiedCitation) -> VerifiedCitation:
    chunk = next((citation.chunk for citation in run.citations if citation.index == verified.number), None)
    if chunk is None:
        raise Internal("the generator verified a passage that isn't in the prompt", reason="INTERNAL")
    if chunk.computed:  # its words aren't from the document
        for name in _OF_QUOTE:
            verified.ClearField(name)
    return VerifiedCitation(verified, chunk)


def generate_request(run: ChatRun, results: Results) -> generator_pb2.GenerateRequest:
    """Returns the request to the generator, within the budgets of the profile and the tenant plan."""
    chat, profile = run.chat, run.chat.profile
    request = generator_pb2.GenerateRequest(
        question=chat.question,
        passages=passage_messages(results),
        history=run.history,
        policy=profile.answer,
        max_completion_tokens=profile.max_completion_tokens,
        temperature=chat.temperature,
        cache_key=str(run.exchange.conversation_id or ""),
        **_model_fields(chat),
    )
    request.MergeFrom(chat.passed_on)
    if chat.route.chat is not None and chat.model:
        request.provider.model = chat.model  # the provider's own, even if the operator has one of that name
    if profile.derive_filter:  # such questions mention dates and documents
        request.time_zone = chat.time_zone or "UTC"
        if run.listing is not None:
            request.listing.topic, request.listing.max_items = run.listing.topic, run.listing.max_items
    if run.answerable_threshold is not None:
        request.policy.answerable_threshold = run.answerable_threshold
    if profile.budget is not None:
        request.policy.max_context_tokens = profile.budget.context_tokens(chat.tenant.plan)
    if profile.history is not None and profile.history.tokens is not None:
        request.policy.max_history_tokens = profile.history.tokens
    return request


def passage_messages(results: Sequence[retriever_pb2.SearchResult]) -> list[generator_pb2.Passage]:
    """Returns search results as the generator's passages, in the same order."""
    return [
        generator_pb2.Passage(
            **_of_chunk(result.chunk),
            place_label=_place_label(result.chunk),
            similarity=result.score if result.HasField("score") else None,
            saved_at=result.chunk.created_at if result.chunk.HasField("created_at") else None,
        )
        for result in results
    ]


def _of_chunk(chunk: retriever_pb2.Chunk) -> dict[str, Any]:
    """A passage's chunk. Passages from the request are recognised by ids that no stored chunk has."""
    fields = {name: getattr(chunk, name) for name in _OF_CHUNK}
    number = MAX_ID + 1 + chunk.chunk_index
    return fields if chunk.document_id else {**fields, "chunk_id": number, "document_id": number}


def _place_label(chunk: retriever_pb2.Chunk) -> str:
    """Page, slide, cells, row, path, time or line in words, after the name of the part that contains it."""
    inner = _inner_label(chunk.place)
    return f"{chunk.place.part}, {inner}" if chunk.place.part and inner else chunk.place.part or inner


def _rows(place: place_pb2.Place) -> str:
    return f"rows {place.row}–{place.end_row}" if place.HasField("end_row") else f"row {place.row}"


def _inner_label(place: place_pb2.Place) -> str:
    if place.HasField("page"):
        return f"p. {place.page}"
    if place.HasField("slide"):
        return f"slide {place.slide}"
    if place.HasField("sheet"):
        return f"{place.sheet}!{place.cell_range}" if place.HasField("cell_range") else f"{place.sheet}, {_rows(place)}"
    if place.HasField("row"):
        return _rows(place)
    if place.HasField("cell"):
        return f"cell {place.cell}"
    if place.HasField("record_path"):
        return place.record_path
    if place.HasField("start_seconds"):
        return str(timedelta(seconds=int(place.start_seconds)))
    return f"line {place.start_line}" if place.HasField("start_line") else ""
