"""ClapNQ form: long answers with their passages, one question per line: `id`, `input`, `passages` and `output`.

Each passage is a document; its title is its group. A question whose outputs are all empty is unanswerable: its
passage is on the same topic but doesn't answer it.
"""

from collections.abc import Sequence
from pathlib import Path

from citewire_eval.datasets.files import Row, read_rows
from citewire_eval.datasets.model import Dataset, DatasetError, Document, Question, Span, build


def read_clapnq(paths: Sequence[Path], name: str) -> Dataset:
    """Reads one or more files as one library.

    Raises:
        DatasetError: A file is malformed.
    """
    documents: dict[tuple[str, str], Document] = {}
    questions: list[Question] = []
    for path in paths:
        for row in read_rows(path):
            gold = [_document(passage, documents) for passage in row.rows("passages")]
            if not gold:
                raise DatasetError(f"{row.place}: has no passages")
            outputs = row.rows("output")
            answers = tuple(dict.fromkeys(text for output in outputs if (text := output.text("answer").strip())))
            question_id, text = row.filled("id"), row.filled("input")
            if not answers:
                questions.append(Question(question_id, text, answerable=False))
                continue
            judged = {document.doc_id: 1 for document in gold}
            questions.append(Question(question_id, text, answers, True, judged, _spans(outputs, gold)))
    return build(name, "clapnq", documents.values(), questions)


def _document(passage: Row, documents: dict[tuple[str, str], Document]) -> Document:
    title, text = passage.text("title", ""), passage.filled("text")
    return documents.setdefault((title, text), Document(f"passage-{len(documents) + 1}", title, text, title))


def _spans(outputs: list[Row], gold: list[Document]) -> tuple[Span, ...]:
    """The sentences that annotators selected, if they appear verbatim in the passage, with their positions in it."""
    spans: dict[str, Span] = {}
    for output in outputs:
        for sentence in output.texts("selected_sentences") if "selected_sentences" in output else ():
            for document in gold:
                start = document.text.find(sentence)
                if sentence and start >= 0:
                    span = Span(document.doc_id, start, start + len(sentence), sentence)
                    spans.setdefault(span.key, span)
    return tuple(spans.values())
