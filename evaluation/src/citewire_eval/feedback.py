"""An evaluation set built from the user feedback that `GET /v1/feedback` lists.

An answer that was rated up shows a good one: the documents that it cites are relevant, a new answer is expected to cite
its quotes again, and its text is the gold answer. An answer that was rated down shows only that something is wrong; it
becomes a case for people to review.
"""

import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from citewire_cli.chat import NOT_FOUND_SENTENCES
from citewire_cli.jsonio import JsonObject, get_int, get_object, get_objects, get_str, get_texts
from citewire_eval.client import RetryingClient
from citewire_eval.datasets.model import Dataset, Question, Span, build

FORM = "feedback"
_PAGE_SIZE = 200
_MARKER = re.compile(r"\s*\[(?:ref:|SOURCE )\d{1,6}\]")


@dataclass(frozen=True, slots=True)
class Case:
    """An answer that a user rated down."""

    case_id: str
    """Id of the exchange that produced it."""
    question: str
    answer: str
    profile: str
    model: str
    reasons: tuple[str, ...]
    comment: str
    quotes: tuple[str, ...]
    """The documents that it cited."""


@dataclass(frozen=True, slots=True)
class RatedAnswers:
    """The evaluation set and the review cases from an organisation's feedback."""

    dataset: Dataset | None
    """The questions whose answers were rated up; None if there are none."""
    cases: tuple[Case, ...]
    left_out: Counter[str]
    """Number of answers that were rated up but can't be measured, by reason."""


async def read_feedback(client: RetryingClient) -> RatedAnswers:
    """Reads all feedback that the caller, an owner or admin, may list.

    Raises:
        CliError: The gateway rejected the request or is unreachable.
    """
    questions: list[Question] = []
    cases: list[Case] = []
    left_out: Counter[str] = Counter()
    async for entry in _entries(client):
        answer = get_object(entry, "answer")
        if get_str(get_object(answer, "feedback"), "rating") == "down":
            cases.append(_case(entry, answer))
        elif (why := _unusable(answer)) is not None:
            left_out[why] += 1
        else:
            questions.append(_question(entry, answer))
    dataset = build(FORM, FORM, None, questions) if questions else None
    return RatedAnswers(dataset, tuple(cases), left_out)


def write_set(folder: Path, rated: RatedAnswers) -> None:
    """Writes a set in BEIR form without a corpus, with judgements by document id, and `cases.jsonl` beside it.

    Raises:
        OSError: A file can't be written.
    """
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    questions = rated.dataset.questions if rated.dataset is not None else ()
    rows = [
        {
            "_id": question.question_id,
            "text": question.text,
            "answers": list(question.answers),
            "quotes": list(question.quotes),
        }
        for question in questions
    ]
    _write_lines(folder / "queries.jsonl", rows)
    judged = [
        f"{question.question_id}\t{doc_id}\t{grade}\n"
        for question in questions
        for doc_id, grade in question.judged.items()
    ]
    header = "query-id\tcorpus-id\tscore\n"
    (folder / "qrels" / "test.tsv").write_text(header + "".join(judged), encoding="utf-8")
    _write_lines(folder / "cases.jsonl", [asdict(case) for case in rated.cases])


def _write_lines(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


async def _entries(client: RetryingClient) -> AsyncGenerator[JsonObject]:
    token = ""
    while True:
        page = await client.call("GET", "/v1/feedback", params={"page_size": _PAGE_SIZE, "page_token": token})
        for entry in get_objects(page, "feedback"):
            yield entry
        token = get_str(page, "next_page_token")
        if not token:
            return


def _unusable(answer: JsonObject) -> str | None:
    """The reason why an answer that was rated up can't be measured; None if it can."""
    if answer.get("withheld") is True:
        return "based on documents that you may not see or that have been deleted"
    if get_int(answer, "history") != 0:
        return "asked as a follow-up in a conversation"
    if get_str(answer, "state") != "complete":
        return "cut off"
    return None if _cited_documents(answer) or _is_not_found(answer) else "no citations"


def _is_not_found(answer: JsonObject) -> bool:
    flag = answer.get("not_found")
    return flag if isinstance(flag, bool) else get_str(answer, "content").lstrip().startswith(NOT_FOUND_SENTENCES)


def _question(entry: JsonObject, answer: JsonObject) -> Question:
    number, text = get_str(answer, "exchange_id"), get_str(entry, "question")
    if _is_not_found(answer):  # rated up, so it was right
        return Question(number, text, answerable=False)
    quotes = dict.fromkeys(_quotes(answer))
    return Question(
        number,
        text,
        answers=(_MARKER.sub("", get_str(answer, "content")).strip(),),
        judged=dict.fromkeys(_cited_documents(answer), 1),
        spans=tuple(quotes),
        quotes=tuple(dict.fromkeys(span.text for span in quotes)),
    )


def _case(entry: JsonObject, answer: JsonObject) -> Case:
    feedback = get_object(answer, "feedback")
    return Case(
        get_str(answer, "exchange_id"),
        get_str(entry, "question"),
        get_str(answer, "content"),
        get_str(entry, "profile"),
        get_str(answer, "model"),
        tuple(get_texts(feedback, "reasons")),
        get_str(feedback, "comment"),
        tuple(dict.fromkeys(span.text for span in _quotes(answer))),
    )


def _quotes(answer: JsonObject) -> list[Span]:
    """The quotes of verified citations that support their sentences."""
    verified = [
        citation for citation in get_objects(answer, "verified") if get_str(citation, "verdict") != "unsupported"
    ]
    spans: list[Span] = []
    for citation in verified:
        if quote := get_str(citation, "quote"):
            start = get_int(citation, "document_start") or 0
            spans.append(Span(get_str(citation, "document_id"), start, start + len(quote), quote))
    return spans


def _cited_documents(answer: JsonObject) -> list[str]:
    """The documents whose passages support the answer; if nothing was verified, all cited documents."""
    if "verified" in answer:
        return list(dict.fromkeys(span.doc_id for span in _quotes(answer)))
    cited = answer.get("cited")
    numbers = cast("list[object]", cited) if isinstance(cited, list) else []
    citations = [citation for citation in get_objects(answer, "citations") if get_int(citation, "index") in numbers]
    return list(dict.fromkeys(get_str(citation, "document_id") for citation in citations))
