"""`citewire eval` against a fake of the documented HTTP API: its requests, output, stored results and exit codes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from citewire_eval import client
from cli_types import Run
from eval_sets import Json, bodies, measure, rows_of, stored
from fake_eval_library import EvalLibrary
from fake_gateway import FakeGateway, Reply, Request, reply_problem


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the pauses between tries short."""
    monkeypatch.setattr(client, "LONGEST_PAUSE", 0.001)


def test_retrieval_in_each_mode(
    run: Run, gateway: FakeGateway, library: EvalLibrary, beir: Path, tmp_path: Path
) -> None:
    reranked = ("--mode", "dense", "--mode", "hybrid", "--mode", "hybrid+rerank")
    done = run("eval", str(beir), *reranked, "--save", str(tmp_path / "run.json"))
    assert done.exit_code == 0, done.output
    body = stored(tmp_path / "run.json")
    rows = rows_of(body)
    assert list(rows) == ["fruit/dense", "fruit/hybrid", "fruit/hybrid+rerank"]
    for row in rows.values():
        assert measure(row, "nDCG@10") == pytest.approx((1 + 0.6309) / 2, abs=1e-4)
        assert measure(row, "RR@10") == 0.75
        assert measure(row, "R@10") == 1
        assert cast("Json", row["per_query"])["RR@10"] == {"1": 1.0, "2": 0.5}
    assert "0.8155" in done.stdout
    assert body["schema"] == "citewire.eval/1"
    assert cast("Json", body["space"])["model"] == "all-MiniLM-L6-v2"
    searches = bodies(gateway, "POST", "/v1/search")
    assert {str(request.get("group_by")) for request in searches} == {"document"}
    assert [(request["mode"], request["top_k"]) for request in searches if request.get("rerank")] == [
        ("hybrid", 40)
    ] * 2
    # Only forty are reranked, so there is no recall at a hundred.
    has = [label for label, row in rows.items() if "R@100" in cast("Json", row["measures"])]
    assert has == ["fruit/dense", "fruit/hybrid"]
    assert not gateway.received("POST", "/v1/chat")
    assert len(library.documents) == 3


def test_each_sets_questions_are_asked_in_the_others_libraries(
    run: Run, gateway: FakeGateway, library: EvalLibrary, beir: Path, squad: Path, tmp_path: Path
) -> None:
    library.off_topic = 0.3
    done = run("eval", str(beir), str(squad), "--no-search", "--off-topic", "--save", str(tmp_path / "run.json"))
    assert done.exit_code == 0, done.output
    rows = rows_of(stored(tmp_path / "run.json"))
    assert list(rows) == ["fruit/asked: line", "line/asked: fruit"]
    for row in rows.values():
        values = cast("dict[str, float]", cast("Json", row["per_query"])["off_topic"])
        assert measure(row, "off_topic") == sum(values.values()) / len(values)
    assert measure(rows["line/asked: fruit"], "off_topic") == 1
    searches = bodies(gateway, "POST", "/v1/search")
    assert {(request["mode"], request["top_k"]) for request in searches} == {("dense", 5)}
    assert "Off topic: questions of another set" in done.stdout
    alone = run("eval", str(beir), "--off-topic")
    assert alone.exit_code == 2
    assert "two data sets" in alone.output


def test_answerable_questions_called_off_topic_are_a_measure(
    run: Run, library: EvalLibrary, beir: Path, tmp_path: Path
) -> None:
    library.off_topic = 1.0
    done = run("eval", str(beir), "--mode", "dense", "--mode", "lexical", "--save", str(tmp_path / "run.json"))
    assert done.exit_code == 0, done.output
    rows = rows_of(stored(tmp_path / "run.json"))
    assert measure(rows["fruit/dense"], "off_topic") == 1
    assert "off_topic" not in cast("Json", rows["fruit/lexical"]["measures"])
    failing = run("eval", str(beir), "--mode", "dense", "--fail-over", "off_topic=0.02")
    assert failing.exit_code == 1


