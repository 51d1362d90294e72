"""`citewire eval` reads BEIR, SQuAD and ClapNQ formats, and names the line and field that is wrong in a bad file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from citewire_eval.collection import collection_name
from citewire_eval.datasets.model import Dataset, DatasetError, sample
from citewire_eval.datasets.reader import read_dataset, read_datasets

Json = dict[str, object]

CORPUS: list[Json] = [
    {"_id": "a", "title": "Apples", "text": "Apples are red. They grow on trees."},
    {"_id": "b", "title": "", "text": "Bananas are yellow."},
    {"_id": "c", "title": "Cherries", "text": ""},
    {"_id": "d", "title": "", "text": "  "},
]
QUERIES: list[Json] = [{"_id": "1", "text": "which is red"}, {"_id": "2", "text": "yellow"}, {"_id": "9", "text": "no"}]
QRELS = "query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t0\n2\tb\t1\n"
CONTEXT = "The ferry leaves at seven. Cars cost 49 euros."
LONG: Json = {
    "id": "x1",
    "input": "what do cars cost",
    "passages": [{"title": "Fares", "text": "Cars cost 49 euros . Dogs travel free ."}],
    "output": [
        {"answer": "A car costs 49 euros.", "selected_sentences": ["Cars cost 49 euros ."]},
        {"answer": "49 euros", "selected_sentences": []},
    ],
}
NONE: Json = {
    "id": "x2",
    "input": "what do horses cost",
    "passages": [{"title": "Horses", "text": "Horses are large."}],
    "output": [{"answer": "", "selected_sentences": []}],
}


def write_lines(path: Path, rows: list[Json]) -> None:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def write_beir(folder: Path, *, end: str = "") -> Path:
    write_lines(folder / f"corpus.jsonl{end}", CORPUS)
    write_lines(folder / f"queries.jsonl{end}", QUERIES)
    (folder / "qrels").mkdir()
    qrels = QRELS.encode()
    (folder / "qrels" / f"test.tsv{end}").write_bytes(gzip.compress(qrels) if end else qrels)
    return folder


def squad(*qas: Json, title: str = "Ferry_line") -> Json:
    return {"version": "v2.0", "data": [{"title": title, "paragraphs": [{"context": CONTEXT, "qas": list(qas)}]}]}


def qa(question_id: str = "q1", start: object = 20, **more: object) -> Json:
    answers = [{"text": "seven", "answer_start": start}, {"text": "seven", "answer_start": start}]
    return {"id": question_id, "question": "When does it leave? ", "answers": answers} | more


def write_squad(path: Path, body: object) -> Path:
    data = json.dumps(body).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("end", ["", ".gz"])
def test_beir_plain_and_gzipped(tmp_path: Path, end: str) -> None:
    dataset = read_dataset(write_beir(tmp_path, end=end), "test")
    # A document without text consists of its title; one without either is left out.
    assert [document.doc_id for document in dataset.documents] == ["a", "b", "c"]
    assert {q.question_id: dict(q.judged) for q in dataset.questions} == {"1": {"a": 2, "b": 0}, "2": {"b": 1}}
    assert dataset.answerable == dataset.questions  # the third has no judgement, so it isn't asked
    assert dataset.questions[0].gold == {"a"}
    assert (dataset.form, any(question.answers or question.spans for question in dataset.questions)) == ("beir", False)


def test_beir_may_judge_parts_of_documents_and_give_answers(tmp_path: Path) -> None:
    write_beir(tmp_path)
    write_lines(tmp_path / "queries.jsonl", [{"_id": "1", "text": "which is red", "answers": ["apples", " "]}])
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\tstart\tend\n1\ta\t1\t0\t15\n")
    (question,) = read_dataset(tmp_path, "test").questions
    assert [(span.doc_id, span.text) for span in question.spans] == [("a", "Apples are red.")]
    assert question.answers == ("apples",)


@pytest.mark.parametrize(
    "qrels", ["1\ta\t2\n1\tb\t0\n2\tb\t1\n", QRELS.replace("\n", ".0\n").replace("score.0", "score")]
)
def test_qrels_may_lack_the_first_line_and_have_whole_grades_with_a_point(tmp_path: Path, qrels: str) -> None:
    write_beir(tmp_path)
    (tmp_path / "qrels" / "test.tsv").write_text(qrels)
    dataset = read_dataset(tmp_path, "test")
    assert {q.question_id: dict(q.judged) for q in dataset.questions} == {"1": {"a": 2, "b": 0}, "2": {"b": 1}}


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    write_beir(tmp_path)
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_bytes(b"\xef\xbb\xbf" + corpus.read_bytes())
    assert read_dataset(tmp_path, "test").documents[0].doc_id == "a"


def test_a_query_whose_judgements_are_all_zero_is_unanswerable(tmp_path: Path) -> None:
    write_beir(tmp_path)
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t0\n2\tb\t1\n")
    dataset = read_dataset(tmp_path, "test")
    assert [entry.question_id for entry in dataset.unanswerable] == ["1"]
    assert [element.question_id for element in dataset.answerable] == ["2"]


@pytest.mark.parametrize("name", ["set.json", "set.json.gz"])
def test_squad_paragraphs_are_documents_of_an_article(tmp_path: Path, name: str) -> None:
    impossible: Json = {"id": "q2", "question": "Why?", "answers": [], "is_impossible": True}
    dataset = read_dataset(write_squad(tmp_path / name, squad(qa(), impossible)), "ignored")
    (document,) = dataset.documents
    assert (document.doc_id, document.title, document.group) == ("Ferry_line/0", "Ferry line", "Ferry line")
    (first, second) = dataset.questions
    assert (first.text, first.answers, first.gold) == ("When does it leave?", ("seven",), {"Ferry_line/0"})
    assert [CONTEXT[span.start : span.end] for span in first.spans] == ["seven"]
    assert dataset.unanswerable == (second,)
    assert (dataset.name, dataset.form) == ("set", "squad")


def test_a_folder_of_several_squad_files_is_one_library(tmp_path: Path) -> None:
    write_squad(tmp_path / "one.json", squad(qa()))
    write_squad(tmp_path / "two.json.gz", squad(qa("q9"), title="Other"))
    dataset = read_dataset(tmp_path, "test")
    assert [document.group for document in dataset.documents] == ["Ferry line", "Other"]
    assert dataset.name == tmp_path.name


def test_long_answers_with_passages(tmp_path: Path) -> None:
    write_lines(tmp_path / "yes.jsonl.gz", [LONG])
    write_lines(tmp_path / "no.jsonl.gz", [NONE, {**NONE, "id": "x3"}])
    dataset = read_dataset(tmp_path, "test")
    assert [document.group for document in dataset.documents] == ["Horses", "Fares"]  # the same passage once
    (question,) = dataset.answerable
    assert question.answers == ("A car costs 49 euros.", "49 euros")
    assert [span.text for span in question.spans] == ["Cars cost 49 euros ."]
    assert [entry.question_id for entry in dataset.unanswerable] == ["x2", "x3"]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("corpus.jsonl", "{not json\n", r"corpus\.jsonl, line 1: not JSON"),
        ("corpus.jsonl", '\n["list"]\n', r"corpus\.jsonl, line 2: not a JSON object but a list"),
        ("corpus.jsonl", '{"_id": "a", "text": "x"}\n{"text": "y"}\n', r"line 2: the field '_id' is missing"),
        ("corpus.jsonl", '{"_id": "a", "text": ["x"]}\n', r"line 1: the field 'text' must be a text, not a list"),
        ("corpus.jsonl", '{"_id": " ", "text": "x"}\n', r"line 1: the field '_id' is empty"),
        (
            "corpus.jsonl",
            '{"_id": "a", "text": "x"}\n{"_id": "b", "text": "y"}\n{"_id": "a", "text": "z"}\n',
            r"corpus\.jsonl, line 3: the document 'a' already exists",
        ),
        (
            "queries.jsonl",
            '{"_id": "1", "text": null}\n',
            r"queries\.jsonl, line 1: the field 'text' must be a text, not n",
        ),
        ("queries.jsonl", '{"_id": "1", "text": "x", "answers": [1]}\n', "'answers' must be a list of texts"),
        (
            "queries.jsonl",
            '{"_id": "1", "text": "x"}\n',
            r"test\.tsv, line 4: judges the query '2', which isn't in queries\.jsonl",
        ),
        (
            "queries.jsonl",
            '{"_id": "1", "text": "x"}\n{"_id": "2", "text": "y"}\n{"_id": "1", "text": "z"}\n',
            r"queries\.jsonl, line 3: the query '1' already exists",
        ),
        ("qrels/test.tsv", "a\tb\n1\t2\n", r"line 1: needs the tab-separated columns query-id, corpus-id, score"),
        ("qrels/test.tsv", "1\ta\tmuch\n", r"line 1: needs the tab-separated columns .*, named in the first line"),
        ("qrels/test.tsv", "1\t0\ta\t1\n", r"line 1: needs the tab-separated columns .*, named in the first line"),
        ("qrels/test.tsv", f"{QRELS}2\tb\t0.5\n", r"line 5: the column score must be a whole number, not '0.5'"),
        ("qrels/test.tsv", f"{QRELS}2\tb\n", r"line 5: has 2 columns, but the first line has 3"),
        ("qrels/test.tsv", f"{QRELS}2\tb\tmuch\n", r"line 5: the column score must be a whole number, not 'much'"),
        ("qrels/test.tsv", f"{QRELS}2\tz\t1\n", r"line 5: judges the document 'z', which isn't in the corpus"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n", r"test\.tsv: contains no judgements"),
        (
            "qrels/test.tsv",
            "query-id\tcorpus-id\tscore\tstart\tend\n1\ta\t1\t9\t999\n",
            "must lie within the document's 35",
        ),
    ],
)
def test_malformed_beir_is_named_with_file_and_line(tmp_path: Path, file: str, content: str, message: str) -> None:
    write_beir(tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(DatasetError, match=message):
        read_dataset(tmp_path, "test")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], r"set\.json: not a JSON object but a list"),
        ({"rows": []}, r"set\.json: the field 'data' is missing"),
        ({"data": [{"title": "x"}]}, r"set\.json: data\[0\]: the field 'paragraphs' is missing"),
        (squad({"question": "?"}), r"data\[0\]\.paragraphs\[0\]\.qas\[0\]: the field 'id' is missing"),
        (squad(qa(start="20")), r"qas\[0\]\.answers\[0\]: the field 'answer_start' must be a whole number, not a text"),
        (squad(qa(start=3)), r"answers\[0\]: the answer 'seven' isn't in the context at answer_start 3"),
        (squad(qa(answers=[])), r"qas\[0\]: has no answers and isn't marked is_impossible"),
        (squad(qa(is_impossible="no")), r"the field 'is_impossible' must be true or false"),
        (squad(qa(), qa()), r"two questions with the id 'q1'"),
        (squad(), "no question has a judgement"),
        ({"data": []}, "all documents are empty"),
    ],
)
def test_malformed_squad_is_named_with_its_place(tmp_path: Path, body: object, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        read_dataset(write_squad(tmp_path / "set.json", body), "test")


def test_json_that_is_cut_off_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text('{\n"data": [\n')
    with pytest.raises(DatasetError, match=r"set\.json, line \d+, column \d+: not JSON"):
        read_dataset(tmp_path / "set.json", "test")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**LONG, "passages": []}, r"line 1: has no passages"),
        ({**LONG, "output": "text"}, r"line 1: the field 'output' must be a list, not a text"),
        ({key: LONG[key] for key in ("id", "passages", "output")}, r"line 1: the field 'input' is missing"),
        ({**LONG, "passages": [{"text": ""}]}, r"line 1\.passages\[0\]: the field 'text' is empty"),
    ],
)
def test_malformed_long_answers_are_named(tmp_path: Path, row: Json, message: str) -> None:
    write_lines(tmp_path / "set.jsonl", [row])
    with pytest.raises(DatasetError, match=message):
        read_dataset(tmp_path, "test")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "broken.json.gz").write_bytes(gzip.compress(b"x" * 1000)[:20])
    with pytest.raises(DatasetError, match=r"broken\.json\.gz: not a complete gzip file"):
        read_dataset(tmp_path, "test")
    (tmp_path / "broken.json.gz").unlink()
    (tmp_path / "latin.json").write_bytes('{\n"data": "é"}'.encode("latin-1"))
    with pytest.raises(DatasetError, match=r"latin\.json, line 2: not UTF-8 \(byte 10: "):
        read_dataset(tmp_path, "test")


def test_an_unknown_format_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no such folder or file"):
        read_dataset(tmp_path / "missing", "test")
    with pytest.raises(DatasetError, match="contains no data set; expected BEIR"):
        read_dataset(tmp_path, "test")
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.jsonl").write_text("{}")
    with pytest.raises(DatasetError, match="name one of the files"):
        read_dataset(tmp_path, "test")


def test_beir_without_a_corpus_refers_to_existing_documents(tmp_path: Path) -> None:
    (write_beir(tmp_path) / "corpus.jsonl").unlink()
    dataset = read_dataset(tmp_path, "test")
    assert dataset.documents == ()
    assert [question.gold for question in dataset.questions] == [{"a"}, {"b"}]


def test_a_missing_split_lists_the_existing_ones(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"dev\.tsv is missing; choose one of test with --split"):
        read_dataset(write_beir(tmp_path), "dev")


def test_sets_with_the_same_name_are_distinguished_by_folder(tmp_path: Path) -> None:
    for parent in ("one", "two"):
        (tmp_path / parent / "en").mkdir(parents=True)
        write_beir(tmp_path / parent / "en")
    first, second = read_datasets([tmp_path / "one" / "en", tmp_path / "two" / "en"], "test")
    assert (first.name, second.name) == ("one/en", "two/en")
    with pytest.raises(DatasetError, match="given twice"):
        read_datasets([tmp_path / "one" / "en", tmp_path / "one" / ".." / "one" / "en"], "test")


def test_the_fingerprint_depends_only_on_the_documents(tmp_path: Path) -> None:
    before = read_dataset(write_beir(tmp_path), "test")
    write_lines(tmp_path / "queries.jsonl", [{**row, "text": "other"} for row in QUERIES])
    assert collection_name(read_dataset(tmp_path, "test")) == collection_name(before)
    write_lines(tmp_path / "corpus.jsonl", [*CORPUS[:1], {**CORPUS[1], "text": "Bananas are green."}])
    assert collection_name(read_dataset(tmp_path, "test")) != collection_name(before)


def many() -> Dataset:
    rows: list[Json] = [qa(f"q{number}", is_impossible=number % 4 == 0) for number in range(200)]
    from citewire_eval.datasets.files import Row
    from citewire_eval.datasets.model import Document, Question, build

    asked = (Row(row, "row") for row in rows)
    questions = [
        Question(
            r.text("id"), r.text("question"), (), not (bad := r.flag("is_impossible", False)), {} if bad else {"d": 1}
        )
        for r in asked
    ]
    return build("many", "squad", [Document("d", "", CONTEXT)], questions)


def test_sampling_keeps_proportions_and_is_the_same_each_time() -> None:
    dataset = many()
    subset = sample(dataset, 40, 1)
    assert (len(subset.answerable), len(subset.unanswerable)) == (30, 10)
    assert sample(dataset, 40, 1).questions == subset.questions
    assert sample(dataset, 40, 2).questions != subset.questions
    assert {q.question_id for q in subset.questions} < {q.question_id for q in sample(dataset, 80, 1).questions}
    assert sample(dataset, 1000, 1) is dataset
