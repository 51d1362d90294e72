"""Asks the questions of one set in the library of another, where they should be off topic."""

from dataclasses import dataclass, field
from math import sqrt

from citewire_cli.errors import CliError
from citewire_cli.jsonio import JsonObject
from citewire_eval.client import Failures, Progress, RetryingClient
from citewire_eval.collection import Collection
from citewire_eval.datasets.model import Dataset, Question
from citewire_eval.measures import OFF_TOPIC, PerQuery, latency_ms, mean
from citewire_eval.results import Row

OFF_TOPIC_LABEL = "asked: "
"""Prefix to the name of the set whose questions were asked."""
_PASSAGES = 5
_Z = 1.96


@dataclass(slots=True)
class _Verdicts:
    by_question: PerQuery = field(default_factory=dict[str, float])
    seconds: list[float] = field(default_factory=list[float])


async def ask_elsewhere(
    client: RetryingClient, asked: Dataset, library: Dataset, collection: Collection, progress: Progress
) -> Row:
    """Asks a set's questions in another set's collection, with the search of the profile `documents`.

    Returns:
        `off_topic`: the share of the questions that the search judged off topic, without questions that failed.

    Raises:
        CliError: The gateway is unreachable or rejects the request.
    """
    verdicts, failures, done = _Verdicts(), Failures(f"{library.name}, {asked.name}'s questions"), 0

    async def search(question: Question) -> None:
        nonlocal done
        body: JsonObject = {"query": question.text, "top_k": _PASSAGES, "mode": "dense", **collection.scope}
        try:
            answer, seconds = await client.post_timed("/v1/search", body)
        except CliError as error:
            failures.add(question.question_id, error)
        else:
            failures.add_success()
            verdicts.by_question[question.question_id] = float(answer.get("off_topic") is True)
            verdicts.seconds.append(seconds)
        done += 1
        progress(f"off topic: {asked.name}", done, len(asked.questions))

    await client.for_each(asked.questions, search)
    values = verdicts.by_question
    return Row(
        library.name,
        "search",
        OFF_TOPIC_LABEL + asked.name,
        len(values) + len(failures.by_question()),
        len(collection.doc_ids),
        {OFF_TOPIC: mean(values.values())} if values else {},
        {OFF_TOPIC: values},
        {},
        latency_ms(verdicts.seconds),
        failures.by_question(),
    )


def interval(share: float, questions: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of `questions`, of which there must be at least one."""
    spread = _Z * _Z / questions
    middle = (share + spread / 2) / (1 + spread)
    half = _Z * sqrt(share * (1 - share) / questions + spread / (4 * questions)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)
