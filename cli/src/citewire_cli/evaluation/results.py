"""What a run has found: rows of measures with their values per question, and how they are stored."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from citewire_cli.evaluation.answering import Answered, AnswerRun, Kind
from citewire_cli.evaluation.datasets import Dataset
from citewire_cli.evaluation.gateway import Failure
from citewire_cli.evaluation.measures import RETRIEVAL, PerQuery, judge, latency_ms, mean
from citewire_cli.evaluation.not_found import NotFound, judge_not_found
from citewire_cli.evaluation.searching import SearchRun
from citewire_cli.evaluation.written import write_whole
from citewire_cli.jsonio import JsonObject, as_object, get_float, get_int, get_object, get_objects, get_str

SCHEMA = "citewire.eval/1"
ANSWER_MEASURES = ("answered", "answer_present", "answer_f1", "answer_recall", "citation_precision", "citation_recall")
QUOTE_MEASURES = ("quote_verbatim", "supported", "partial", "unsupported", "uncited")
NOT_FOUND_MEASURES = ("not_found_precision", "not_found_recall", "not_found_f1", "false_not_found")
SCORE_MEASURES = ("not_found_auc", "not_found_recall_at_10")
LEFT_OUT = "@left_out"
LOWER_IS_BETTER = frozenset({"false_not_found", "unsupported", "uncited"})
MEASURES = (
    *RETRIEVAL,
    *ANSWER_MEASURES,
    *QUOTE_MEASURES,
    *(name + suffix for suffix in ("", LEFT_OUT) for name in (*NOT_FOUND_MEASURES, *SCORE_MEASURES)),
)
"""Every measure that a row may have."""


@dataclass(frozen=True, slots=True)
class Row:
    """One data set, searched in one mode or answered by one profile.

    Attributes:
        dataset: The data set's name.
        part: What was measured.
        label: The mode or the profile.
        questions: Questions asked.
        documents: Documents in the collection.
        measures: Means (or shares) by measure; see MEASURES.
        per_query: The values behind them by measure and question id, where a measure has values per question.
        scores: Distributions by name and question id: cosine similarities of `gold` and `other` chunks; scores of
            `answerable`, `unanswerable` and `left out` answers.
        latency_ms: p50 and p95.
        failures: Questions that couldn't be asked to their end.
        counts: Further whole numbers: citations, quotes, answers without any.
    """

    dataset: str
    part: Literal["search", "answers"]
    label: str
    questions: int
    documents: int
    measures: Mapping[str, float]
    per_query: Mapping[str, PerQuery]
    scores: Mapping[str, PerQuery]
    latency_ms: Mapping[str, float]
    failures: tuple[Failure, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is compared by."""
        return self.dataset, self.part, self.label


@dataclass(frozen=True, slots=True)
class Run:
    """A whole run.

    Attributes:
        rows: What was measured.
        about: When, where and how: `created_at`, `url`, `space`, `options`, `datasets`.
        calibration: What `--calibrate` derived, if it was asked for.
    """

    rows: tuple[Row, ...]
    about: JsonObject
    calibration: JsonObject | None = None

    def as_json(self) -> JsonObject:
        """The run as it is stored, schema `citewire.eval/1`."""
        body: JsonObject = {"schema": SCHEMA, **self.about, "rows": [_row_json(row) for row in self.rows]}
        return body if self.calibration is None else body | {"calibration": self.calibration}


def search_row(dataset: Dataset, run: SearchRun, by_chunk: bool, documents: int) -> Row:
    """The measures of a search run; a failed question counts as one that found nothing."""
    per_query = judge(dataset, run, by_chunk)
    found = sorted(run.found.items())
    return Row(
        dataset.name,
        "search",
        f"{run.mode} by chunk" if by_chunk else str(run.mode),
        len(run.found) + len(run.failures.listed()),
        documents,
        {name: mean(values.values()) for name, values in per_query.items()},
        per_query,
        {
            "gold": {question: one.gold for question, one in found if one.gold is not None},
            "other": {question: one.other for question, one in found if one.other is not None},
        },
        latency_ms([one.seconds for _, one in found]),
        run.failures.listed(),
    )


