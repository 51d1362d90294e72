"""The results of a run: rows of measures and their values per question, stored as JSON."""

import errno
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, cast

from citewire_cli.jsonio import JsonObject, as_object, get_float, get_int, get_object, get_objects, get_str
from citewire_eval.answers import Answer, AnswerRun, Kind
from citewire_eval.client import Failure
from citewire_eval.datasets.model import Dataset
from citewire_eval.measures import (
    OFF_TOPIC,
    RANKED,
    RETRIEVAL,
    PerQuery,
    judge_not_found,
    judge_searches,
    latency_ms,
    mean,
)
from citewire_eval.search import SearchRun

SCHEMA = "citewire.eval/1"
ANSWER_MEASURES = (
    "answered",
    "answer_present",
    "answer_f1",
    "answer_recall",
    "citation_precision",
    "citation_recall",
    "quote_recall",
)
QUOTE_MEASURES = ("quote_verbatim", "supported", "partial", "unsupported", "uncited")
NOT_FOUND_MEASURES = ("not_found_precision", "not_found_recall", "not_found_f1", "false_not_found")
SCORE_MEASURES = ("not_found_auc", "not_found_recall_at_10")
LEFT_OUT = "@left_out"
MEASURES = (
    *RETRIEVAL,
    RANKED,
    OFF_TOPIC,
    *ANSWER_MEASURES,
    *QUOTE_MEASURES,
    *(name + suffix for suffix in ("", LEFT_OUT) for name in (*NOT_FOUND_MEASURES, *SCORE_MEASURES)),
)
"""Every measure that a row may have."""


@dataclass(frozen=True, slots=True)
class Row:
    """The results for one data set with one search mode or one profile."""

    dataset: str
    """The data set's name."""
    part: Literal["search", "answers"]
    """Part of the evaluation that was measured."""
    label: str
    """The mode or the profile."""
    questions: int
    """Questions asked."""
    documents: int
    """Documents in the collection."""
    measures: Mapping[str, float]
    """Means (or shares) by measure; see MEASURES."""
    per_query: Mapping[str, PerQuery]
    """The underlying values by measure and question id, for measures that have values per question."""
    scores: Mapping[str, PerQuery]
    """Distributions by name and question id: cosine similarities of `gold` and `other` chunks; scores of `answerable`,
    `unanswerable` and `left out` answers.
    """
    latency_ms: Mapping[str, float]
    """Latencies: p50 and p95."""
    failures: tuple[Failure, ...] = ()
    """Questions whose calls failed."""
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    """Other counts: questions by kind, citations, quotes."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The key that identifies the row in another run."""
        return self.dataset, self.part, self.label


@dataclass(frozen=True, slots=True)
class Run:
    """A run."""

    rows: tuple[Row, ...]
    """What was measured."""
    about: JsonObject
    """When, where and how: `created_at`, `url`, `space`, `options`, `datasets`."""
    calibration: JsonObject | None = None
    """The thresholds that `--calibrate` derived, if it was given."""

    def as_json(self) -> JsonObject:
        """The run in its stored form, schema `citewire.eval/1`."""
        body: JsonObject = {"schema": SCHEMA, **self.about, "rows": [_round(asdict(row)) for row in self.rows]}
        return body if self.calibration is None else body | {"calibration": self.calibration}


def search_row(dataset: Dataset, run: SearchRun, by_chunk: bool, documents: int) -> Row:
    """The measures of a search run; a failed question counts as having no results."""
    per_query = judge_searches(dataset, run, by_chunk)
    rankings, failures = sorted(run.rankings.items()), run.failures.by_question()
    return Row(
        dataset.name,
        "search",
        f"{run.mode} by chunk" if by_chunk else str(run.mode),
        len(rankings) + len(failures),
        documents,
        {name: mean(values.values()) for name, values in per_query.items()},
        per_query,
        {
            "gold": {question: ranking.gold for question, ranking in rankings if ranking.gold is not None},
            "other": {question: ranking.other for question, ranking in rankings if ranking.other is not None},
        },
        latency_ms([ranking.seconds for _, ranking in rankings]),
        failures,
    )


