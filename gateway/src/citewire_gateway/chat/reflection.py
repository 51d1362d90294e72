"""What the pipeline asks a model about a question or an answer, besides the answer itself.

None of these may cost an answer: where a call fails, the documented default stands in and says so.
"""

from collections.abc import Sequence

from citewire_gateway.chat.run import Ask
from citewire_gateway.clients.domain import Hit
from citewire_gateway.clients.generation import Assessment, Decision, Message, RewriteKind, Rewritten
from citewire_gateway.clients.ports import Generator
from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

FALLBACK_UTILITY = 0.7
"""Utility of an answer that could not be assessed."""


class Reflection:
    """Decides, assesses and rewrites with the generator."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    async def decide(self, ask: Ask) -> Decision:
        """Returns whether the question needs retrieval; it does where that can't be found out."""
        try:
            return await self._generator.decide(ask.question, ask.model, ask.own)
        except CitewireError as exc:
            log.warning("decision_failed", reason=exc.reason, error=exc.message)
            return Decision(True, "No decision could be had, so the documents are searched.", fallback=True)

    async def assess(self, ask: Ask, answer: str, passages: Sequence[Hit]) -> Assessment:
        """Returns whether the passages support the answer, and how useful it is."""
        try:
            return await self._generator.assess(ask.question, answer, passages, ask.model, ask.own)
        except CitewireError as exc:
            log.warning("assessment_failed", reason=exc.reason, error=exc.message)
            return Assessment(supported=True, utility=FALLBACK_UTILITY, fallback=True)

    async def rewrite(self, kind: RewriteKind, ask: Ask, question: str, history: Sequence[Message]) -> Rewritten | None:
        """Returns the question in other words; None where they can't be had."""
        try:
            rewritten = await self._generator.rewrite(kind, question, history, ask.model, ask.own)
        except CitewireError as exc:
            log.warning("rewrite_failed", kind=kind.value, reason=exc.reason, error=exc.message)
            return None
        return rewritten if rewritten.text.strip() else None
