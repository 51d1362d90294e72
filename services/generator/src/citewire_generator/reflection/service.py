"""Judgements by the model that would answer: in JSON, at temperature 0, within seconds, with documented fallbacks.

They make calls as answers do: retries, breakers, the chain of those that take over, a row in the ledger for each
attempt. But none of them may cost an answer. A model that fails, is late, or writes something else gives the fallback,
which says so. A request that is wrong, a spent budget and a ledger that is away are errors here as anywhere.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar
from weakref import WeakKeyDictionary

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator import metrics
from citewire_generator.engine import TAKEN_OVER, Ended, Engine
from citewire_generator.model import Message, Usage
from citewire_generator.reflection import heuristics
from citewire_generator.reflection.judgement import Judgement, PlainModels
from citewire_generator.reflection.prompts import (
    Prompt,
    assessment_prompt,
    condensation_prompt,
    decision_prompt,
    passage_prompt,
    relevance_prompt,
)
from citewire_generator.reflection.reading import (
    read_assessment,
    read_condensed,
    read_decision,
    read_passage,
    read_relevance,
)
from citewire_generator.reflection.table_queries import read_table_query, table_query_prompt
from citewire_generator.registry import Chain, ChatModel, ModelRoute, Registry
from citewire_kit import deadline
from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger
from citewire_kit.time_zones import find_time_zone
from citewire_kit.turns import in_turn
from citewire_ledger import Purpose

log = get_logger(__name__)

SECONDS = 10.0
"""Time limit of a judgement, including retries and takeovers."""
FALLBACK_UTILITY = 0.7
"""Utility of an answer that couldn't be assessed, which counts as supported."""
MARGIN_SECONDS = 0.25
"""How long before the caller's deadline the fallback is returned, so that it still arrives."""

_FAILED = "The model could not be asked{}, so the saved content is searched."
_LATE = "The model did not decide in time{}, so the saved content is searched."
_UNREADABLE = "The model's decision could not be read{}, so the saved content is searched."
_TOO_LATE = "PROVIDER_TIMEOUT"
_NO_REASON = "The model gave no reason."

R = TypeVar("R", pb.DecideResponse, pb.AssessResponse, pb.RewriteResponse, pb.FillTableQueryResponse)


@dataclass(frozen=True, slots=True)
class _Reply:
    """A model's reply."""

    text: str | None
    """The model's text; None if it failed, or if it isn't a language model."""
    usage: Usage = field(default_factory=Usage)
    """Tokens used."""
    by_rule: bool = False
    """Whether it isn't a language model."""
    failure: pb.JudgementFailure | None = None
    """The provider that failed, if any."""

    @property
    def at_fault(self) -> str:
        """The failed provider, as an addition to a sentence; "" for none."""
        failure = self.failure
        return "" if failure is None else f" ({failure.provider}, model {failure.model})"


