"""`citewire eval`: reading BEIR folders, and measures through a gateway that answers as documented."""

import gzip
import json
from pathlib import Path

import httpx
import pytest

from citewire_cli.evaluation import BeirDataset, DatasetError, EvaluationError, evaluate

CORPUS = [
    {"_id": "a", "title": "Apples", "text": "Apples are red."},
    {"_id": "b", "title": "", "text": "Bananas are yellow."},
    {"_id": "c", "title": "Cherries", "text": "Cherries are small."},
]


def write_dataset(folder: Path, *, zipped: bool = False) -> Path:
    lines = "".join(json.dumps(row) + "\n" for row in CORPUS)
    if zipped:
        (folder / "corpus.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    else:
        (folder / "corpus.jsonl").write_text(lines)
    queries = [{"_id": "1", "text": "which fruit is red"}, {"_id": "2", "text": "yellow"}, {"_id": "9", "text": "no"}]
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t1\n2\tb\t1\n")
    return folder


class FakeGateway:
    """Documents and search of the HTTP API, with a ranking that the test chooses."""

    def __init__(self, ranking: dict[str, list[str]], *, failed: int = 0) -> None:
        self.ranking = ranking
        self.failed = failed
        self.uploads: list[str] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST" and request.url.path == "/v1/documents":
            body = json.loads(request.content)
            self.uploads.append(body["metadata"]["eval_id"])
            return httpx.Response(202, json={"id": len(self.uploads), "status": "pending"})
        if request.url.path == "/v1/documents":
            status = request.url.params.get("status")
            ids = range(1, len(self.uploads) + 1)
            if status in ("pending", "processing"):
                ids = range(0)
            elif status == "failed":
                ids = range(self.failed)
            rows = [{"id": i, "metadata": {"eval_id": self.uploads[i - 1]}} for i in ids]
            return httpx.Response(200, json={"documents": rows, "next_page_token": ""})
        query = json.loads(request.content)["query"]
        hits = [{"document_id": self.uploads.index(name) + 1} for name in self.ranking[query]]
        return httpx.Response(200, json={"results": hits})

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url="http://gateway", transport=httpx.MockTransport(self.answer))


def ignore(_step: str, _done: int, _total: int) -> None:
    return None


@pytest.mark.parametrize("zipped", [False, True])
def test_reads_beir_plain_and_gzipped(tmp_path: Path, zipped: bool) -> None:
    dataset = BeirDataset.read(write_dataset(tmp_path, zipped=zipped), "test")
    assert [document.eval_id for document in dataset.documents] == ["a", "b", "c"]
    assert dataset.queries == {"1": "which fruit is red", "2": "yellow"}  # the third is not judged
    assert dataset.qrels == {"1": {"a": 1}, "2": {"b": 1}}


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("corpus.jsonl", "{not json", "line 1: not JSON"),
        ("corpus.jsonl", '["list"]', "not a JSON object"),
        ("corpus.jsonl", '{"_id": "a"}', "lacks the text field 'text'"),
        ("qrels/test.tsv", "a\tb\n1\t2\n", "needs columns query-id, corpus-id, score"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n7\ta\t1\n", "queries.jsonl lacks"),
    ],
)
def test_malformed_data_sets_are_named(tmp_path: Path, file: str, content: str, message: str) -> None:
    write_dataset(tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(DatasetError, match=message):
        BeirDataset.read(tmp_path, "test")


def test_a_missing_split_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="--split chooses another"):
        BeirDataset.read(write_dataset(tmp_path), "dev")


async def test_measures_follow_the_servers_order(tmp_path: Path) -> None:
    dataset = BeirDataset.read(write_dataset(tmp_path), "test")
    gateway = FakeGateway({"which fruit is red": ["a", "b", "c"], "yellow": ["a", "b"]})
    async with gateway.client() as client:
        (result,) = await evaluate(client, dataset, modes=["dense"], top_k=100, concurrency=2, progress=ignore)
    # First query: ideal, 1. Second: the relevant one at rank 2, 1 / log2(3).
    assert result.measures["nDCG@10"] == pytest.approx((1 + 0.6309) / 2, abs=1e-4)
    assert result.measures["RR@10"] == pytest.approx(0.75)
    assert result.measures["R@100"] == 1
    assert (result.documents, result.queries) == (3, 2)


async def test_a_second_run_uploads_nothing(tmp_path: Path) -> None:
    dataset = BeirDataset.read(write_dataset(tmp_path), "test")
    gateway = FakeGateway({"which fruit is red": ["a"], "yellow": ["b"]})
    async with gateway.client() as client:
        for _ in range(2):
            await evaluate(client, dataset, modes=["dense"], top_k=100, concurrency=2, progress=ignore)
    assert sorted(gateway.uploads) == ["a", "b", "c"]


async def test_failed_documents_end_the_run(tmp_path: Path) -> None:
    dataset = BeirDataset.read(write_dataset(tmp_path), "test")
    gateway = FakeGateway({}, failed=1)
    async with gateway.client() as client:
        with pytest.raises(EvaluationError, match="1 of 3 documents failed"):
            await evaluate(client, dataset, modes=["dense"], top_k=100, concurrency=2, progress=ignore)
