"""Asks questions of the chat, and reads what the measures need from its answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from citewire_cli.chat import NOT_FOUND_SENTENCES
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.evaluation.answer_text import compare
from citewire_cli.evaluation.datasets import Dataset, Question
from citewire_cli.evaluation.filling import GROUP_FIELD, Filled
from citewire_cli.evaluation.gateway import Failures, Gateway, Progress
from citewire_cli.evaluation.quotes import QuoteCheck
from citewire_cli.jsonio import JsonObject, get_float, get_int, get_objects, get_str, get_texts

Kind = Literal["answerable", "unanswerable", "left out"]
"""`unanswerable`: the data set says so; `left out`: asked with the gold documents taken out of the library."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How to ask.

    Attributes:
        profile: The profile that answers.
        model: The chat model; "" for the profile's.
        leave_out: Whether answerable questions are asked once more without their gold documents.
        scored_only: End after the first answer if it has no score: only scores are wanted, and answers may cost money.
    """

    profile: str
    model: str = ""
    leave_out: bool = False
    scored_only: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer, measured.

    Attributes:
        question_id: The question.
        kind: What was to be expected.
        text: The answer.
        not_found: Whether it says that the documents don't answer.
        score: How well the passages answer, 0–1, where the provider says so; 0 where there was no passage at all.
        seconds: How long it took.
        measures: Values of this question by measure; empty unless it was answerable.
        cited: Ids of the documents that were cited.
        quotes: Quotes given, and how many of them are verbatim.
        verdicts: How many citations had which verdict.
        uncited: Sentences that were flagged as stating facts without a citation.
    """

    question_id: str
    kind: Kind
    text: str
    not_found: bool
    score: float | None
    seconds: float
    measures: Mapping[str, float]
    cited: tuple[str, ...]
    quotes: tuple[int, int]
    verdicts: Mapping[str, int]
    uncited: int


@dataclass(slots=True)
class AnswerRun:
    """Every question asked of one profile."""

    asking: Asking
    failures: Failures
    answers: list[Answered] = field(default_factory=list[Answered])

    def of(self, kind: Kind) -> list[Answered]:
        """The answers of one kind, by question id."""
        return sorted((one for one in self.answers if one.kind == kind), key=lambda one: one.question_id)


async def ask_all(gateway: Gateway, dataset: Dataset, filled: Filled, asking: Asking, progress: Progress) -> AnswerRun:
    """Asks every question; a failed one is named in the run, and not measured.

    Raises:
        CliError: The gateway is gone, doesn't let us in, knows no such profile, or the budget is spent.
    """
    include = await _optional(gateway, asking.profile)
    check, run, groups = (
        QuoteCheck(gateway),
        AnswerRun(asking, Failures(f"{dataset.name}, {asking.profile}")),
        dataset.groups(),
    )
    todo = _todo(dataset, asking)
    done, total = 0, len(todo)

    async def ask(one: tuple[Question, Kind]) -> None:
        nonlocal done
        question, kind = one
        body: JsonObject = {
            "question": question.text,
            "profile": asking.profile,
            "collection": filled.collection,
            "stream": False,
        }
        if include:
            body["include"] = include
        if asking.model:
            body["model"] = asking.model
        if kind == "left out":
            body["filter"] = without_gold(question, groups, filled.ids)
        name = f"{question.question_id} ({kind})"
        try:
            answer = await gateway.timed("POST", "/v1/chat", body=body)
            measured = await _measured(question, kind, answer.body, answer.seconds, filled.ids, check)
        except CliError as error:
            run.failures.add(name, error)
        else:
            run.failures.good()
            run.answers.append(measured)
            await _forget(gateway, answer.body)
        done += 1
        progress(f"ask {asking.profile}", done, total)

    if asking.scored_only:
        await gateway.for_each(todo[:1], ask)
        if not any(one.score for one in run.answers):
            return run
        todo = todo[1:]
    await gateway.for_each(todo, ask)
    return run


