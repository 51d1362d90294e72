"""What the pipeline asks a model about a question or an answer, besides the answer itself.

None of these may cost an answer: where a call fails, the documented default stands in and says so.
"""

from collections.abc import Sequence

from citewire.generator.v1 import generator_pb2

from citewire_gateway.chat.run import ChatInput
from citewire_gateway.clients.generator import Generator
from citewire_kit.enums import enum_text
from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

FALLBACK_UTILITY = 0.7
"""Utility of an answer that could not be assessed."""


class Reflection:
    """Decides, assesses and rewrites with the generator."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    async def decide(self, chat: ChatInput) -> generator_pb2.DecideResponse:
        """Returns whether the question needs retrieval; it does where that can't be found out."""
        request = generator_pb2.DecideRequest(
            question=chat.question, model=chat.model, provider=chat.route.chat, fallbacks=chat.route.fallbacks
        )
        try:
            return await self._generator.decide(request)
        except CitewireError as exc:
            log.warning("decision_failed", reason=exc.reason, error=exc.message)
            reason = "No decision could be had, so the documents are searched."
            return generator_pb2.DecideResponse(needs_retrieval=True, reason=reason, fallback=True)

    async def assess(
        self, chat: ChatInput, answer: str, passages: Sequence[generator_pb2.Passage]
    ) -> generator_pb2.AssessResponse:
        """Returns whether the passages support the answer, and how useful it is."""
        request = generator_pb2.AssessRequest(
            question=chat.question,
            answer=answer,
            passages=passages,
            model=chat.model,
            provider=chat.route.chat,
            fallbacks=chat.route.fallbacks,
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
        """Returns the question in other words; None where they can't be had."""
        request = generator_pb2.RewriteRequest(
            kind=kind,
            question=question,
            history=history,
            model=chat.model,
            provider=chat.route.chat,
            fallbacks=chat.route.fallbacks,
        )
        try:
            response = await self._generator.rewrite(request)
        except CitewireError as exc:
            kind_text = enum_text(generator_pb2.RewriteKind, kind)
            log.warning("rewrite_failed", kind=kind_text, reason=exc.reason, error=exc.message)
            return None
        return response if response.text.strip() else None
