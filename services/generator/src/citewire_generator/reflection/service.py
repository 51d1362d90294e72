"""Judgements by the model that would answer: in JSON, at temperature 0, within seconds, with documented fallbacks.

They make calls as answers do: retries, breakers, the chain of those that take over, a row in the ledger for each
attempt. But none of them may cost an answer. A model that fails, is late, or writes something else gives the fallback,
which says so. A request that is wrong, a spent budget and a ledger that is away are errors here as anywhere.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
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
)
from citewire_generator.reflection.reading import read_assessment, read_condensed, read_decision, read_passage
from citewire_generator.registry import Chain, ModelRoute, Registry
from citewire_kit import deadline
from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger
from citewire_ledger import Purpose

log = get_logger(__name__)

SECONDS = 10.0
"""Time of a judgement, retries and those that take over included."""
FALLBACK_UTILITY = 0.7
"""Utility of an answer that couldn't be assessed; such a one counts as supported."""
MARGIN_SECONDS = 0.25
"""How long before the caller's deadline the fallback is given: after it nobody would hear it."""

_FAILED = "The model could not be asked, so the saved content is searched."
_LATE = "The model did not decide in time, so the saved content is searched."
_UNREADABLE = "The model's decision could not be read, so the saved content is searched."
_NO_REASON = "The model gave no reason."


@dataclass(frozen=True, slots=True)
class _Reply:
    """What a model replied."""

    text: str | None
    """What the model wrote; None if it failed, or if it isn't a language model."""
    usage: Usage = field(default_factory=Usage)
    """Tokens spent."""
    by_rule: bool = False
    """Whether it isn't one."""
    late: bool = False
    """Whether the time was over."""


class Reflector:
    """Decides, assesses, rewrites.

    Args:
        registry: The models.
        engine: Makes the calls.
        seconds: Time of a judgement.
    """

    def __init__(self, registry: Registry, engine: Engine | None = None, seconds: float = SECONDS) -> None:
        self._registry = registry
        self._engine = engine or Engine()
        self._seconds = seconds
        self._plain: PlainModels = WeakKeyDictionary()

    async def decide(self, request: pb.DecideRequest, route: ModelRoute | None = None) -> pb.DecideResponse:
        """Decides whether a question needs retrieval; it does where that can't be found out.

        Raises:
            CitewireError: There is no such model, or the call isn't paid for.
        """
        async with self._registry.open_chain(route or ModelRoute()) as chain:
            reply = await self._ask(chain, Purpose.DECISION, decision_prompt(request.question))
        if reply.by_rule:
            return heuristics.decide(request.question)
        decision = None if reply.text is None else read_decision(reply.text)
        _count(Purpose.DECISION, fallback=decision is None)
        usage = reply.usage.to_proto()
        if decision is None:
            reason = _UNREADABLE if reply.text is not None else _LATE if reply.late else _FAILED
            return pb.DecideResponse(needs_retrieval=True, reason=reason, usage=usage, fallback=True)
        needed, reason = decision
        return pb.DecideResponse(needs_retrieval=needed, reason=reason or _NO_REASON, usage=usage)

    async def assess(self, request: pb.AssessRequest, route: ModelRoute | None = None) -> pb.AssessResponse:
        """Judges an answer; it counts as supported, of utility 0.7, where that can't be found out.

        Raises:
            CitewireError: There is no such model, or the call isn't paid for.
        """
        async with self._registry.open_chain(route or ModelRoute()) as chain:
            reply = await self._ask(chain, Purpose.ASSESSMENT, assessment_prompt(request, chain))
        if reply.by_rule:
            return await asyncio.to_thread(heuristics.assess, request.question, request.answer, request.passages)
        assessment = None if reply.text is None else read_assessment(reply.text)
        _count(Purpose.ASSESSMENT, fallback=assessment is None)
        supported, utility = assessment or (True, FALLBACK_UTILITY)
        usage = reply.usage.to_proto()
        return pb.AssessResponse(supported=supported, utility=utility, usage=usage, fallback=assessment is None)

    async def rewrite(
        self, request: pb.RewriteRequest, history: Sequence[Message] = (), route: ModelRoute | None = None
    ) -> pb.RewriteResponse:
        """Says a question in other words; it stays as it is where they can't be had.

        Args:
            request: As the converters checked it.
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
            return heuristics.condense(question, history) if condense else heuristics.hypothesise(question)
        text = "" if reply.text is None else (read_condensed if condense else read_passage)(reply.text)
        _count(Purpose.REWRITING, fallback=not text)
        return pb.RewriteResponse(text=text or question, usage=reply.usage.to_proto(), fallback=not text)

    async def _ask(self, chain: Chain, purpose: Purpose, prompt: Prompt) -> _Reply:
        """Asks the models of a chain, within the time of a judgement and of the caller."""
        work = Judgement(chain, purpose, prompt, self._plain)
        usage = Usage()
        left = deadline.remaining()
        seconds = self._seconds if left is None else min(self._seconds, left - MARGIN_SECONDS)
        scope = asyncio.timeout(max(seconds, 0.0))
        try:
            async with scope, aclosing(self._engine.run(work)) as events:
                async for event in events:
                    if isinstance(event, Ended):
                        usage = event.usage
        except TimeoutError:
            if not scope.expired():
                raise
            log.warning("judgement_late", purpose=purpose.value, seconds=round(seconds, 3))
            return _Reply(None, late=True)
        except CitewireError as exc:
            if exc.reason not in TAKEN_OVER:
                raise
            log.warning("judgement_failed", purpose=purpose.value, reason=exc.reason)
            return _Reply(None, late=exc.reason == "PROVIDER_TIMEOUT")
        return _Reply(work.text, usage, by_rule=work.text is None)


def _count(purpose: Purpose, *, fallback: bool) -> None:
    metrics.JUDGEMENTS.labels(purpose.value, "fallback" if fallback else "judged").inc()
