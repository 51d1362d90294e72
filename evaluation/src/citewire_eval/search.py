"""Searches for every answerable question, and records the ranked results."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from citewire_cli.errors import CliError
from citewire_cli.jsonio import JsonObject, get_float, get_int, get_object, get_objects, get_str
from citewire_eval.client import EvaluationError, Failures, Progress, RetryingClient
from citewire_eval.collection import Collection
from citewire_eval.datasets.model import Dataset, Question

RERANK_SUFFIX = "+rerank"
RERANK_DEPTH = 40
"""Number of results to rerank: as many as a search for 10 passes to the rerank model."""


@dataclass(frozen=True, slots=True)
class SearchMode:
    """How to search."""

    mode: str
    """`dense`, `lexical` or `hybrid`."""
    rerank: bool = False
    """Whether a rerank model reorders the results."""
    dense_weight: float | None = None
    """Weight of dense search in hybrid search, 0–1; None uses the weight of the space."""
    rerank_seconds: float | None = None
    """Time limit of the rerank model; None uses the server's default."""

    @classmethod
    def parse(cls, name: str) -> "SearchMode":
        """Reads `hybrid` or `hybrid+rerank`."""
        return cls(name.removesuffix(RERANK_SUFFIX), name.endswith(RERANK_SUFFIX))

    def __str__(self) -> str:
        """The name in the form that `parse` reads, with the weight if there is one."""
        weight = "" if self.dense_weight is None else f" {self.dense_weight:g}"
        seconds = "" if self.rerank_seconds is None else f" {self.rerank_seconds:g} s"
        return f"{self.mode}{RERANK_SUFFIX}{seconds}" if self.rerank else f"{self.mode}{weight}"


@dataclass(frozen=True, slots=True)
class Ranking:
    """The results of a search for one question."""

    keys: tuple[str, ...]
    """Ids of documents (or of judged parts), best first."""
    gold: float | None
    """Best cosine similarity of a relevant result; None if there is no such result or the mode has no similarities."""
    other: float | None
    """Best cosine similarity of a result that isn't relevant; None likewise."""
    seconds: float
    """How long the search took."""
    ranked: float | None = None
    """Share of the candidates that the rerank model had time to score; None without a rerank model."""
    off_topic: bool | None = None
    """Whether the search judged all results off topic; None in a mode that can't judge this."""


@dataclass(slots=True)
class SearchRun:
    """The rankings of all questions in one mode, by question id; `depth` is the number of results requested."""

    mode: SearchMode
    failures: Failures
    depth: int = 100
    rankings: dict[str, Ranking] = field(default_factory=dict[str, Ranking])


async def run_searches(
    client: RetryingClient,
    dataset: Dataset,
    collection: Collection,
    mode: SearchMode,
    top_k: int,
    by_chunk: bool,
    progress: Progress,
) -> SearchRun:
    """Searches for every answerable question; a question whose search failed counts as having no results.

    Raises:
        CliError: The gateway is unreachable or rejects the request.
    """
    run = SearchRun(mode, Failures(f"{dataset.name}, {mode}"), min(top_k, RERANK_DEPTH) if mode.rerank else top_k)
    questions = [question for question in dataset.answerable if not by_chunk or question.spans]
    done = 0

    async def search(question: Question) -> None:
        nonlocal done
        body: JsonObject = {
            "query": question.text,
            "top_k": run.depth,
            "mode": mode.mode,
            **collection.scope,
        }
        if mode.rerank:
            body["rerank"] = True
        if mode.rerank_seconds is not None:
            body["rerank_seconds"] = mode.rerank_seconds
        if mode.dense_weight is not None:
            body["dense_weight"] = mode.dense_weight
        if not by_chunk:
            body["group_by"] = "document"
        try:
            answer, seconds = await client.post_timed("/v1/search", body)
        except CliError as error:
            run.failures.add(question.question_id, error)
        else:
            run.failures.add_success()
            results = get_objects(answer, "results")
            ranking = _rank(question, results, collection.doc_ids, seconds, by_chunk)
            run.rankings[question.question_id] = replace(
                ranking, ranked=_ranked_share(answer), off_topic=_is_off_topic(answer, mode)
            )
        done += 1
        progress(f"search {mode}", done, len(questions))

    await client.for_each(questions, search)
    return run


def _ranked_share(answer: JsonObject) -> float | None:
    reranking = get_object(answer, "rerank")
    candidates, ranked = get_int(reranking, "candidates"), get_int(reranking, "ranked")
    return ranked / candidates if candidates and ranked is not None else None


def _is_off_topic(answer: JsonObject, mode: SearchMode) -> bool | None:
    return None if mode.mode == "lexical" or "off_topic" not in answer else answer["off_topic"] is True


def _rank(
    question: Question, results: list[JsonObject], doc_ids: Mapping[int, str], seconds: float, by_chunk: bool
) -> Ranking:
    ranking: dict[str, None] = {}
    best: dict[bool, float] = {}
    for result in results:
        number = get_int(result, "document_id")
        if number is None or number not in doc_ids:
            raise EvaluationError(f"the search returned document {number}, which isn't in the data set's collection")
        doc_id = doc_ids[number]
        keys = _spans_in(question, doc_id, get_str(result, "content")) if by_chunk else [doc_id]
        for key in keys or [f"{doc_id}#{get_str(result, 'chunk_id')}"]:
            ranking.setdefault(key)
        relevant = bool(keys) if by_chunk else doc_id in question.gold
        similarity = get_float(result, "similarity")
        if similarity is not None:
            best[relevant] = max(similarity, best.get(relevant, similarity))
    return Ranking(tuple(ranking), best.get(True), best.get(False), seconds)


def _spans_in(question: Question, doc_id: str, content: str) -> list[str]:
    """The judged parts that a chunk contains completely; white space is normalised, as chunks may rebreak lines."""
    flat = _flat(content)
    return [span.key for span in question.spans if span.doc_id == doc_id and _flat(span.text) in flat]


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
