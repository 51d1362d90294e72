"""Judgements by the model that would answer: in JSON, at temperature 0, within seconds, with documented fallbacks.

They make calls as answers do: retries, breakers, the chain of those that take over, a row in the ledger for each
attempt. But none of them may cost an answer. A model that fails, is late, or writes something else gives the fallback,
which says so. A request that is wrong, a spent budget and a ledger that is away are errors here as anywhere.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from weakref import WeakKeyDictionary

from citewire_generator import metrics
from citewire_generator.chain import Chain, LeaseProvider, open_chain
from citewire_generator.engine import TAKEN_OVER, Ended, Engine, Work
from citewire_generator.model import FinishReason, Message, Usage
from citewire_generator.providers.base import ChatProvider, ChatTask, Completion, Delta, End
from citewire_generator.reflection import heuristics
from citewire_generator.reflection.prompts import (
    Prompt,
    assessment_prompt,
    condensation_prompt,
    decision_prompt,
    passage_prompt,
)
from citewire_generator.reflection.reading import read_assessment, read_condensed, read_decision, read_passage
from citewire_generator.reflection.values import (
    FALLBACK_UTILITY,
    Assessment,
    AssessRequest,
    DecideRequest,
    Decision,
    RewriteKind,
    RewriteRequest,
    Rewritten,
)
from citewire_generator.registry import Chosen, Registry
from citewire_generator.tokens import estimate_messages
from citewire_kit import deadline
from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger
from citewire_ledger import Purpose

log = get_logger(__name__)

SECONDS = 10.0
"""Time of a judgement, retries and those that take over included."""
MARGIN_SECONDS = 0.25
"""How long before the caller's deadline the fallback is given: after it nobody would hear it."""

_FAILED = "The model could not be asked, so the saved content is searched."
_LATE = "The model did not decide in time, so the saved content is searched."
_UNREADABLE = "The model's decision could not be read, so the saved content is searched."
_NO_REASON = "The model gave no reason."

_Plain: TypeAlias = WeakKeyDictionary[ChatProvider, set[str]]
"""Models that take no schema, or no temperature."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What came of asking.

    Attributes:
        text: What the model wrote; None if it failed, or if it isn't a language model.
        usage: Tokens spent.
        by_rule: Whether it isn't one.
        late: Whether the time was over.
    """

    text: str | None
    usage: Usage = field(default_factory=Usage)
    by_rule: bool = False
    late: bool = False


class _Judgement(Work):
    """A judgement, as the engine sees it. A provider without a language model is left to the rules."""

    def __init__(self, chain: Chain, purpose: Purpose, prompt: Prompt, plain: _Plain) -> None:
        self.chain = chain
        self.purpose = purpose
        self._prompt = prompt
        self._plain = plain
        self.text: str | None = None

    async def stream(self, chosen: Chosen) -> AsyncGenerator[Delta | End, None]:
        self.text = None
        if not chosen.model.remote:
            yield End(FinishReason.STOP, Usage())
            return
        completion = await self._complete(chosen)
        self.text = completion.text
        if completion.text:
            yield Delta((completion.text,))
        yield End(completion.finish_reason, None if completion.usage.estimated else completion.usage)

    def prompt_tokens(self) -> int:
        return estimate_messages(self._prompt.messages)

    def messages(self, chosen: Chosen) -> Sequence[Message]:
        return self._prompt.messages

    async def _complete(self, chosen: Chosen) -> Completion:
        """Asks one model: with a schema at temperature 0, or without, where it refuses that.

        A provider doesn't say in a way that could be relied on whether it is the schema or the temperature that its
        model doesn't take, so a refused request is made once more without them, as a part of the same attempt: what
        was refused isn't billed. That the model is so is remembered once it has worked.
        """
        plain = ChatTask(
            model=chosen.model.name,
            messages=self._prompt.messages,
            max_completion_tokens=self.max_output_tokens(chosen),
        )
        known = self._plain.setdefault(chosen.provider, set())
        if chosen.model.name in known:
            return await chosen.provider.complete(plain)
        try:
            task = replace(plain, temperature=0.0)
            return await chosen.provider.complete(task, json_schema=self._prompt.json_schema)
        except CitewireError as exc:
            if exc.reason != "PROVIDER_REJECTED":
                raise
        completion = await chosen.provider.complete(plain)
        log.info("judgement_plain", provider=chosen.title)
        known.add(chosen.model.name)
        return completion

    def max_output_tokens(self, chosen: Chosen) -> int:
        return min(self._prompt.max_tokens, chosen.model.max_completion_tokens or self._prompt.max_tokens)


