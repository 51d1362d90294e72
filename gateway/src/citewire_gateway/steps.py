"""Sentences that the pipeline itself says: steps, the no-match answer, suggested questions."""

from collections.abc import Mapping, Sequence

from citewire_gateway.domain import Vector
from citewire_gateway.events import Step
from citewire_gateway.profiles import NoMatch, Suggest

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
