"""The pipeline's own sentences: steps, the no-match answer, suggested questions."""

from collections.abc import Mapping, Sequence

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2, table_pb2

from citewire_dialects.events import Step
from citewire_dialects.profile import NoMatch, Suggest
from citewire_gateway.chat.retrieval import WHOLE_ITEM_PATHS, Reranking
from citewire_kit.enums import enum_text
from citewire_kit.errors import CitewireError

_FINISHES: Mapping[str, str] = {
    "length": "The answer was cut at the model's length limit.",
    "content_filter": "The model provider's content filter cut the answer.",
    "refusal": "The model refused to answer.",
}


def truncated_step(tokens: int) -> Step:
    """Reports that only the beginning of a long question was used to search."""
    return Step(
        "question_truncated",
        f"The question is longer than the embedding model can read ({tokens} tokens): "
        "only its beginning was used to search. The model that answers gets all of it.",
    )


def path_step(plan: retriever_pb2.PlanResponse, counts: retriever_pb2.ScopeCounts, given: int, matches: int) -> Step:
    """Reports the context path, its reason, and how many items the model was given.

    Args:
        plan: The retriever's decision.
        counts: Counts of the items in scope.
        given: Number of items in the prompt.
        matches: Number of available items: those in scope, or those that a search found.
    """
    whole_items = plan.path in WHOLE_ITEM_PATHS
    path, trimmed = plan.path, max(0, matches - given)
    if path == retriever_pb2.CONTEXT_PATH_LONG_CONTEXT and trimmed:
        path = retriever_pb2.CONTEXT_PATH_LONG_CONTEXT_TRIM  # the plan only considered the texts, not their labels
    text = plan.reason
    if counts.items:
        text += f" The model was given {given:,} of {_count(counts.items, 'item')}"
        if trimmed and whole_items:
            text += f", the most recent ones; {trimmed:,} did not fit."
        else:
            text += f"; {trimmed:,} more were found and did not fit." if trimmed else "."
    return Step(
        "context_path",
        text,
        path=enum_text(retriever_pb2.ContextPath, path),
        counts={
            "items": counts.items,
            "kept": given,
            "trimmed": trimmed,
            "without_embedding": counts.without_embedding,
        },
        reason=plan.reason,
    )


def condensed_step(question: str) -> Step:
    """Reports how a follow-up was understood."""
    return Step("question_condensed", f"The follow-up was understood as: {question}")


def filter_derived_step(phrases: Sequence[str]) -> Step:
    """Reports the filter that was derived from the question."""
    return Step("filter_derived", f"Only what the question names was searched: {', '.join(phrases)}.")


def filter_dropped_step(phrases: Sequence[str]) -> Step:
    """Reports that nothing matched the derived filter."""
    return Step("filter_dropped", f"Nothing matches {', '.join(phrases)}: everything in scope was searched instead.")


def computed_step(document: str, answer: table_pb2.TableAnswer, *, by_model: bool) -> Step:
    """Reports what was computed from a document's table, and whether a model wrote the query."""
    sheet = f", sheet {answer.sheet}" if answer.sheet else ""
    origin = " The query is the model's reading of the question." if by_model else ""
    return Step("table_computed", f"Computed from {document}{sheet}: {answer.understood}.{origin}")


def reranked_step(ranking: Reranking, seconds: float) -> Step:
    """Reports how many of the results were reranked, and the time limit if it was reached."""
    scored, candidates = ranking.scored, ranking.candidates
    text = f"{scored} of {_count(candidates, 'result')} {'was' if scored == 1 else 'were'} ranked a second time."
    if scored < candidates:
        text = text[:-1] + f" within {seconds:g} s; the others follow in the first order."
    return Step("reranked", text, counts={"candidates": candidates, "ranked": scored})


def rerank_failed_step(error: CitewireError) -> Step:
    """Reports that reranking failed."""
    text = f"The results could not be ranked a second time: the first ranking stands.{_provider_at_fault(error)}"
    return Step("rerank_failed", text, reason=error.reason)