@pytest.mark.usefixtures("library")
def test_reranking_with_several_time_limits(run: Run, gateway: FakeGateway, beir: Path, tmp_path: Path) -> None:
    seconds = ("--rerank-seconds", "3", "--rerank-seconds", "0.3")
    modes = ("--mode", "hybrid", "--mode", "hybrid+rerank")
    done = run("eval", str(beir), *modes, *seconds, "--save", str(tmp_path / "run.json"))
    assert done.exit_code == 0, done.output
    rows = rows_of(stored(tmp_path / "run.json"))
    assert list(rows) == ["fruit/hybrid", "fruit/hybrid+rerank 3 s", "fruit/hybrid+rerank 0.3 s"]
    assert [cast("Json", row["measures"]).get("ranked") for row in rows.values()] == [None, 1.0, 0.3]
    asked = [request.get("rerank_seconds") for request in bodies(gateway, "POST", "/v1/search")]
    assert asked == [None] * 2 + [3.0] * 2 + [0.3] * 2
    assert "0.3000" in done.stdout


def test_several_sets_and_a_second_run_that_uploads_nothing(
    run: Run, gateway: FakeGateway, library: EvalLibrary, beir: Path, squad: Path
) -> None:
    first = run("eval", str(beir), str(squad), "--mode", "dense")
    done = run("eval", str(beir), str(squad), "--mode", "dense")
    assert (first.exit_code, done.exit_code) == (0, 0), done.output
    steps = ["fruit: upload 3/3", "fruit: ingest 3/3", "fruit: search dense 2/2", "line: upload 2/2"]
    assert [line for line in first.stderr.splitlines() if line in steps] == steps
    assert "upload" not in done.stderr
    assert "fruit" in done.stdout
    assert "line" in done.stdout
    assert run("eval", str(beir)).stdout.count("fruit") == 3  # dense, lexical, hybrid
    assert len(gateway.received("POST", "/v1/documents")) == 5 == len(library.documents)
    assert {document.metadata.get("group") for document in library.documents.values()} == {None, "Ferry line", "Museum"}


