"""Sentences that the pipeline itself says: steps, the no-match answer, suggested questions."""

from collections.abc import Mapping, Sequence

from citewire_gateway.chat.events import Step
from citewire_gateway.chat.retrieval import LONG_PATHS
from citewire_gateway.clients.domain import Plan, ScopeCounts, Vector
from citewire_gateway.profiles.model import NoMatch, Suggest

_FINISHES: Mapping[str, str] = {
    "length": "The answer was cut at the model's length limit.",
    "content_filter": "The model provider's content filter cut the answer.",
    "refusal": "The model refused to answer.",
}


def truncated_step(vector: Vector) -> Step:
    """Says that only the question's beginning was used to search."""
    return Step(
        "question_truncated",
        f"The question is longer than the embedding model reads ({vector.token_count} tokens): "
        "only its beginning was used to search. The model that answers gets all of it.",
    )


def path_step(plan: Plan, counts: ScopeCounts, kept: int) -> Step:
    """Says which context path was taken, why, and how many items the model was given."""
    trimmed = max(0, counts.items - kept) if plan.path in LONG_PATHS else counts.trimmed
    text = plan.reason
    if plan.path in LONG_PATHS:
        text += f" The model was given {_count(kept, 'item')}"
        text += f", the most recent ones; {_count(trimmed, 'item')} did not fit." if trimmed else "."
    else:
        text += f" The model was given {_count(kept, 'item')} of {counts.items}."
    return Step(
        "context_path",
        text,
        path=plan.path,
        counts={
            "items": counts.items,
            "kept": kept,
            "trimmed": trimmed,
            "without_embedding": counts.without_embedding,
        },
        reason=plan.reason,
    )


def condensed_step(question: str) -> Step:
    """Says what a follow-up was understood as."""
    return Step("question_condensed", f"The follow-up was understood as: {question}")


def filter_derived_step(words: Sequence[str]) -> Step:
    """Says what the search was narrowed to because the question said so."""
    return Step("filter_derived", f"Only what the question names was searched: {', '.join(words)}.")


def filter_dropped_step(words: Sequence[str]) -> Step:
    """Says that such a narrowing left nothing."""
    return Step("filter_dropped", f"Nothing matches {', '.join(words)}: everything in scope was searched instead.")


def rerank_failed_step(reason: str) -> Step:
    """Says that the second ranking was left out."""
    return Step(
        "rerank_failed", "The results could not be ranked a second time: the first ranking stands.", reason=reason
    )


def suggestions_failed_step(reason: str) -> Step:
    """Says that the offer to go on is missing."""
    return Step("suggestions_failed", "Questions to ask instead could not be suggested.", reason=reason)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def finish_step(finish_reason: str) -> Step | None:
    """Says why an answer ended early; None if it didn't."""
    text = _FINISHES.get(finish_reason)
    return None if text is None else Step("finish", text, reason=finish_reason)


def no_match_answer(no_match: NoMatch, not_ready: int) -> str:
    """The answer where nothing was found: the exact sentence, then what one could do."""
    suggestions = list(no_match.suggestions)
    if not_ready:
        suggestions.insert(0, no_match.still_ingesting.format(count=not_ready))
    return no_match.sentence + "\n\n" + "\n".join(f"- {suggestion}" for suggestion in suggestions)


def suggestions_text(suggest: Suggest, given: int, questions: Sequence[str], answer: str) -> str:
    """What is added to a not-found answer that offers `given` questions already; "" if there is nothing to add."""
    said = answer.casefold()
    new = [question for question in dict.fromkeys(questions) if question.casefold() not in said]
    new = new[: suggest.wanted - given]
    if not new:
        return ""
    # A list that the answer has begun goes on; otherwise it begins, under its heading.
    opening = "\n" if given else f"\n\n{suggest.heading}\n"
    return opening + "\n".join(f"- {question}" for question in new)
