"""Details stored with an answer, from its run."""

from citewire.generator.v1 import generator_pb2
from pydantic import MISSING

from citewire_dialects.events import Usage
from citewire_dialects.schemas.chat import (
    AnswerDetails,
    Assessment,
    Citation,
    Decision,
    StoredUsage,
    UncitedSentence,
    VerifiedCitation,
)
from citewire_gateway.chat.run import ChatRun


def answer_details(run: ChatRun, usage: generator_pb2.TokenUsage, *, done: bool) -> AnswerDetails:
    """Returns a chat's final details and usage; `done`: whether its answer is complete."""
    outcome, policy = run.outcome(), run.chat.profile.answer
    tokens = Usage(run.embedding_tokens, usage.prompt_tokens, usage.completion_tokens, cost_usd=run.cost_usd)
    verified = [VerifiedCitation.read(event) for event in run.verified]
    uncited = [UncitedSentence.read(event) for event in run.uncited]
    return AnswerDetails.read(
        outcome,
        decision=MISSING if run.decision is None else Decision.read(run.decision),
        assessment=MISSING if run.assessment is None else Assessment.read(run.assessment),
        verified=verified if policy.verify_citations else MISSING,
        uncited=uncited if policy.flag_uncited else MISSING,
        citations=[Citation.read(citation) for citation in run.citations],
        history=len(run.history),
        request=MISSING if run.chat.request is None else dict(run.chat.request),
        usage=StoredUsage.read(
            tokens,
            estimated=True if usage.estimated else MISSING,
            cached_prompt_tokens=usage.cached_prompt_tokens or MISSING,
            cache_write_prompt_tokens=usage.cache_write_prompt_tokens or MISSING,
        ),
        finish_reason=outcome.finish_reason if done or run.completed is not None else MISSING,
    )
