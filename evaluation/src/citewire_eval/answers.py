"""Asks the chat the questions of a data set and extracts from its answers the values that the measures need."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from citewire_cli.chat import NOT_FOUND_SENTENCES
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, get_float, get_int, get_objects, get_str, get_texts
from citewire_eval.answer_text import compare
from citewire_eval.client import Failures, Progress, RetryingClient
from citewire_eval.collection import GROUP_FIELD, Collection
from citewire_eval.datasets.model import Dataset, Question
from citewire_eval.quotes import QuoteCheck

Kind = Literal["answerable", "unanswerable", "left out"]
"""`unanswerable`: marked so in the data set; `left out`: asked with the gold documents excluded from the library."""


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """How to ask."""

    profile: str
    """The profile that answers."""
    model: str = ""
    """The chat model; "" uses the profile's."""
    leave_out: bool = False
    """Whether to ask answerable questions a second time without their gold documents."""
    scored_only: bool = False
    """Stop after the first answer if it has no score: only scores are needed, and answers may cost money."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The measurements of one answer."""

    question_id: str
    """The question."""
    kind: Kind
    """The kind of question, which determines the expected answer."""
    not_found: bool
    """Whether the answer says that the documents don't answer the question."""
    score: float | None = None
    """How well the passages answer the question, 0–1, if the provider reports it; 0 if there were no passages."""
    seconds: float = 0.0
    """How long it took."""
    measures: Mapping[str, float] = field(default_factory=dict[str, float])
    """Values by measure for this question; empty unless it was answerable."""
    quotes: int = 0
    """Number of quotes in the answer."""
    verbatim_quotes: int = 0
    """Number of those quotes that are verbatim."""
    verdicts: Mapping[str, int] = field(default_factory=Counter[str])
    """Number of citations by verdict."""
    uncited: int = 0
    """Number of sentences flagged as stating facts without a citation."""


@dataclass(slots=True)
class AnswerRun:
    """The answers of one profile to all questions."""

    options: AnswerOptions
    failures: Failures
    answers: list[Answer] = field(default_factory=list[Answer])

    def of(self, kind: Kind) -> list[Answer]:
        """The answers of one kind, by question id."""
        return sorted((answer for answer in self.answers if answer.kind == kind), key=lambda it: it.question_id)


async def run_chats(
    client: RetryingClient, dataset: Dataset, collection: Collection, options: AnswerOptions, progress: Progress
) -> AnswerRun:
    """Asks every question. Questions whose call failed are listed in the run and left out of the measures.

    Raises:
        CliError: The gateway is unreachable, rejects the request, doesn't know the profile, or the budget is spent.
    """
    profile = await client.call("GET", f"/v1/profiles/{options.profile}")
    optional = get_texts(profile, "optional_events")
    include = [name for name in ("citation", "uncited") if name in optional]
    run = AnswerRun(options, Failures(f"{dataset.name}, {options.profile}"))
    check, groups, todo = QuoteCheck(client), dataset.groups(), _todo(dataset, options)
    done, total = 0, len(todo)

    async def ask(item: tuple[Question, Kind]) -> None:
        nonlocal done
        question, kind = item
        body: JsonObject = {
            "question": question.text,
            "profile": options.profile,
            **collection.scope,
            "stream": False,
        }
        if include:
            body["include"] = include
        if options.model:
            body["model"] = options.model
        if kind == "left out":
            body["filter"] = without_gold(question, groups, collection.doc_ids)
        try:
            reply, seconds = await client.post_timed("/v1/chat", body)
            answer = await _measure(question, kind, reply, seconds, collection.doc_ids, check)
        except CliError as error:
            run.failures.add(f"{question.question_id} ({kind})", error)
        else:
            run.failures.add_success()
            run.answers.append(answer)
            await _delete_conversation(client, reply)
        done += 1
        progress(f"ask {options.profile}", done, total)

    if options.scored_only:
        await client.for_each(todo[:1], ask)
        if not any(answer.score for answer in run.answers):
            return run
        todo = todo[1:]
    await client.for_each(todo, ask)
    return run


