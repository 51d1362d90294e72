"""`citewire eval` against an HTTP API that answers as documented: what it asks, prints, stores, and how it exits."""

from __future__ import annotations

import json
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from citewire_cli.evaluation import gateway as patience
from cli_types import Run
from fake_eval_library import EvalLibrary
from fake_gateway import FakeGateway, Reply, Request, reply_problem

Json = dict[str, object]

FERRY = "The ferry leaves Tarnholm at seven. Cars cost 49 euros."
MUSEUM = "The museum of glass opened in 1931. It has three floors."


@pytest.fixture
def library(gateway: FakeGateway) -> EvalLibrary:
    library = EvalLibrary()
    library.attach(gateway)
    return library


@pytest.fixture
def squad(tmp_path: Path) -> Path:
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
    path = tmp_path / "line.json"
    path.write_text(json.dumps({"version": "v2.0", "data": body}))
    return path


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    """Three documents and two queries, of which the second finds its document at rank 2."""
    folder = tmp_path / "fruit"
    (folder / "qrels").mkdir(parents=True)
    texts = {"a": "Apples are red.", "b": "Bananas are yellow and red.", "c": "Cherries."}
    (folder / "corpus.jsonl").write_text("".join(json.dumps({"_id": k, "text": v}) + "\n" for k, v in texts.items()))
    queries = {"1": "apples", "2": "red"}
    (folder / "queries.jsonl").write_text("".join(json.dumps({"_id": k, "text": v}) + "\n" for k, v in queries.items()))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t1\n2\tb\t1\n")
    return folder


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries are short."""
    monkeypatch.setattr(patience, "LONGEST_PAUSE", 0.001)


def stored(path: Path) -> Json:
    return json.loads(path.read_text())


def rows_of(run: Json) -> dict[str, Json]:
    return {f"{row['dataset']}/{row['label']}": row for row in cast("list[Json]", run["rows"])}


def measure(row: Json, name: str) -> float:
    return cast("dict[str, float]", row["measures"])[name]


def bodies(gateway: FakeGateway, method: str, path: str) -> list[Json]:
    return [request.json() for request in gateway.received(method, path)]


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
    assert {str(one.get("group_by")) for one in searches} == {"document"}
    assert [(one["mode"], one["top_k"]) for one in searches if one.get("rerank")] == [("hybrid", 40)] * 2
    # Reranking looks at forty, so it has no recall at a hundred.
    has = [label for label, row in rows.items() if "R@100" in cast("Json", row["measures"])]
    assert has == ["fruit/dense", "fruit/hybrid"]
    assert not gateway.received("POST", "/v1/chat")
    assert len(library.documents) == 3


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
    assert all(one["include"] == ["citation"] and one["stream"] is False for one in chats)
    filters = [one["filter"] for one in chats if "filter" in one]
    assert sorted(str(cast("Json", cast("Json", one)["not"])["value"]) for one in filters) == ["Ferry line", "Museum"]
    assert library.conversations == {"forgotten"}  # none of ours stays in the person's list


def test_a_quote_beside_its_offsets_is_counted(run: Run, library: EvalLibrary, squad: Path, tmp_path: Path) -> None:
    library.shift = 1
    run("eval", str(squad), "--no-search", "-p", "sources", "--save", str(tmp_path / "run.json"))
    (row,) = rows_of(stored(tmp_path / "run.json")).values()
    assert measure(row, "quote_verbatim") == 0


def test_wrong_answers_are_seen(run: Run, library: EvalLibrary, squad: Path, tmp_path: Path) -> None:
    library.threshold = 0.6  # the first question now is falsely not found: it shares half of its words
    run("eval", str(squad), "--no-search", "--answers", "--save", str(tmp_path / "run.json"))
    (row,) = rows_of(stored(tmp_path / "run.json")).values()
    assert row["label"] == "documents"
    assert (measure(row, "answered"), measure(row, "false_not_found")) == (0.5, 0.5)
    assert measure(row, "answer_present") == 0.5
    assert measure(row, "not_found_precision") == 0.5
    assert measure(row, "citation_precision") == 1  # of the one that was answered


def test_documents_that_the_library_has_already(
    run: Run, gateway: FakeGateway, library: EvalLibrary, squad: Path, beir: Path
) -> None:
    run("eval", str(squad), "--mode", "dense")
    (document, *_) = [one for one in library.documents.values() if one.title == "Ferry line"]
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


def test_a_collection_goes_with_sets_without_a_corpus(run: Run, gateway: FakeGateway, squad: Path, beir: Path) -> None:
    assert "documents of its own" in run("eval", str(squad), "--collection", "x").stderr
    (beir / "corpus.jsonl").unlink()
    done = run("eval", str(beir))
    assert done.exit_code == 2
    assert "--collection names where its documents are" in done.stderr
    assert not gateway.requests


def test_judged_by_chunk(run: Run, gateway: FakeGateway, library: EvalLibrary, squad: Path, beir: Path) -> None:
    done = run("eval", str(squad), "--mode", "dense", "--by", "chunk", "--json")
    (row,) = rows_of(json.loads(done.stdout)).values()
    assert (row["label"], measure(row, "R@5")) == ("dense by chunk", 1)
    assert "group_by" not in bodies(gateway, "POST", "/v1/search")[0]
    refused = run("eval", str(beir), "--mode", "dense", "--by", "chunk")
    assert refused.exit_code == 1
    assert "fruit judges whole documents only" in refused.stderr
    assert library.documents


def test_only_some_questions(run: Run, gateway: FakeGateway, library: EvalLibrary, beir: Path) -> None:
    assert run("eval", str(beir), "--mode", "dense", "-n", "1").exit_code == 0
    assert len(gateway.received("POST", "/v1/search")) == 1
    assert len(library.documents) == 3  # the corpus is whole all the same


def test_failed_questions_are_named_and_count_as_nothing_found(run: Run, library: EvalLibrary, squad: Path) -> None:
    library.broken["When does the ferry leave Tarnholm?"] = 500
    done = run("eval", str(squad), "--mode", "dense", "--answers", "--json")
    assert done.exit_code == 1
    assert "line dense: 1 of 2 questions failed" in done.stderr
    assert "q1: Broken: as the test says" in done.stderr
    assert "q1 (answerable)" in done.stderr
    rows = rows_of(json.loads(done.stdout))
    assert measure(rows["line/dense"], "R@5") == 0.5
    assert measure(rows["line/documents"], "answered") == 1  # an answer that nobody gave isn't judged
    assert rows["line/documents"]["questions"] == 3


def test_a_gateway_that_refuses_everybody_ends_the_run(run: Run, library: EvalLibrary, squad: Path) -> None:
    library.broken["When does the ferry leave Tarnholm?"] = 401
    assert run("eval", str(squad), "--mode", "dense").exit_code == 4


def test_what_fails_for_every_question_ends_the_run(
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
    assert len(gateway.received("POST", "/v1/search")) == 1 + patience.TRIES


def refuse_at_first(gateway: FakeGateway, handler: Callable[[Request], Reply], *, times: int, status: int) -> None:
    left, lock = [times], threading.Lock()

    def answer(request: Request) -> Reply:
        with lock:
            left[0] -= 1
            refuse = left[0] >= 0
        return reply_problem(status, "Busy") if refuse else handler(request)

    gateway.on("POST", "/v1/search", answer)


def test_a_gateway_that_is_away(run: Run, monkeypatch: pytest.MonkeyPatch, squad: Path) -> None:
    monkeypatch.setattr(patience, "LONGEST_PAUSE", 0.001)
    monkeypatch.setenv("CITEWIRE_URL", "http://127.0.0.1:1")
    assert run("eval", str(squad)).exit_code == 3


def test_documents_that_failed_end_the_run(run: Run, library: EvalLibrary, beir: Path) -> None:
    library.failed = {"b"}
    done = run("eval", str(beir))
    assert done.exit_code == 1
    assert "1 of 3 documents failed to ingest (b)" in done.stderr


def test_a_document_that_was_deleted_is_uploaded_again(run: Run, library: EvalLibrary, beir: Path) -> None:
    run("eval", str(beir), "--mode", "dense")
    del library.documents[2]  # its Idempotency-Key is remembered all the same
    done = run("eval", str(beir), "--mode", "dense", "--json")
    assert done.exit_code == 0, done.output
    assert sorted(document.metadata["eval_id"] for document in library.documents.values()) == ["a", "b", "c"]


def test_thresholds_are_derived_and_stored(run: Run, gateway: FakeGateway, library: EvalLibrary, squad: Path) -> None:
    library.calibration = {"dense_weight": None, "relevance_threshold": 0.9, "measured_at": None}
    done = run("eval", str(squad), "--calibrate")
    assert done.exit_code == 0, done.output
    assert library.calibration is not None
    assert library.calibration["relevance_threshold"] == 0.5
    assert library.calibration["answerable_threshold"] == 0.5
    assert library.calibration["dense_weight"] == 0.5
    searches = bodies(gateway, "POST", "/v1/search")
    weights = [cast("float", one["dense_weight"]) for one in searches if "dense_weight" in one]
    assert sorted(weights) == sorted([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9] * 2)
    assert "Stored with all-MiniLM-L6-v2: relevance_threshold, answerable_threshold, dense_weight." in done.stdout
    assert "too few to be sure" in done.stdout


def test_a_dry_run_stores_nothing(run: Run, gateway: FakeGateway, library: EvalLibrary, squad: Path) -> None:
    done = run("eval", str(squad), "--calibrate", "--dry-run")
    assert done.exit_code == 0, done.output
    assert library.calibration is None
    assert "relevance_threshold: 0.5000" in done.stdout
    assert "Not stored (--dry-run)" in done.stdout
    assert not gateway.received("PUT", "/v1/spaces/calibration")


def test_calibration_asks_a_model_without_scores_only_once(
    run: Run, gateway: FakeGateway, library: EvalLibrary, squad: Path
) -> None:
    library.scores = False
    done = run("eval", str(squad), "--calibrate")
    assert done.exit_code == 0, done.output
    assert len(gateway.received("POST", "/v1/chat")) == 1
    assert library.calibration is not None
    assert "answerable_threshold" not in library.calibration
    assert "answerable_threshold: not derived" in done.stdout


def test_a_user_may_not_store_thresholds(run: Run, gateway: FakeGateway, library: EvalLibrary, squad: Path) -> None:
    gateway.on("PUT", "/v1/spaces/calibration", reply_problem(403, "Permission denied", detail="Ask an admin."))
    done = run("eval", str(squad), "--calibrate")
    assert done.exit_code == 4
    assert "--dry-run only prints" in done.stderr
    assert library.calibration is None


def test_a_run_is_compared_with_a_stored_one(run: Run, library: EvalLibrary, squad: Path, tmp_path: Path) -> None:
    saved = str(tmp_path / "before.json")
    assert run("eval", str(squad), "--mode", "dense", "--answers", "--save", saved).exit_code == 0
    library.threshold = 0.6
    done = run("eval", str(squad), "--mode", "dense", "--answers", "--compare", saved)
    assert done.exit_code == 0, done.output
    lines = {" ".join(line.split()) for line in done.stdout.splitlines()}
    assert "line documents answered 2 1 1.0000 0.5000 -0.5000 1.0000 1.0000" in lines
    assert not any(line.startswith("line dense nDCG@10") for line in lines)
    assert "further measures are the same for every question." in done.stdout
    compared = json.loads(run("eval", str(squad), "--mode", "dense", "--compare", saved, "--json").stdout)["comparison"]
    assert {one["measure"] for one in compared} == {"nDCG@10", "R@5", "R@10", "R@100", "RR@10"}


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "citewire.eval/9"}'])
def test_what_is_no_stored_run_is_refused_before_anything_is_asked(
    run: Run, gateway: FakeGateway, squad: Path, tmp_path: Path, content: str
) -> None:
    (tmp_path / "before.json").write_text(content)
    done = run("eval", str(squad), "--compare", str(tmp_path / "before.json"))
    assert done.exit_code == 2
    assert "before.json: not" in done.stderr
    assert not gateway.requests


def test_bounds_decide_how_it_exits(run: Run, library: EvalLibrary, beir: Path) -> None:
    kept = run("eval", str(beir), "--mode", "dense", "--fail-under", "nDCG@10=0.8", "--fail-over", "p95=60000")
    assert kept.exit_code == 0, kept.output
    broken = run("eval", str(beir), "--mode", "dense", "--fail-under", "dense:nDCG@10=0.9")
    assert broken.exit_code == 1
    assert "fruit dense: nDCG@10 0.8155 is under 0.9" in broken.stderr
    assert run("eval", str(beir), "--fail-under", "nDCG=0.9").exit_code == 2
    assert library.documents


@pytest.mark.parametrize("name", ["plot.svg", "plot.html"])
def test_distributions_are_drawn(run: Run, library: EvalLibrary, squad: Path, tmp_path: Path, name: str) -> None:
    library.calibration = {"relevance_threshold": 0.25, "answerable_threshold": 0.4, "measured_at": None}
    done = run("eval", str(squad), "--calibrate", "--dry-run", "--plot", str(tmp_path / name))
    assert done.exit_code == 0, done.output
    page = (tmp_path / name).read_text()
    picture = page[page.index("<svg") : page.index("</svg>") + len("</svg>")]
    texts = [element.text or "" for element in ElementTree.fromstring(picture).iter() if element.tag.endswith("text")]  # noqa: S314 # written by us above
    assert {"line, dense", "best gold chunk (2)", "stored 0.250", "derived 0.500", "line, documents"} <= set(texts)
    assert "left out (2)" in texts


def test_a_plot_of_another_kind_is_refused(run: Run, gateway: FakeGateway, squad: Path) -> None:
    assert run("eval", str(squad), "--plot", "scores.png").exit_code == 2
    assert not gateway.requests


def test_a_profile_that_there_is_not(run: Run, library: EvalLibrary, squad: Path) -> None:
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
