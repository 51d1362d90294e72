"""Asks every judged question of the search, in one mode."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from citewire_cli.errors import CliError
from citewire_cli.evaluation.datasets import Dataset, Question
from citewire_cli.evaluation.filling import Filled
from citewire_cli.evaluation.gateway import EvaluationError, Failures, Gateway, Progress
from citewire_cli.jsonio import JsonObject, get_float, get_int, get_objects, get_str

RERANK_SUFFIX = "+rerank"
RERANKED = 40
"""Results that are put into a new order, as many as a search for 10 has the rerank model look at."""


@dataclass(frozen=True, slots=True)
class SearchMode:
    """How to search.

    Attributes:
        mode: `dense`, `lexical` or `hybrid`.
        rerank: Whether a rerank model orders the results.
        dense_weight: Of hybrid, 0–1; None is the space's.
    """

    mode: str
    rerank: bool = False
    dense_weight: float | None = None

    @classmethod
    def parse(cls, name: str) -> "SearchMode":
        """Reads `hybrid` or `hybrid+rerank`."""
        return cls(name.removesuffix(RERANK_SUFFIX), name.endswith(RERANK_SUFFIX))

    def __str__(self) -> str:
        """As it was given."""
        weight = "" if self.dense_weight is None else f" {self.dense_weight:g}"
        return f"{self.mode}{RERANK_SUFFIX}" if self.rerank else f"{self.mode}{weight}"


@dataclass(frozen=True, slots=True)
class Found:
    """What a question found.

    Attributes:
        ranking: Ids of documents (or of judged parts), best first.
        gold: Best cosine similarity of a relevant one; None if none was found, or the mode has no similarities.
        other: The same of one that isn't relevant.
        seconds: How long the search took.
        gold_rank: Rank of the first relevant one, from 1; None if none was found.
    """

    ranking: tuple[str, ...]
    gold: float | None
    other: float | None
    seconds: float
    gold_rank: int | None


@dataclass(slots=True)
class SearchRun:
    """Every question in one mode, by question id; `depth` is how many results were asked for."""

    mode: SearchMode
    failures: Failures
    depth: int = 100
    found: dict[str, Found] = field(default_factory=dict[str, Found])


async def search_all(
    gateway: Gateway,
    dataset: Dataset,
    filled: Filled,
    mode: SearchMode,
    top_k: int,
    by_chunk: bool,
    progress: Progress,
) -> SearchRun:
    """Searches for every answerable question.

    A failed search is named in the run; it counts as one that found nothing.

    Raises:
        CliError: The gateway is gone or doesn't let us in.
    """
    failures = Failures(f"{dataset.name}, {mode}")
    run = SearchRun(mode, failures, min(top_k, RERANKED) if mode.rerank else top_k)
    questions = [question for question in dataset.answerable if not by_chunk or question.spans]
    done = 0

    async def ask(question: Question) -> None:
        nonlocal done
        body: JsonObject = {
            "query": question.text,
            "top_k": run.depth,
            "mode": mode.mode,
            "collection": filled.collection,
        }
        if mode.rerank:
            body["rerank"] = True
        if mode.dense_weight is not None:
            body["dense_weight"] = mode.dense_weight
        if not by_chunk:
            body["group_by"] = "document"
        try:
            answer = await gateway.timed("POST", "/v1/search", body=body)
        except CliError as error:
            run.failures.add(question.question_id, error)
        else:
            run.failures.good()
            hits = get_objects(answer.body, "results")
            run.found[question.question_id] = _read(question, hits, filled.ids, answer.seconds, by_chunk)
        done += 1
        progress(f"search {mode}", done, len(questions))

    await gateway.for_each(questions, ask)
    return run


def _read(question: Question, hits: list[JsonObject], ids: Mapping[int, str], seconds: float, by_chunk: bool) -> Found:
    ranking: dict[str, None] = {}
    best: dict[bool, float] = {}
    gold_rank: int | None = None
    for rank, hit in enumerate(hits, start=1):
        eval_id = _document_of(hit, ids)
        keys = _spans_in(question, eval_id, get_str(hit, "content")) if by_chunk else [eval_id]
        relevant = bool(keys) if by_chunk else eval_id in question.gold
        if relevant and gold_rank is None:
            gold_rank = rank
        for key in keys or [f"{eval_id}#{get_str(hit, 'chunk_id')}"]:
            ranking.setdefault(key)
        similarity = get_float(hit, "similarity")
        if similarity is not None:
            best[relevant] = max(similarity, best.get(relevant, similarity))
    return Found(tuple(ranking), best.get(True), best.get(False), seconds, gold_rank)


def _document_of(hit: JsonObject, ids: Mapping[int, str]) -> str:
    number = get_int(hit, "document_id")
    if number is None or number not in ids:
        raise EvaluationError(f"the search found document {number}, which isn't of the data set's collection")
    return ids[number]


def _spans_in(question: Question, eval_id: str, content: str) -> list[str]:
    """The judged parts that a chunk holds whole; white space counts as one blank, as chunks may break lines anew."""
    flat = _flat(content)
    return [span.key for span in question.spans if span.eval_id == eval_id and _flat(span.text) in flat]


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