def without_gold(question: Question, groups: Mapping[str, str], doc_ids: Mapping[int, str]) -> JsonObject:
    """Builds a filter that excludes a question's gold documents and all other documents of their groups.

    Args:
        question: An answerable question.
        groups: Group by document, as `Dataset.groups` gives it.
        doc_ids: Data set document ids by library document number.
    """
    names = sorted({groups[document] for document in question.gold if groups.get(document)})
    if names:
        conditions: list[JsonObject] = [{"field": GROUP_FIELD, "op": "eq", "value": name} for name in names]
        return {"not": conditions[0] if len(conditions) == 1 else {"any": conditions}}
    gold = [number for number, document in sorted(doc_ids.items()) if document in question.gold]
    return {"not": {"field": "id", "op": "in", "value": gold}}


def _todo(dataset: Dataset, options: AnswerOptions) -> list[tuple[Question, Kind]]:
    todo: list[tuple[Question, Kind]] = []
    for question in dataset.questions:
        if question.gold:
            todo.append((question, "answerable"))
            if options.leave_out:
                todo.append((question, "left out"))
        elif not question.answerable:
            todo.append((question, "unanswerable"))
    return todo


async def _measure(
    question: Question, kind: Kind, reply: JsonObject, seconds: float, doc_ids: Mapping[int, str], check: QuoteCheck
) -> Answer:
    text, flag = get_str(reply, "answer"), reply.get("not_found")
    not_found = flag if isinstance(flag, bool) else text.lstrip().startswith(NOT_FOUND_SENTENCES)
    verified, citations = get_objects(reply, "verified"), get_objects(reply, "citations")
    score = get_float(reply, "answerable_score")
    if score is None and not citations and not_found:
        score = 0.0  # no passages to answer from
    measures: dict[str, float] = {}
    if kind == "answerable":
        cited = _document_ids(verified if "verified" in reply else citations, doc_ids)
        measures = _measure_answerable(question, text, not_found, cited)
        if question.quotes:
            measures["quote_recall"] = _quote_recall(question.quotes, verified)
    with_quote = [citation for citation in verified if get_str(citation, "quote")]
    return Answer(
        question.question_id,
        kind,
        not_found,
        score,
        seconds,
        measures,
        quotes=len(with_quote),
        verbatim_quotes=sum([await check.is_verbatim(citation) for citation in with_quote]),
        verdicts=Counter(get_str(citation, "verdict") or "none" for citation in verified),
        uncited=len(get_objects(reply, "uncited")),
    )


def _measure_answerable(question: Question, text: str, not_found: bool, cited: Sequence[str]) -> dict[str, float]:
    """The measures of an answerable question. A not-found answer scores 0 on the gold answer, whatever it lists."""
    values: dict[str, float] = {"answered": float(not not_found)}
    if question.answers:
        values |= compare("" if not_found else text, question.answers)
    if not not_found:
        right = len(question.gold.intersection(cited))
        values["citation_precision"] = right / len(cited) if cited else 0.0
        values["citation_recall"] = right / len(question.gold)
    return values


def _quote_recall(expected: Sequence[str], verified: Sequence[JsonObject]) -> float:
    """The share of the expected quotes that contain a citation's quote or are contained in one."""
    quotes = [_flat(get_str(citation, "quote")) for citation in verified if get_str(citation, "quote")]
    again = [any(quote in quoted or quoted in quote for quote in quotes) for quoted in map(_flat, expected)]
    return sum(again) / len(again)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _document_ids(citations: Sequence[JsonObject], doc_ids: Mapping[int, str]) -> tuple[str, ...]:
    numbers = (get_int(citation, "document_id") for citation in citations)
    return tuple(dict.fromkeys(doc_ids.get(number, f"#{number}") for number in numbers if number is not None))


async def _delete_conversation(client: RetryingClient, reply: JsonObject) -> None:
    """Deletes the conversation that a profile has stored: thousands of these would bury the user's own.

    Raises:
        CliError: It couldn't be deleted. The run ends here, before more conversations pile up.
    """
    if conversation := get_str(reply, "conversation_id"):
        try:
            await client.call("DELETE", f"/v1/conversations/{conversation}")
        except CliError as error:
            if error.code is not ExitCode.NOT_FOUND:
                raise
