"""BEIR form: `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`, each plain or gzipped.

Without a corpus, the judgements refer to documents that are already in the library.

Each judgement refers to a document. A qrels file may have two more columns, `start` and `end`: then it refers to that
part of the document's text (in Unicode code points), and results can be judged by chunk.
"""

import math
from pathlib import Path

from citewire_eval.datasets.files import find, read_lines, read_rows
from citewire_eval.datasets.model import Dataset, DatasetError, Document, Question, Span, build

_ID_COLUMNS = ("query-id", "corpus-id", "score")


def is_beir(folder: Path) -> bool:
    """Whether a folder looks like BEIR form."""
    return find(folder, "corpus.jsonl") is not None or find(folder, "queries.jsonl") is not None


def read_beir(folder: Path, split: str, name: str) -> Dataset:
    """Reads a folder, keeping only the queries that the split judges.

    A query's row may have `answers`, a list of texts, and `quotes`, the texts that an answer is expected to quote.

    Raises:
        DatasetError: A file is missing or malformed.
    """
    corpus = find(folder, "corpus.jsonl")
    rows = read_rows(corpus) if corpus is not None else ()
    documents: list[Document] = []
    known: set[str] = set()
    for row in rows:
        documents.append(Document(row.filled("_id"), row.text("title", ""), row.text("text")))
        if documents[-1].doc_id in known:
            raise DatasetError(f"{row.place}: the document {documents[-1].doc_id!r} already exists")
        known.add(documents[-1].doc_id)
    texts = {document.doc_id: document.text for document in documents} if corpus is not None else None
    path = find(folder / "qrels", f"{split}.tsv")
    if path is None:
        splits = sorted({file.name.partition(".tsv")[0] for file in (folder / "qrels").glob("*.tsv*")})
        others = f"choose one of {', '.join(splits)} with --split" if splits else "there are no judgements"
        raise DatasetError(f"{folder / 'qrels' / split}.tsv is missing; {others}")
    judged, spans, lines = _read_qrels(path, texts)
    questions: list[Question] = []
    seen: set[str] = set()
    queries = find(folder, "queries.jsonl")
    if queries is None:
        raise DatasetError(f"{folder}: no queries.jsonl or queries.jsonl.gz")
    for row in read_rows(queries):
        query = row.filled("_id")
        if query in seen:
            raise DatasetError(f"{row.place}: the query {query!r} already exists")
        seen.add(query)
        if query not in judged:
            continue
        answers = tuple(filter(str.strip, row.texts("answers"))) if "answers" in row else ()
        quotes = tuple(filter(str.strip, row.texts("quotes"))) if "quotes" in row else ()
        gold = any(grade > 0 for grade in judged[query].values())
        questions.append(
            Question(query, row.filled("text"), answers, gold, judged.pop(query), tuple(spans.get(query, ())), quotes)
        )
    if judged:
        first = min(judged, key=lines.__getitem__)
        raise DatasetError(f"{path}, line {lines[first]}: judges the query {first!r}, which isn't in {queries.name}")
    return build(name, "beir", documents if corpus is not None else None, questions)


def _read_qrels(
    path: Path, texts: dict[str, str] | None
) -> tuple[dict[str, dict[str, int]], dict[str, list[Span]], dict[str, int]]:
    """Grades and judged parts by query, and the line on which each query first appears."""
    judged: dict[str, dict[str, int]] = {}
    spans: dict[str, list[Span]] = {}
    lines: dict[str, int] = {}
    columns: list[str] | None = None
    for number, line in read_lines(path):
        if not line.strip():
            continue
        cells = line.split("\t")
        place = f"{path}, line {number}"
        if columns is None:
            columns = _columns(cells, place)
            if columns is cells:
                continue
        if len(cells) != len(columns):
            raise DatasetError(f"{place}: has {len(cells)} columns, but the first line has {len(columns)}")
        row = dict(zip(columns, cells, strict=True))
        query, document, grade = row["query-id"], row["corpus-id"], _whole(row, "score", place)
        if texts is not None and document not in texts:
            raise DatasetError(f"{place}: judges the document {document!r}, which isn't in the corpus")
        lines.setdefault(query, number)
        known = judged.setdefault(query, {})
        known[document] = max(grade, known.get(document, grade))
        if texts is not None and "start" in row and "end" in row and grade > 0:
            spans.setdefault(query, []).append(_span(row, document, texts[document], grade, place))
    if not judged:
        raise DatasetError(f"{path}: contains no judgements")
    return judged, spans, lines


def _columns(cells: list[str], place: str) -> list[str]:
    """The columns named in the first line, or the default ones if the first line is a judgement."""
    missing = [name for name in _ID_COLUMNS if name not in cells]
    if not missing:
        return cells
    if len(missing) == len(cells) == len(_ID_COLUMNS) and cells[-1].strip().lstrip("-").isdecimal():
        return list(_ID_COLUMNS)
    raise DatasetError(
        f"{place}: needs the tab-separated columns {', '.join(_ID_COLUMNS)}, named in the first line; "
        f"{', '.join(missing)} is missing"
    )


def _span(row: dict[str, str], document: str, text: str, grade: int, place: str) -> Span:
    start, end = _whole(row, "start", place), _whole(row, "end", place)
    if not 0 <= start < end <= len(text):
        raise DatasetError(f"{place}: start and end must lie within the document's {len(text)} characters")
    return Span(document, start, end, text[start:end], grade)


def _whole(row: dict[str, str], column: str, place: str) -> int:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not value.is_integer():
        raise DatasetError(f"{place}: the column {column} must be a whole number, not {row[column][:40]!r}")
    return int(value)