class Reflector:
    """Decides, assesses, judges relevance, rewrites, and writes table queries.

    Args:
        registry: The models.
        engine: Makes the calls.
        seconds: Time limit of a judgement.
    """

    def __init__(self, registry: Registry, engine: Engine | None = None, seconds: float = SECONDS) -> None:
        self._registry = registry
        self._engine = engine or Engine()
        self._seconds = seconds
        self._plain: PlainModels = WeakKeyDictionary()

    async def decide(self, request: pb.DecideRequest, route: ModelRoute | None = None) -> pb.DecideResponse:
        """Decides whether a question needs retrieval, by default that it does.

        Raises:
            CitewireError: There is no such model, or the call isn't paid for.
        """
        async with self._registry.open_chain(route or ModelRoute()) as chain:
            reply = await self._ask(chain, Purpose.DECISION, decision_prompt(request.question))
        if reply.by_rule:
            return _with_failure(heuristics.decide(request.question), reply)
        decision = None if reply.text is None else read_decision(reply.text)
        _count(Purpose.DECISION, fallback=decision is None)
        usage = reply.usage.to_proto()
        if decision is None:
            late = reply.failure is not None and reply.failure.error_reason == _TOO_LATE
            reason = _UNREADABLE if reply.text is not None else _LATE if late else _FAILED
            return pb.DecideResponse(
                needs_retrieval=True,
                reason=reason.format(reply.at_fault),
                usage=usage,
                fallback=True,
                failure=reply.failure,
            )
        needed, reason = decision
        return pb.DecideResponse(needs_retrieval=needed, reason=reason or _NO_REASON, usage=usage)

    async def assess(self, request: pb.AssessRequest, route: ModelRoute | None = None) -> pb.AssessResponse:
        """Assesses an answer, by default as supported with a utility of 0.7.

        Raises:
            CitewireError: There is no such model, or the call isn't paid for.
        """
        async with self._registry.open_chain(route or ModelRoute()) as chain:
            reply = await self._ask(chain, Purpose.ASSESSMENT, assessment_prompt(request, chain))
        if reply.by_rule:
            assessed = await in_turn(heuristics.assess, request.question, request.answer, request.passages)
            return _with_failure(assessed, reply)
        assessment = None if reply.text is None else read_assessment(reply.text)
        _count(Purpose.ASSESSMENT, fallback=assessment is None)
        supported, utility = assessment or (True, FALLBACK_UTILITY)
        usage = reply.usage.to_proto()
        return pb.AssessResponse(
            supported=supported, utility=utility, usage=usage, fallback=assessment is None, failure=reply.failure
        )

    async def judge_relevance(
        self, request: pb.JudgeRelevanceRequest, route: ModelRoute | None = None
    ) -> pb.JudgeRelevanceResponse:
        """Judges which passages are irrelevant to a question, by default none.

        Raises:
            CitewireError: There is no such model, or the call isn't paid for.
        """
        async with self._registry.open_chain(route or ModelRoute()) as chain:
            prompt, judged = await in_turn(relevance_prompt, request, chain)
            reply = await self._ask(chain, Purpose.RELEVANCE, prompt) if judged else _Reply("")
        if reply.by_rule:
            return pb.JudgeRelevanceResponse(usage=pb.TokenUsage(), heuristic=True, failure=reply.failure)
        relevant = None if reply.text is None else read_relevance(reply.text, judged)
        _count(Purpose.RELEVANCE, fallback=relevant is None)
        usage = reply.usage.to_proto()
        if relevant is None:
            return pb.JudgeRelevanceResponse(usage=usage, fallback=True, failure=reply.failure)
        irrelevant = [number - 1 for number in range(1, judged + 1) if number not in relevant]
        return pb.JudgeRelevanceResponse(irrelevant=irrelevant, judged=judged, usage=usage)

    async def rewrite(
        self, request: pb.RewriteRequest, history: Sequence[Message] = (), route: ModelRoute | None = None
    ) -> pb.RewriteResponse:
        """Rewrites a question, which by default stays unchanged.

        Args:
            request: The request, checked by the converters.
            history: Its earlier messages, oldest first.
            route: The models that may rewrite it.

        Raises:
            CitewireError: There is no such model, or the call isn't paid for.
        """
        question, condense = request.question, request.kind == pb.REWRITE_KIND_CONDENSE
        if condense and not history:
            return pb.RewriteResponse(text=question, usage=pb.TokenUsage())
        prompt = condensation_prompt(question, history) if condense else passage_prompt(question)
        async with self._registry.open_chain(route or ModelRoute()) as chain:
            reply = await self._ask(chain, Purpose.REWRITING, prompt)
        if reply.by_rule:
            rewritten = heuristics.condense(question, history) if condense else heuristics.hypothesise(question)
            return _with_failure(rewritten, reply)
        text = "" if reply.text is None else (read_condensed if condense else read_passage)(reply.text)
        _count(Purpose.REWRITING, fallback=not text)
        return pb.RewriteResponse(
            text=text or question, usage=reply.usage.to_proto(), fallback=not text, failure=reply.failure
        )

    async def fill_table_query(
        self, request: pb.FillTableQueryRequest, route: ModelRoute | None = None
    ) -> pb.FillTableQueryResponse:
        """Writes a query of one of the tables for a question, by default none.

        Raises:
            CitewireError: There is no such model, or the call isn't paid for.
        """
        today = datetime.now(find_time_zone(request.time_zone) or UTC).date()
        async with self._registry.open_chain(route or ModelRoute()) as chain:
            prompt = await in_turn(table_query_prompt, request, chain, today)
            reply = await self._ask(chain, Purpose.TABLE_QUERY, prompt)
        if reply.by_rule:
            return _with_failure(pb.FillTableQueryResponse(usage=pb.TokenUsage(), no_model=True), reply)
        filled = None if reply.text is None else read_table_query(reply.text, request.tables)
        _count(Purpose.TABLE_QUERY, fallback=filled is None)
        table, query = filled or (0, None)
        return pb.FillTableQueryResponse(
            table=table, query=query, usage=reply.usage.to_proto(), fallback=filled is None, failure=reply.failure
        )

    async def _ask(self, chain: Chain, purpose: Purpose, prompt: Prompt) -> _Reply:
        """Calls the models of a chain, within the time limits of a judgement and of the caller."""
        work = Judgement(chain, purpose, prompt, self._plain)
        usage, failures = Usage(), list[pb.JudgementFailure]()
        left = deadline.remaining()
        seconds = self._seconds if left is None else min(self._seconds, left - MARGIN_SECONDS)
        scope = asyncio.timeout(max(seconds, 0.0))
        try:
            async with scope, aclosing(self._engine.run(work)) as events:
                async for event in events:
                    if isinstance(event, Ended):
                        usage = event.usage
                    elif isinstance(event, pb.Notice):  # the next model of the chain takes over
                        failures.append(_failure(chain[len(failures)]))
        except TimeoutError:
            if not scope.expired():
                raise
            log.warning("judgement_late", purpose=purpose.value, seconds=round(seconds, 3))
            return _Reply(None, failure=_failure(chain[len(failures)], _TOO_LATE))
        except CitewireError as exc:
            if exc.reason not in TAKEN_OVER:
                raise
            log.warning("judgement_failed", purpose=purpose.value, reason=exc.reason)
            return _Reply(None, failure=_failure(chain[len(failures)], exc.reason))
        if work.text is None:
            return _Reply(None, usage, by_rule=True, failure=failures[-1] if failures else None)
        return _Reply(work.text, usage)


def _with_failure(response: R, reply: _Reply) -> R:
    """A rule's response, and the failure because of which the rule was used."""
    if reply.failure is not None:
        response.failure.CopyFrom(reply.failure)
    return response


def _failure(chat_model: ChatModel, reason: str = "") -> pb.JudgementFailure:
    return pb.JudgementFailure(provider=chat_model.provider.name, model=chat_model.model.name, error_reason=reason)


def _count(purpose: Purpose, *, fallback: bool) -> None:
    metrics.JUDGEMENTS.labels(purpose.value, "fallback" if fallback else "judged").inc()
