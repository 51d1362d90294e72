"""A data set, independent of the form that it was read from."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace


class DatasetError(Exception):
    """The files don't contain a data set in a known form; the message names the file and the place in it."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document of the corpus."""

    doc_id: str
    """Its id in the data set."""
    title: str
    """Its title; may be empty."""
    text: str
    """Its text."""
    group: str = ""
    """The group that it belongs to, such as an article's title; "" if the data set has no groups."""


@dataclass(frozen=True, slots=True)
class Span:
    """A judged part of a document: `text`, the code points from `start` to `end` (exclusive) of its text."""

    doc_id: str
    start: int
    end: int
    text: str
    grade: int = 1

    @property
    def key(self) -> str:
        """Its id among the judged parts and documents."""
        return f"{self.doc_id}[{self.start}:{self.end}]"


@dataclass(frozen=True, slots=True)
class Question:
    """One question."""

    question_id: str
    """Its id in the data set."""
    text: str
    """The question."""
    answers: tuple[str, ...] = ()
    """Gold answers, any of which is right; empty if the data set has none."""
    answerable: bool = True
    """Whether the corpus answers it; False only if the data set marks it as unanswerable."""
    judged: Mapping[str, int] = field(default_factory=dict[str, int])
    """Grade by document id; empty for an unanswerable question."""
    spans: tuple[Span, ...] = ()
    """Judged parts of documents, if the data set has them."""
    quotes: tuple[str, ...] = ()
    """The texts that an answer is expected to quote, if the data set gives them."""

    @property
    def gold(self) -> frozenset[str]:
        """Ids of the relevant documents."""
        return frozenset(document for document, grade in self.judged.items() if grade > 0)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set, read completely."""

    name: str
    """The name of the folder or file."""
    form: str
    """`beir`, `squad`, `clapnq` or `feedback`."""
    documents: tuple[Document, ...]
    """The corpus in file order, without empty documents; empty if the library already has the documents."""
    questions: tuple[Question, ...]
    """The questions, in file order."""
    fingerprint: str
    """Short hash of the corpus; ensures that a collection is reused only for exactly the same documents."""

    @property
    def answerable(self) -> tuple[Question, ...]:
        """The questions with at least one relevant document."""
        return tuple(question for question in self.questions if question.gold)

    @property
    def unanswerable(self) -> tuple[Question, ...]:
        """The questions that the data set marks as unanswerable from the corpus."""
        return tuple(question for question in self.questions if not question.answerable)

    def groups(self) -> dict[str, str]:
        """The group of each document by its id, "" if it has none."""
        return {document.doc_id: document.group for document in self.documents}


def build(name: str, form: str, documents: Iterable[Document] | None, questions: Iterable[Question]) -> Dataset:
    """Builds a data set with its fingerprint; `documents` is None if the library already has them.

    Raises:
        DatasetError: There are no documents or no questions, two share an id, or a judgement names an unknown document.
    """
    corpus = tuple(document for document in documents or () if (document.text or document.title).strip())
    questions = tuple(questions)
    if not corpus and documents is not None:
        raise DatasetError(f"{name}: all documents are empty")
    if not questions:
        raise DatasetError(f"{name}: no question has a judgement")
    _all_different(name, "document", (document.doc_id for document in corpus))
    _all_different(name, "question", (question.question_id for question in questions))
    digest = hashlib.sha256()
    for document in corpus:
        parts = [document.doc_id, document.title, document.text, *([document.group] if document.group else [])]
        digest.update(json.dumps(parts).encode())
    return Dataset(name, form, corpus, questions, digest.hexdigest()[:12])


def sample(dataset: Dataset, count: int | None, seed: int) -> Dataset:
    """A repeatable sample of `count` questions, with answerable and unanswerable ones in the same proportion.

    The choice depends only on ids and seed, so that runs over different versions of a set ask the same questions.
    """
    if count is None or count >= len(dataset.questions):
        return dataset
    positive = [question for question in dataset.questions if question.answerable]
    negative = [question for question in dataset.questions if not question.answerable]
    share = round(count * len(positive) / len(dataset.questions))
    drawn = {question.question_id for question in _draw(positive, share, seed) + _draw(negative, count - share, seed)}
    return replace(
        dataset, questions=tuple(question for question in dataset.questions if question.question_id in drawn)
    )


def _draw(questions: list[Question], count: int, seed: int) -> list[Question]:
    def place(question: Question) -> bytes:
        return hashlib.sha256(f"{seed}/{question.question_id}".encode()).digest()

    return sorted(questions, key=place)[:count]


def _all_different(name: str, what: str, ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for identifier in ids:
        if identifier in seen:
            raise DatasetError(f"{name}: there are two {what}s with the id {identifier!r}")
        seen.add(identifier)