def relevance_step(passages: int, judged: int, irrelevant: int) -> Step:
    """Reports how many passages the model left out as irrelevant."""
    left_out = "1 of them is" if irrelevant == 1 else f"{irrelevant} of them are"
    text = f"The model judged {_count(judged, 'passage')}: {left_out} left out"
    text += f"; its window had no room for the other {passages - judged}." if judged < passages else "."
    return Step("relevance_judged", text, counts={"passages": passages, "judged": judged, "left_out": irrelevant})


def relevance_failed_step(
    error: CitewireError | None = None, failure: generator_pb2.JudgementFailure | None = None, *, no_model: bool = False
) -> Step:
    """Reports that no passage was left out, and why the model didn't judge them."""
    text = "The model could not judge the passages: all of them are kept."
    if no_model:
        text = "There is no language model to judge the passages: all of them are kept."
    reason = _reason(error, failure)
    return Step("relevance_not_judged", text + _at_fault(error, failure), reason=reason)


def decision_failed_step(
    failure: generator_pb2.JudgementFailure | None = None, error: CitewireError | None = None
) -> Step:
    """Reports that the model didn't decide whether the question needs retrieval, and which provider failed."""
    text = "The model could not decide whether the documents are needed."
    if failure is None or failure.error_reason:  # otherwise a rule decided
        text = "The model could not decide whether the documents are needed, so they are searched."
    return Step("decision_failed", text + _at_fault(error, failure), reason=_reason(error, failure))


def suggestions_failed_step(error: CitewireError | None = None) -> Step:
    """Reports that suggested questions aren't from a model, or that there are none."""
    if error is None:
        text = "The model could not suggest questions to ask instead: these name topics of the passages."
        return Step("suggestions_failed", text)
    text = "Questions to ask instead could not be suggested." + _provider_at_fault(error)
    return Step("suggestions_failed", text, reason=error.reason)


def _at_fault(error: CitewireError | None, failure: generator_pb2.JudgementFailure | None) -> str:
    """Which provider and model failed, if known."""
    if error is not None:
        return _provider_at_fault(error)
    if failure is None or not failure.model:
        return ""
    return f" The model provider {failure.provider} failed (model {failure.model})."


def _reason(error: CitewireError | None, failure: generator_pb2.JudgementFailure | None) -> str | None:
    return (error.reason if error is not None else failure.error_reason if failure is not None else "") or None


def _provider_at_fault(error: CitewireError) -> str:
    """Which provider and model failed and how, if it was a provider's failure."""
    if "model" not in error.metadata:
        return ""
    return f" {error.message[:1].upper()}{error.message[1:]}."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def finish_step(finish_reason: str) -> Step | None:
    """Reports why an answer ended early; None if it didn't."""
    text = _FINISHES.get(finish_reason)
    return None if text is None else Step("finish", text, reason=finish_reason)


def no_match_answer(no_match: NoMatch, not_ready: int, *, empty_library: bool) -> str:
    """The answer if nothing was found: the exact sentence, then suggestions."""
    suggestions = list(no_match.empty_library if empty_library else no_match.suggestions)
    if not_ready:
        suggestions.insert(0, no_match.still_ingesting.format(count=not_ready))
    return no_match.sentence + "\n\n" + "\n".join(f"- {suggestion}" for suggestion in suggestions)


def suggestions_text(suggest: Suggest, given: int, questions: Sequence[str], answer: str) -> str:
    """The text to append to a not-found answer that already offers `given` questions; "" for none."""
    answer = answer.casefold()
    new = [question for question in dict.fromkeys(questions) if question.casefold() not in answer]
    new = new[: suggest.count - given]
    if not new:
        return ""
    # A list begun by the answer is continued; otherwise a new one begins below its heading.
    opening = "\n" if given else f"\n\n{suggest.heading}\n"
    return opening + "\n".join(f"- {question}" for question in new)
