"""Decisions, assessments and rewritings."""

from typing import TypedDict

from citewire.common.v1.common_pb2 import ProviderRef
from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.converters.fields import (
    CHAT,
    check_name,
    check_question,
    check_text,
    from_usage,
    to_enum,
    to_fallbacks,
    to_history,
    to_passages,
)
from citewire_generator.reflection.values import (
    Assessment,
    AssessRequest,
    DecideRequest,
    Decision,
    RewriteKind,
    RewriteRequest,
    Rewritten,
)
from citewire_kit.errors import Violations
from citewire_remote.converters import ref_from_proto

MAX_ANSWER_BYTES = 1024 * 1024
_KINDS: dict[int, RewriteKind] = {
    pb.REWRITE_KIND_CONDENSE: RewriteKind.CONDENSE,
    pb.REWRITE_KIND_HYDE: RewriteKind.HYDE,
}


def to_decide(request: pb.DecideRequest) -> DecideRequest:
    """Checks and converts a request of Decide.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    check_question(v, request.question)
    asked = _asked(v, request)
    v.raise_if_any()
    return DecideRequest(request.question, **asked)


def to_assess(request: pb.AssessRequest) -> AssessRequest:
    """Checks and converts a request of Assess.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    check_question(v, request.question)
    if v.require(bool(request.answer.strip()), "answer", "must hold more than white space"):
        check_text(v, request.answer, "answer", MAX_ANSWER_BYTES)
    passages = to_passages(v, request.passages)
    asked = _asked(v, request)
    v.raise_if_any()
    return AssessRequest(request.question, request.answer, passages, **asked)


def to_rewrite(request: pb.RewriteRequest) -> RewriteRequest:
    """Checks and converts a request of Rewrite.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    kind = to_enum(v, request.kind, _KINDS, "kind", RewriteKind.CONDENSE)
    check_question(v, request.question)
    history = to_history(v, request.history)
    if request.kind == pb.REWRITE_KIND_CONDENSE:
        v.require(len(request.history) > 0, "history", "must hold a message: there is nothing to condense")
    asked = _asked(v, request)
    v.raise_if_any()
    return RewriteRequest(kind, request.question, history, **asked)


def from_decision(decision: Decision) -> pb.DecideResponse:
    """Converts a decision."""
    return pb.DecideResponse(
        needs_retrieval=decision.needs_retrieval,
        reason=decision.reason,
        usage=from_usage(decision.usage),
        fallback=decision.fallback,
        heuristic=decision.heuristic,
    )


def from_assessment(assessment: Assessment) -> pb.AssessResponse:
    """Converts an assessment."""
    return pb.AssessResponse(
        supported=assessment.supported,
        utility=assessment.utility,
        fallback=assessment.fallback,
        usage=from_usage(assessment.usage),
        heuristic=assessment.heuristic,
    )


def from_rewritten(rewritten: Rewritten) -> pb.RewriteResponse:
    """Converts a question in other words."""
    return pb.RewriteResponse(
        text=rewritten.text,
        usage=from_usage(rewritten.usage),
        fallback=rewritten.fallback,
        heuristic=rewritten.heuristic,
    )


class _Asked(TypedDict):
    model: str
    provider: ProviderRef | None
    fallbacks: tuple[str | ProviderRef, ...]


def _asked(v: Violations, request: pb.DecideRequest | pb.AssessRequest | pb.RewriteRequest) -> _Asked:
    """Who is to judge."""
    check_name(v, request.model, "model")
    return _Asked(
        model=request.model,
        provider=ref_from_proto(v, request.provider, "provider", CHAT) if request.HasField("provider") else None,
        fallbacks=to_fallbacks(v, request.fallbacks),
    )