class Reflector:
    """Decides, assesses, rewrites.

    Args:
        registry: The operator's models.
        engine: Makes the calls.
        lease: Opens tenant providers; None if this process takes none.
        seconds: Time of a judgement.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        engine: Engine | None = None,
        lease: LeaseProvider | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._registry = registry
        self._engine = engine or Engine()
        self._lease = lease
        self._seconds = seconds
        self._plain: _Plain = WeakKeyDictionary()

    async def decide(self, request: DecideRequest) -> Decision:
        """Decides whether a question needs retrieval; it does where that can't be found out.

        Raises:
            CitewireError: There is no such model, or the call isn't paid for.
        """
        async with open_chain(self._registry, self._lease, request) as chain:
            said = await self._ask(chain, Purpose.DECISION, decision_prompt(request.question))
        if said.by_rule:
            return heuristics.decide(request.question)
        if said.text is None:
            _count(Purpose.DECISION, fallback=True)
            return Decision(True, _LATE if said.late else _FAILED, said.usage, fallback=True)
        found = read_decision(said.text)
        _count(Purpose.DECISION, fallback=found is None)
        if found is None:
            return Decision(True, _UNREADABLE, said.usage, fallback=True)
        needed, reason = found
        return Decision(needed, reason or _NO_REASON, said.usage)

    async def assess(self, request: AssessRequest) -> Assessment:
        """Judges an answer; it counts as supported, of utility 0.7, where that can't be found out.

        Raises:
            CitewireError: There is no such model, or the call isn't paid for.
        """
        async with open_chain(self._registry, self._lease, request) as chain:
            said = await self._ask(chain, Purpose.ASSESSMENT, assessment_prompt(request, chain))
        if said.by_rule:
            return await asyncio.to_thread(heuristics.assess, request.question, request.answer, request.passages)
        found = None if said.text is None else read_assessment(said.text)
        _count(Purpose.ASSESSMENT, fallback=found is None)
        if found is None:
            return Assessment(True, FALLBACK_UTILITY, said.usage, fallback=True)
        return Assessment(*found, said.usage)

    async def rewrite(self, request: RewriteRequest) -> Rewritten:
        """Says a question in other words; it stays as it is where they can't be had.

        Raises:
            CitewireError: There is no such model, or the call isn't paid for.
        """
        condensing = request.kind is RewriteKind.CONDENSE
        if condensing and not request.history:
            return Rewritten(request.question)
        prompt = (
            condensation_prompt(request.question, request.history) if condensing else passage_prompt(request.question)
        )
        async with open_chain(self._registry, self._lease, request) as chain:
            said = await self._ask(chain, Purpose.REWRITING, prompt)
        if said.by_rule:
            return (
                heuristics.condense(request.question, request.history)
                if condensing
                else heuristics.hypothesise(request.question)
            )
        text = "" if said.text is None else (read_condensed if condensing else read_passage)(said.text)
        _count(Purpose.REWRITING, fallback=not text)
        return Rewritten(text or request.question, said.usage, fallback=not text)

    async def _ask(self, chain: Chain, purpose: Purpose, prompt: Prompt) -> _Said:
        """Asks the models of a chain, within the time of a judgement and of the caller."""
        work = _Judgement(chain, purpose, prompt, self._plain)
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
            return _Said(None, late=True)
        except CitewireError as exc:
            if exc.reason not in TAKEN_OVER:
                raise
            log.warning("judgement_failed", purpose=purpose.value, reason=exc.reason)
            return _Said(None, late=exc.reason == "PROVIDER_TIMEOUT")
        return _Said(work.text, usage, by_rule=work.text is None)


def _count(purpose: Purpose, *, fallback: bool) -> None:
    metrics.JUDGEMENTS.labels(purpose.value, "fallback" if fallback else "judged").inc()