def test_json_is_one_object_on_stdout(run: Run, library: EvalLibrary, beir: Path) -> None:
    done = run("eval", str(beir), "--mode", "dense", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["schema"] == "citewire.eval/1"
    assert library.documents


def test_answers_citations_quotes_and_not_found(
    run: Run, gateway: FakeGateway, library: EvalLibrary, squad: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "run.json"
    done = run("eval", str(squad), "--no-search", "-p", "sources", "--leave-out", "gold", "--save", str(saved))
    assert done.exit_code == 0, done.output
    (row,) = rows_of(stored(saved)).values()
    expected = {
        "answered": 1.0,
        "answer_present": 1.0,
        "citation_precision": 1.0,
        "citation_recall": 1.0,
        "quote_verbatim": 1.0,
        "supported": 1.0,
        "not_found_recall": 1.0,
        "not_found_f1": 1.0,
        "not_found_recall@left_out": 1.0,
        "not_found_auc@left_out": 1.0,
        "false_not_found": 0.0,
    }
    assert {name: measure(row, name) for name in expected} == expected
    assert row["counts"] == {"answerable": 2, "unanswerable": 1, "left out": 2, "citations": 2, "quotes": 2}
    chats = bodies(gateway, "POST", "/v1/chat")
    assert all(chat["include"] == ["citation"] and chat["stream"] is False for chat in chats)
    filters = [chat["filter"] for chat in chats if "filter" in chat]
    assert sorted(str(cast("Json", cast("Json", entry)["not"])["value"]) for entry in filters) == [
        "Ferry line",
        "Museum",
    ]
    assert library.conversations == {"forgotten"}  # none of the run's conversations stays in the user's list


def test_a_quote_that_does_not_match_its_offsets_is_counted(
    run: Run, library: EvalLibrary, squad: Path, tmp_path: Path
) -> None:
    library.shift = 1
    run("eval", str(squad), "--no-search", "-p", "sources", "--save", str(tmp_path / "run.json"))
    (row,) = rows_of(stored(tmp_path / "run.json")).values()
    assert measure(row, "quote_verbatim") == 0


def test_wrong_answers_lower_the_measures(run: Run, library: EvalLibrary, squad: Path, tmp_path: Path) -> None:
    library.threshold = 0.6  # the first question now is falsely not found: it shares half of its words
    run("eval", str(squad), "--no-search", "--answers", "--save", str(tmp_path / "run.json"))
    (row,) = rows_of(stored(tmp_path / "run.json")).values()
    assert row["label"] == "documents"
    assert (measure(row, "answered"), measure(row, "false_not_found")) == (0.5, 0.5)
    assert measure(row, "answer_present") == 0.5
    assert measure(row, "not_found_precision") == 0.5
    assert measure(row, "citation_precision") == 1  # of the only question that was answered


def test_documents_already_in_the_library(
    run: Run, gateway: FakeGateway, library: EvalLibrary, squad: Path, beir: Path
) -> None:
    run("eval", str(squad), "--mode", "dense")
    (document, *_) = [entry for entry in library.documents.values() if entry.title == "Ferry line"]
    (beir / "corpus.jsonl").unlink()
    (beir / "queries.jsonl").write_text('{"_id": "1", "text": "When does the ferry leave Tarnholm?"}\n')
    qrels = beir / "qrels" / "test.tsv"
    uploads = len(gateway.received("POST", "/v1/documents"))
    for name in ("Ferry line", str(document.number)):
        qrels.write_text(f"query-id\tcorpus-id\tscore\n1\t{name}\t1\n")
        asked = ("--mode", "dense", "--leave-out", "gold", "--collection", document.collection, "--json")
        done = run("eval", str(beir), *asked)
        assert done.exit_code == 0, done.output
        rows = rows_of(json.loads(done.stdout))
        assert measure(rows["fruit/dense"], "RR@10") == 1
        assert measure(rows["fruit/documents"], "not_found_recall@left_out") == 1
    assert len(gateway.received("POST", "/v1/documents")) == uploads
    qrels.write_text("query-id\tcorpus-id\tscore\n1\tZoo\t1\n")
    missing = run("eval", str(beir), "--mode", "dense", "--collection", document.collection)
    assert missing.exit_code == 1
    assert "has the id, file name or title 'Zoo'" in missing.stderr


def test_a_collection_is_only_for_sets_without_a_corpus(
    run: Run, gateway: FakeGateway, squad: Path, beir: Path
) -> None:
    assert "has its own documents" in run("eval", str(squad), "--collection", "x").stderr
    (beir / "corpus.jsonl").unlink()
    done = run("eval", str(beir))
    assert done.exit_code == 2
    assert "use --collection to name where its documents are" in done.stderr
    assert not gateway.requests


def test_judged_by_chunk(run: Run, gateway: FakeGateway, library: EvalLibrary, squad: Path, beir: Path) -> None:
    done = run("eval", str(squad), "--mode", "dense", "--by", "chunk", "--json")
    (row,) = rows_of(json.loads(done.stdout)).values()
    assert (row["label"], measure(row, "R@5")) == ("dense by chunk", 1)
    assert "group_by" not in bodies(gateway, "POST", "/v1/search")[0]
    refused = run("eval", str(beir), "--mode", "dense", "--by", "chunk")
    assert refused.exit_code == 1
    assert "fruit judges only whole documents" in refused.stderr
    assert library.documents


def test_a_limit_on_questions(run: Run, gateway: FakeGateway, library: EvalLibrary, beir: Path) -> None:
    assert run("eval", str(beir), "--mode", "dense", "-n", "1").exit_code == 0
    assert len(gateway.received("POST", "/v1/search")) == 1
    assert len(library.documents) == 3  # the whole corpus is uploaded


def test_failed_questions_are_named_and_count_as_nothing_found(run: Run, library: EvalLibrary, squad: Path) -> None:
    library.broken["When does the ferry leave Tarnholm?"] = 500
    done = run("eval", str(squad), "--mode", "dense", "--answers", "--json")
    assert done.exit_code == 1
    assert "line dense: 1 of 2 questions failed" in done.stderr
    assert "q1: Broken: as the test says" in done.stderr
    assert "q1 (answerable)" in done.stderr
    rows = rows_of(json.loads(done.stdout))
    assert measure(rows["line/dense"], "R@5") == 0.5
    assert measure(rows["line/documents"], "answered") == 1  # a failed question isn't judged
    assert rows["line/documents"]["questions"] == 3


def test_a_gateway_that_refuses_all_requests_ends_the_run(run: Run, library: EvalLibrary, squad: Path) -> None:
    library.broken["When does the ferry leave Tarnholm?"] = 401
    assert run("eval", str(squad), "--mode", "dense").exit_code == 4


def test_a_fault_on_every_question_ends_the_run(
    run: Run, gateway: FakeGateway, library: EvalLibrary, beir: Path
) -> None:
    queries = [{"_id": str(number), "text": f"query {number}"} for number in range(40)]
    (beir / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    judged = "".join(f"{number}\ta\t1\n" for number in range(40))
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    library.broken |= {f"query {number}": 500 for number in range(40)}
    done = run("eval", str(beir), "--mode", "dense", "--concurrency", "1")
    assert done.exit_code == 1
    assert "(each of the first 20 questions of fruit, dense failed)" in done.stderr
    assert len(gateway.received("POST", "/v1/search")) == 20


@pytest.mark.usefixtures("quick")
def test_overload_is_waited_for(run: Run, gateway: FakeGateway, library: EvalLibrary, beir: Path) -> None:
    refuse_at_first(gateway, library.search, times=3, status=429)
    done = run("eval", str(beir), "--mode", "dense", "--json")
    assert done.exit_code == 0, done.output
    assert len(gateway.received("POST", "/v1/search")) == 2 + 3


@pytest.mark.usefixtures("quick")
def test_overload_that_stays_is_a_failure(run: Run, gateway: FakeGateway, library: EvalLibrary, beir: Path) -> None:
    library.broken |= {"apples": 503}
    done = run("eval", str(beir), "--mode", "dense")
    assert done.exit_code == 1
    assert "1: Broken" in done.stderr
    assert len(gateway.received("POST", "/v1/search")) == 1 + client.TRIES


def refuse_at_first(gateway: FakeGateway, handler: Callable[[Request], Reply], *, times: int, status: int) -> None:
    left, lock = [times], threading.Lock()

    def answer(request: Request) -> Reply:
        with lock:
            left[0] -= 1
            refuse = left[0] >= 0
        return reply_problem(status, "Busy") if refuse else handler(request)

    gateway.on("POST", "/v1/search", answer)


def test_an_unreachable_gateway(run: Run, monkeypatch: pytest.MonkeyPatch, squad: Path) -> None:
    monkeypatch.setattr(client, "LONGEST_PAUSE", 0.001)
    monkeypatch.setenv("CITEWIRE_URL", "http://127.0.0.1:1")
    assert run("eval", str(squad)).exit_code == 3


def test_documents_that_failed_end_the_run(run: Run, library: EvalLibrary, beir: Path) -> None:
    library.failed = {"b"}
    done = run("eval", str(beir))
    assert done.exit_code == 1
    assert "1 of 3 documents failed to ingest (b)" in done.stderr


def test_a_document_that_was_deleted_is_uploaded_again(run: Run, library: EvalLibrary, beir: Path) -> None:
    run("eval", str(beir), "--mode", "dense")
    del library.documents[2]  # its Idempotency-Key is still remembered
    done = run("eval", str(beir), "--mode", "dense", "--json")
    assert done.exit_code == 0, done.output
    assert sorted(document.metadata["eval_id"] for document in library.documents.values()) == ["a", "b", "c"]


def test_an_unknown_profile(run: Run, library: EvalLibrary, squad: Path) -> None:
    done = run("eval", str(squad), "-p", "unknown", "--no-search")
    assert done.exit_code == 5
    assert "there is no profile 'unknown'" in done.stderr
    assert library.documents


def test_bad_data_sets_are_usage_errors(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"data": 1}')
    done = run("eval", str(tmp_path / "bad.json"))
    assert done.exit_code == 2
    assert "bad.json: the field 'data' must be a list, not a number" in done.stderr
    assert not gateway.requests


@pytest.mark.parametrize("arguments", [(), ("--export", "somewhere")])
def test_without_a_set_it_says_what_to_name(run: Run, arguments: tuple[str, ...]) -> None:
    done = run("eval", *arguments)
    assert done.exit_code == 2
    assert "feedback" in done.stderr
