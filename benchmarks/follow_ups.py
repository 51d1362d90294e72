"""What rewriting follow-ups is worth: the gold passage among the first five, of multi-turn questions made from ClapNQ.

The conversations are made by rule, so anybody can make them again:

- `pronoun`: "tell me about TITLE", then the question with a pronoun in the title's place, where the title stands in it.
- `ellipsis`: the question, its answer, then "why is that?", "when was that?", "tell me more about it", in turn.
- `chain`: the same, and then one more of them, so that the question before the last has no topic either.
- `what about`: a question whose title is exchanged for another, then "and TITLE?" with its own.
- `stands alone`: another conversation, then the question as it is. It must stay so.

The passages of SQuAD are in the library too. Searches are those of the services: the same chunks, vectors, terms and
fusion, in memory. `--model` isn't measured here: without a provider there is none.

Usage: python -m benchmarks.follow_ups [--show N]; the data is expected beside the repository.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.fusion_data import DATA, SETS, QuestionSet, embed_questions, load, read_set, rows
from benchmarks.fusion_ways import Library
from benchmarks.tables import describe_machine, format_table
from citewire_embedder.providers.base import Precision
from citewire_generator.model import Message, Role
from citewire_generator.reflection.heuristics import condense
from citewire_verify.text.follow_ups import is_follow_up

FIRST = 5
ASIDES = ("why is that?", "when was that?", "tell me more about it", "and where?", "who was involved in it?")


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation that ends in a question."""

    kind: str
    history: tuple[Message, ...]
    question: str
    whole: str
    """The question as somebody would ask it who starts with it."""
    passage: int
    """The number of the passage that answers it."""


def make_conversations() -> list[Conversation]:
    """Makes all conversations, in the order of the data."""
    asked = list(rows(DATA / "qa-clapnq" / "clapnq_dev_answerable_a.jsonl"))
    made: list[Conversation] = []
    for number, row in enumerate(asked):
        question, title = str(row["input"]), _plain_title(row["passages"][0]["title"])
        answer = str(row["output"][0]["answer"])
        other = asked[(number + 1) % len(asked)]
        aside, second = ASIDES[number % len(ASIDES)], ASIDES[(number + 2) % len(ASIDES)]
        first = _turns(question, answer)
        made.append(Conversation("ellipsis", first, aside, question, number))
        made.append(Conversation("chain", (*first, *_turns(aside, answer)), second, question, number))
        before = _turns(str(other["input"]), str(other["output"][0]["answer"]))
        made.append(Conversation("stands alone", before, question, question, number))
        made += _with_title(number, question, title, _plain_title(other["passages"][0]["title"]))
    return made


def _with_title(number: int, question: str, title: str, other: str) -> Iterator[Conversation]:
    """The conversations that take the title out of the question, where it stands in it."""
    pattern = re.compile(rf"\b(?:the |a |an )?{re.escape(title)}(?P<s>(?:['’]s)?)(?!\w)", re.IGNORECASE)
    match = pattern.search(question)
    if match is None:
        return
    spoken = pattern.sub("its" if match["s"] else "it", question, count=1)
    yield Conversation("pronoun", _turns(f"tell me about {title}", "Gladly."), spoken, question, number)
    exchanged = pattern.sub(f"{other}{match['s']}", question, count=1)
    yield Conversation("what about", _turns(exchanged, "I don't know."), f"and {title}?", question, number)


def _turns(question: str, answer: str) -> tuple[Message, Message]:
    return Message(Role.USER, question), Message(Role.ASSISTANT, answer)


def _plain_title(title: str) -> str:
    return re.sub(r"\s*\(.*?\)", "", title)


def _joined(first: QuestionSet, second: QuestionSet) -> QuestionSet:
    """One library of two: the documents of the second are numbered after those of the first."""
    shift = max(passage.document for passage in first.passages) + 1
    passages = [*first.passages, *(passage.moved(shift) for passage in second.passages)]
    return QuestionSet("both", passages, (), np.concatenate((first.vectors, second.vectors)), first.asked[:0])


def main() -> int:
    """Prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--show", type=int, default=0, help="conversations of each kind to print")
    parser.add_argument("--precision", choices=list(Precision), default=Precision.FP32, help="of the embedding model")
    options = parser.parse_args()
    precision = Precision(options.precision)
    if not DATA.is_dir():
        print(f"nothing measured: {DATA} isn't there", file=sys.stderr)
        return 0
    print(describe_machine(), flush=True)
    library = Library(_joined(load("ClapNQ", precision), load("SQuAD", precision)), by_document=True)
    made = make_conversations()
    rewritten = [condense(each.question, each.history).text for each in made]
    _show(made, rewritten, int(options.show))
    ways = {
        "as asked": [each.question for each in made],
        "by rules": rewritten,
        "whole": [each.whole for each in made],
    }
    matches = {
        (mode, way): _matches(library, made, texts, precision, mode)
        for mode in ("dense", "hybrid")
        for way, texts in ways.items()
    }
    table: list[list[object]] = []
    for kind in dict.fromkeys(each.kind for each in made):
        places = np.array([each.kind == kind for each in made])
        changed = np.mean(
            [new != each.question for new, each in zip(rewritten, made, strict=True) if each.kind == kind]
        )
        shares = [f"{matches[key][places].mean():.3f}" for key in matches]
        table.append([kind, int(places.sum()), f"{changed:.3f}", *shares])
    print(format_table(["kind", "n", "rewritten", *(f"{mode}, {way}" for mode, way in matches)], table))
    alone = [[name, *_taken_for_follow_ups(name)] for name in SETS if not name.startswith("SciFact")]
    print(f"\n{format_table(['questions of', 'n', 'taken for follow-ups'], alone)}")
    return 0


def _taken_for_follow_ups(name: str) -> tuple[int, str]:
    questions = read_set(name)[1]
    return len(questions), f"{np.mean([is_follow_up(question.text) for question in questions]):.4f}"


def _matches(
    library: Library,
    made: Sequence[Conversation],
    texts: Sequence[str],
    precision: Precision,
    mode: str,
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    vectors = embed_questions(texts, precision)
    result: list[bool] = []
    for conversation, text, vector in zip(made, texts, vectors, strict=True):
        result.append(conversation.passage in library.find_legs(text, vector).rank(mode)[:FIRST])
    return np.array(result)


def _show(made: Sequence[Conversation], rewritten: Sequence[str], most: int) -> None:
    shown: dict[str, int] = {}
    for each, text in zip(made, rewritten, strict=True):
        shown[each.kind] = shown.get(each.kind, 0) + 1
        if shown[each.kind] <= most:
            print(f"{each.kind}: {each.history[-2].content} | {each.question} → {text}")


if __name__ == "__main__":
    raise SystemExit(main())