def without_gold(question: Question, groups: Mapping[str, str], ids: Mapping[int, str]) -> JsonObject:
    """A filter that takes a question's gold documents out of the library, with all of their groups.

    Args:
        question: An answerable one.
        groups: Group by document, as `Dataset.groups` gives it.
        ids: The data set's id of each document by the library's.
    """
    names = sorted({groups[document] for document in question.gold if groups.get(document)})
    if names:
        conditions: list[JsonObject] = [{"field": GROUP_FIELD, "op": "eq", "value": name} for name in names]
        return {"not": conditions[0] if len(conditions) == 1 else {"any": conditions}}
    gold = [number for number, document in sorted(ids.items()) if document in question.gold]
    return {"not": {"field": "id", "op": "in", "value": gold}}


def _todo(dataset: Dataset, asking: Asking) -> list[tuple[Question, Kind]]:
    todo: list[tuple[Question, Kind]] = []
    for question in dataset.questions:
        if question.gold:
            todo.append((question, "answerable"))
            if asking.leave_out:
                todo.append((question, "left out"))
        elif not question.answerable:
            todo.append((question, "unanswerable"))
    return todo


async def _optional(gateway: Gateway, profile: str) -> list[str]:
    """The events about citations that this profile shows only when asked for them."""
    described = await gateway.call("GET", f"/v1/profiles/{profile}")
    optional = get_texts(described, "optional_events")
    return [name for name in ("citation", "uncited") if name in optional]


async def _measured(
    question: Question, kind: Kind, body: JsonObject, seconds: float, ids: Mapping[int, str], check: QuoteCheck
) -> Answered:
    text = get_str(body, "answer")
    told = body.get("not_found")
    not_found = told if isinstance(told, bool) else text.lstrip().startswith(NOT_FOUND_SENTENCES)
    verified, citations = get_objects(body, "verified"), get_objects(body, "citations")
    score = get_float(body, "answerable_score")
    if score is None and not citations and not_found:
        score = 0.0  # there was nothing to answer from
    cited = () if not_found else _documents(verified if "verified" in body else citations, ids)
    quoted = [citation for citation in verified if get_str(citation, "quote")]
    verbatim = [await check.verbatim(citation) for citation in quoted]
    verdicts: dict[str, int] = {}
    for citation in verified:
        verdict = get_str(citation, "verdict") or "none"
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
    return Answered(
        question.question_id,
        kind,
        text,
        not_found,
        score,
        seconds,
        _values(question, text, not_found, cited) if kind == "answerable" else {},
        cited,
        (len(quoted), sum(verbatim)),
        verdicts,
        len(get_objects(body, "uncited")),
    )


def _values(question: Question, text: str, not_found: bool, cited: Sequence[str]) -> dict[str, float]:
    """The measures of an answerable question. A not-found answer has none of the gold answer, whatever it lists."""
    values: dict[str, float] = {"answered": float(not not_found)}
    if question.answers:
        values |= compare("" if not_found else text, question.answers)
    if not not_found:
        right = len(question.gold.intersection(cited))
        values["citation_precision"] = right / len(cited) if cited else 0.0
        values["citation_recall"] = right / len(question.gold)
    return values


def _documents(citations: Sequence[JsonObject], ids: Mapping[int, str]) -> tuple[str, ...]:
    numbers = (get_int(citation, "document_id") for citation in citations)
    return tuple(dict.fromkeys(ids.get(number, f"#{number}") for number in numbers if number is not None))


async def _forget(gateway: Gateway, body: JsonObject) -> None:
    """Deletes the conversation that a profile has kept: thousands of them would bury the person's own.

    Raises:
        CliError: It couldn't be deleted; the run ends, before there are more of them.
    """
    conversation = get_str(body, "conversation_id")
    if not conversation:
        return
    try:
        await gateway.call("DELETE", f"/v1/conversations/{conversation}")
    except CliError as error:
        if error.code is not ExitCode.NOT_FOUND:
            raise
