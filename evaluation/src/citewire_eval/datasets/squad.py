"""SQuAD form, 1.1 and 2.0: articles with paragraphs, questions on each, and answers with their offsets.

Each paragraph is a document; its article is its group. A question marked `is_impossible` is unanswerable.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from citewire_eval.datasets.files import Row, read_json
from citewire_eval.datasets.model import Dataset, DatasetError, Document, Question, Span, build


def read_squad(paths: Sequence[Path], name: str) -> Dataset:
    """Reads one or more files as one library.

    Raises:
        DatasetError: A file is malformed.
    """
    documents: list[Document] = []
    questions: list[Question] = []
    for path in paths:
        for number, article in enumerate(read_json(path).rows("data")):
            title = article.text("title", "") or f"article {number + 1}"
            readable = title.replace("_", " ").strip()
            for index, paragraph in enumerate(article.rows("paragraphs")):
                document = Document(f"{title}/{index}", readable, paragraph.filled("context"), readable)
                documents.append(document)
                questions.extend(_questions(paragraph, document))
    return build(name, "squad", documents, questions)


def _questions(paragraph: Row, document: Document) -> Iterator[Question]:
    for row in paragraph.rows("qas"):
        impossible = row.flag("is_impossible", default=False)
        question_id, text = row.filled("id"), row.filled("question").strip()
        if impossible:
            yield Question(question_id, text, answerable=False)
            continue
        answers = row.rows("answers")
        if not answers:
            raise DatasetError(f"{row.place}: has no answers and isn't marked is_impossible")
        spans = [_span(answer, document) for answer in answers]
        texts = tuple(dict.fromkeys(span.text for span in spans))
        yield Question(question_id, text, texts, True, {document.doc_id: 1}, (spans[0],))


def _span(answer: Row, document: Document) -> Span:
    text, start = answer.filled("text"), answer.number("answer_start")
    if document.text[start : start + len(text)] != text:
        raise DatasetError(f"{answer.place}: the answer {text[:60]!r} isn't in the context at answer_start {start}")
    return Span(document.doc_id, start, start + len(text), text)
