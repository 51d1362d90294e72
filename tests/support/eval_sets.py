"""Small data sets in the forms that `citewire eval` reads, and readers of its stored runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from fake_gateway import FakeGateway

Json = dict[str, object]
FERRY = "The ferry leaves Tarnholm at seven. Cars cost 49 euros."
MUSEUM = "The museum of glass opened in 1931. It has three floors."


def write_squad(folder: Path) -> Path:
    """Two articles, two answerable questions and one that isn't."""

    def article(title: str, context: str, *qas: Json) -> Json:
        return {"title": title, "paragraphs": [{"context": context, "qas": list(qas)}]}

    def question(name: str, text: str, answer: str, context: str) -> Json:
        return {"id": name, "question": text, "answers": [{"text": answer, "answer_start": context.index(answer)}]}

    none: Json = {"id": "q2", "question": "Why is the moon made of cheese?", "answers": [], "is_impossible": True}
    body = [
        article("Ferry_line", FERRY, question("q1", "When does the ferry leave Tarnholm?", "seven", FERRY), none),
        article("Museum", MUSEUM, question("q3", "When opened the museum of glass?", "1931", MUSEUM)),
    ]
    path = folder / "line.json"
    path.write_text(json.dumps({"version": "v2.0", "data": body}))
    return path


def write_beir(folder: Path) -> Path:
    """Three documents and two queries, of which the second finds its document at rank 2."""
    folder /= "fruit"
    (folder / "qrels").mkdir(parents=True)
    texts = {"a": "Apples are red.", "b": "Bananas are yellow and red.", "c": "Cherries."}
    (folder / "corpus.jsonl").write_text("".join(json.dumps({"_id": k, "text": v}) + "\n" for k, v in texts.items()))
    queries = {"1": "apples", "2": "red"}
    (folder / "queries.jsonl").write_text("".join(json.dumps({"_id": k, "text": v}) + "\n" for k, v in queries.items()))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t1\n2\tb\t1\n")
    return folder


def stored(path: Path) -> Json:
    return json.loads(path.read_text())


def rows_of(run: Json) -> dict[str, Json]:
    return {f"{row['dataset']}/{row['label']}": row for row in cast("list[Json]", run["rows"])}


def measure(row: Json, name: str) -> float:
    return cast("dict[str, float]", row["measures"])[name]


def bodies(gateway: FakeGateway, method: str, path: str) -> list[Json]:
    return [request.json() for request in gateway.received(method, path)]