def answers_row(dataset: Dataset, run: AnswerRun, documents: int) -> Row:
    """The measures of answers; failed questions aren't in them."""
    answerable = run.of("answerable")
    per_query: dict[str, PerQuery] = {}
    for name in ANSWER_MEASURES:
        values = {one.question_id: one.measures[name] for one in answerable if name in one.measures}
        if values:
            per_query[name] = values
    measures = {name: mean(values.values()) for name, values in per_query.items()}
    per_query["false_not_found"] = {one.question_id: float(one.not_found) for one in answerable}
    measures["false_not_found"] = mean(per_query["false_not_found"].values())
    measures |= _quotes(run.answers)
    kinds: tuple[tuple[Kind, str], ...] = (("unanswerable", ""), ("left out", LEFT_OUT))
    for kind, suffix in kinds:
        if others := run.of(kind):
            per_query[f"not_found_recall{suffix}"] = {one.question_id: float(one.not_found) for one in others}
            measures |= _decisions(judge_not_found(answerable, others, kind), suffix)
    asking = run.asking
    return Row(
        dataset.name,
        "answers",
        f"{asking.profile} ({asking.model})" if asking.model else asking.profile,
        len(run.answers) + len(run.failures.listed()),
        documents,
        measures,
        per_query,
        _scores(run),
        latency_ms([one.seconds for one in run.answers]),
        run.failures.listed(),
        {
            "answerable": len(answerable),
            "unanswerable": len(run.of("unanswerable")),
            "left out": len(run.of("left out")),
            "citations": sum(sum(one.verdicts.values()) for one in run.answers),
            "quotes": sum(one.quotes[0] for one in run.answers),
        },
    )


def write_run(run: Run, path: Path) -> None:
    """Stores a run, whole or not at all."""
    write_whole(path, json.dumps(run.as_json(), ensure_ascii=False, indent=1) + "\n")


def read_run(path: Path) -> Run:
    """Reads a stored run.

    Raises:
        ValueError: It cannot be read, is none, or of a schema that this version doesn't know; the message says which.
    """
    try:
        body = as_object(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error})") from None
    schema = get_str(body or {}, "schema")
    if body is None or schema != SCHEMA:
        raise ValueError(f"{path}: not a stored run of schema {SCHEMA}" + (f" but {schema!r}" if schema else ""))
    rows = tuple(_row_of(one) for one in get_objects(body, "rows"))
    about = {key: value for key, value in body.items() if key not in ("schema", "rows", "calibration")}
    return Run(rows, about, as_object(body.get("calibration")))


def _quotes(answers: Iterable[Answered]) -> dict[str, float]:
    """Shares over all citations of all answers; nothing where no answer carries verified citations."""
    listed = [one for one in answers if one.verdicts]
    total = sum(sum(one.verdicts.values()) for one in listed)
    if not total:
        return {}
    quotes = sum(one.quotes[0] for one in listed)
    shares = {name: sum(one.verdicts.get(name, 0) for one in listed) / total for name in QUOTE_MEASURES[1:4]}
    verbatim = sum(one.quotes[1] for one in listed) / quotes if quotes else 0.0
    return {"quote_verbatim": verbatim, **shares, "uncited": mean(float(one.uncited > 0) for one in listed)}


def _decisions(judged: NotFound, suffix: str) -> dict[str, float]:
    values = {
        "not_found_precision": judged.precision,
        "not_found_recall": judged.recall,
        "not_found_f1": judged.f1,
        "not_found_auc": judged.roc_auc,
        "not_found_recall_at_10": judged.recall_at_10,
    }
    return {name + suffix: value for name, value in values.items() if value is not None}


def _scores(run: AnswerRun) -> dict[str, PerQuery]:
    kinds: tuple[Kind, ...] = ("answerable", "unanswerable", "left out")
    scores: dict[str, PerQuery] = {
        kind: {one.question_id: one.score for one in run.of(kind) if one.score is not None} for kind in kinds
    }
    # Zeros alone are answers that had no passage, from a provider that gives no scores.
    return scores if any(any(one.values()) for one in scores.values()) else {}


def _row_json(row: Row) -> JsonObject:
    return {
        "dataset": row.dataset,
        "part": row.part,
        "label": row.label,
        "questions": row.questions,
        "documents": row.documents,
        "measures": {name: round(value, 6) for name, value in row.measures.items()},
        "latency_ms": dict(row.latency_ms),
        "counts": dict(row.counts),
        "failures": [{"question_id": one.question_id, "error": one.error} for one in row.failures],
        "per_query": {name: _rounded(values) for name, values in row.per_query.items()},
        "scores": {name: _rounded(values) for name, values in row.scores.items()},
    }


def _rounded(values: PerQuery) -> PerQuery:
    return {key: round(value, 6) for key, value in values.items()}


def _row_of(body: JsonObject) -> Row:
    part = "answers" if get_str(body, "part") == "answers" else "search"
    return Row(
        get_str(body, "dataset"),
        part,
        get_str(body, "label"),
        get_int(body, "questions") or 0,
        get_int(body, "documents") or 0,
        _numbers(get_object(body, "measures")),
        {name: _numbers(get_object(get_object(body, "per_query"), name)) for name in get_object(body, "per_query")},
        {name: _numbers(get_object(get_object(body, "scores"), name)) for name in get_object(body, "scores")},
        _numbers(get_object(body, "latency_ms")),
        tuple(Failure(get_str(one, "question_id"), get_str(one, "error")) for one in get_objects(body, "failures")),
        {name: int(value) for name, value in _numbers(get_object(body, "counts")).items()},
    )


def _numbers(body: JsonObject) -> dict[str, float]:
    return {name: value for name in body if (value := get_float(body, name)) is not None}
