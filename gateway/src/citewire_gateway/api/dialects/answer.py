"""`"stream": false` on `POST /v1/chat`: the whole chat as one JSON body."""

from collections.abc import Collection
from typing import Any

from citewire_gateway.api.dialects.base import AnswerDialect
from citewire_gateway.api.wire import (
    assessment_json,
    citation_json,
    decision_json,
    source_json,
    step_json,
    uncited_json,
    usage_json,
    verified_json,
)
from citewire_gateway.chat.events import (
    Assessment,
    Citations,
    Decision,
    Done,
    Event,
    Outcome,
    Sources,
    Tokens,
    UncitedSentence,
    Usage,
    VerifiedCitation,
)
from citewire_gateway.profiles.model import EventType


class JsonAnswer(AnswerDialect):
    """Answer, citations, usage, and how it came about."""

    def __init__(self, events: Collection[EventType]) -> None:
        """`events`: what this answer may hold."""
        self._events = frozenset(events)
        self._texts: list[str] = []
        self._verified: list[dict[str, Any]] = []
        self._uncited: list[dict[str, Any]] = []
        self._body: dict[str, Any] = {"citations": []}
        self._outcome: Outcome | None = None

    def add(self, event: Event) -> None:
        """See `AnswerDialect.add`."""
        match event:
            case Tokens(texts=texts):
                self._texts.extend(texts)
            case Citations(citations=citations):
                self._body["citations"] = [citation_json(citation) for citation in citations]
            case Sources(citations=citations):
                self._body["sources"] = [source_json(citation) for citation in citations]
            case VerifiedCitation():
                self._verified.append(verified_json(event))
            case UncitedSentence():
                self._uncited.append(uncited_json(event))
            case Decision():
                self._body["decision"] = decision_json(event)
            case Assessment():
                self._body["assessment"] = assessment_json(event)
            case Usage():
                self._body["usage"] = usage_json(event)
            case Done(outcome=outcome):
                self._outcome = outcome
            case _:
                pass  # the conversation and the steps are in the outcome

    def body(self) -> dict[str, Any]:
        """See `AnswerDialect.body`."""
        outcome = self._outcome
        if outcome is None:
            raise RuntimeError("the chat isn't done")
        head = {"conversation_id": outcome.conversation_id} if outcome.conversation_id else {}
        return {
            **head,
            "exchange_id": outcome.exchange_id,
            "profile": outcome.profile,
            "answer": "".join(self._texts),
            **self._body,
            **({"verified": self._verified} if EventType.CITATION in self._events else {}),
            **({"uncited": self._uncited} if EventType.UNCITED in self._events else {}),
            "not_found": outcome.not_found,
            **({} if outcome.answerable_score is None else {"answerable_score": outcome.answerable_score}),
            "finish_reason": outcome.finish_reason,
            "provider": outcome.provider or None,
            "model": outcome.model or None,
            "steps": [step_json(step) for step in outcome.steps],
        }