def answers_row(dataset: Dataset, run: AnswerRun, documents: int) -> Row:
    """The measures of answers, without questions that failed."""
    answerable, failures = run.of("answerable"), run.failures.by_question()
    per_query: dict[str, PerQuery] = {}
    for name in ANSWER_MEASURES:
        if values := {answer.question_id: answer.measures[name] for answer in answerable if name in answer.measures}:
            per_query[name] = values
    per_query["false_not_found"] = {answer.question_id: float(answer.not_found) for answer in answerable}
    measures = {name: mean(values.values()) for name, values in per_query.items()} | _citation_shares(run.answers)
    kinds: tuple[tuple[Kind, str], ...] = (("unanswerable", ""), ("left out", LEFT_OUT))
    for kind, suffix in kinds:
        if answers := run.of(kind):
            per_query[f"not_found_recall{suffix}"] = {answer.question_id: float(answer.not_found) for answer in answers}
            measures |= {name + suffix: value for name, value in judge_not_found(answerable, answers).items()}
    options = run.options
    return Row(
        dataset.name,
        "answers",
        f"{options.profile} ({options.model})" if options.model else options.profile,
        len(run.answers) + len(failures),
        documents,
        measures,
        per_query,
        _scores(run),
        latency_ms([answer.seconds for answer in run.answers]),
        failures,
        {
            "answerable": len(answerable),
            "unanswerable": len(run.of("unanswerable")),
            "left out": len(run.of("left out")),
            "citations": sum(sum(answer.verdicts.values()) for answer in run.answers),
            "quotes": sum(answer.quotes for answer in run.answers),
        },
    )


def write_run(run: Run, path: Path) -> None:
    """Stores a run; raises OSError if it cannot be written."""
    write_atomically(path, json.dumps(run.as_json(), ensure_ascii=False, indent=1) + "\n")


def read_run(path: Path) -> Run:
    """Reads a stored run.

    Raises:
        ValueError: It cannot be read, isn't a run, or has an unknown schema; the message says which.
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
    rows = tuple(_row_from_json(row) for row in get_objects(body, "rows"))
    about = {key: value for key, value in body.items() if key not in ("schema", "rows", "calibration")}
    return Run(rows, about, as_object(body.get("calibration")))


def check_writable(path: Path) -> None:
    """Raises OSError if a file can't be written, so that an hour of measuring doesn't end in that error."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {path.parent}", str(path))
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "no write permission", str(path))


def write_atomically(path: Path, text: str) -> None:
    """Writes a temporary file and renames it, so that the old content survives a failure; raises OSError."""
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")  # a pipe or a device can't be replaced
        return
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.chmod(path.stat().st_mode if path.exists() else 0o644)
        temporary.replace(path.resolve())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _citation_shares(answers: Iterable[Answer]) -> dict[str, float]:
    """Shares over all citations of all answers; empty if no answer has verified citations."""
    verified = [answer for answer in answers if answer.verdicts]
    total = sum(sum(answer.verdicts.values()) for answer in verified)
    if not total:
        return {}
    quotes = sum(answer.quotes for answer in verified)
    verbatim = sum(answer.verbatim_quotes for answer in verified) / quotes if quotes else 0.0
    shares = {name: sum(answer.verdicts.get(name, 0) for answer in verified) / total for name in QUOTE_MEASURES[1:4]}
    return {"quote_verbatim": verbatim, **shares, "uncited": mean(float(answer.uncited > 0) for answer in verified)}


def _scores(run: AnswerRun) -> dict[str, PerQuery]:
    kinds: tuple[Kind, ...] = ("answerable", "unanswerable", "left out")
    scores: dict[str, PerQuery] = {
        kind: {answer.question_id: answer.score for answer in run.of(kind) if answer.score is not None}
        for kind in kinds
    }
    # Only zeros: a provider without scores gave answers that had no passages.
    return scores if any(any(values.values()) for values in scores.values()) else {}


def _round(value: object) -> object:
    if isinstance(value, dict):
        return {key: _round(member) for key, member in cast("JsonObject", value).items()}
    return round(value, 6) if isinstance(value, float) else value


def _row_from_json(body: JsonObject) -> Row:
    return Row(
        get_str(body, "dataset"),
        "answers" if get_str(body, "part") == "answers" else "search",
        get_str(body, "label"),
        get_int(body, "questions") or 0,
        get_int(body, "documents") or 0,
        _numbers(body, "measures"),
        {name: _numbers(get_object(body, "per_query"), name) for name in get_object(body, "per_query")},
        {name: _numbers(get_object(body, "scores"), name) for name in get_object(body, "scores")},
        _numbers(body, "latency_ms"),
        tuple(Failure(get_str(row, "question_id"), get_str(row, "error")) for row in get_objects(body, "failures")),
        {name: int(value) for name, value in _numbers(body, "counts").items()},
    )


def _numbers(source: JsonObject, key: str) -> dict[str, float]:
    body = get_object(source, key)
    return {name: value for name in body if (value := get_float(body, name)) is not None}
