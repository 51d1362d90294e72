"""`citewire eval` on a running stack, with small sets in BEIR and SQuAD form whose results are known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import httpx
import pytest

from local_stack import LocalStack

Json = dict[str, object]

TOWNS = ("Tarnholm", "Brannoy", "Ullsand", "Merrick", "Vaxley", "Skarvik", "Oddmoor", "Penhallow")
GOODS = ("salted herring", "slate", "beeswax", "hemp rope", "cider", "oak barrels", "lamp oil", "sheepskin")
YEARS = (1713, 1750, 1788, 1802, 1826, 1841, 1867, 1899)


def town_text(number: int) -> str:
    town, goods, year = TOWNS[number], GOODS[number], YEARS[number]
    return (
        f"The harbour of {town} was built in {year}. For a long time the merchants of {town} shipped mostly {goods}. "
        f"A lighthouse keeper still lives on the eastern pier."
    )


def write_beir(folder: Path) -> Path:
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": f"d{n}", "title": town, "text": town_text(n)} for n, town in enumerate(TOWNS)]
    queries = [{"_id": f"q{n}", "text": f"What did the merchants of {town} ship?"} for n, town in enumerate(TOWNS)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus))
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    judged = "".join(f"q{n}\td{n}\t1\n" for n in range(len(TOWNS)))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


def write_squad(path: Path) -> Path:
    def article(number: int) -> Json:
        context, year = town_text(number), str(YEARS[number])
        asked: list[Json] = [
            {
                "id": f"year-{number}",
                "question": f"When was the harbour of {TOWNS[number]} built?",
                "answers": [{"text": year, "answer_start": context.index(year)}],
                "is_impossible": False,
            },
            {
                "id": f"none-{number}",
                "question": f"Which orchestra performed the symphony number {number} in Vienna?",
                "answers": [],
                "is_impossible": True,
            },
        ]
        return {"title": TOWNS[number], "paragraphs": [{"context": context, "qas": asked}]}

    path.write_text(json.dumps({"version": "v2.0", "data": [article(number) for number in range(len(TOWNS))]}))
    return path


def evaluate(stack: LocalStack, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "CITEWIRE_URL": stack.base_url, "CITEWIRE_DATA_DIR": str(stack.data_dir)}
    command = [sys.executable, "-m", "citewire_cli", "eval", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("eval")


@pytest.fixture(scope="module")
def first_run(stack: LocalStack, folder: Path) -> Json:
    sets = [str(write_beir(folder / "harbours")), str(write_squad(folder / "towns.json"))]
    more = [
        "--profile",
        "sources",
        "--leave-out",
        "gold",
        "--plot",
        str(folder / "scores.html"),
        "--calibrate",
        "--dry-run",
    ]
    modes = ["--mode", "lexical", "--mode", "hybrid+rerank"]
    done = evaluate(stack, *sets, *more, *modes, "--save", str(folder / "run.json"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((folder / "run.json").read_text())
    return json.loads(done.stdout)


def row(run: Json, dataset: str, label: str) -> Json:
    rows = cast("list[Json]", run["rows"])
    return next(entry for entry in rows if (entry["dataset"], entry["label"]) == (dataset, label))


def measures(run: Json, dataset: str, label: str) -> dict[str, float]:
    return cast("dict[str, float]", row(run, dataset, label)["measures"])


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid+rerank"])
@pytest.mark.parametrize("dataset", ["harbours", "towns"])
def test_each_search_mode_finds_the_documents(first_run: Json, dataset: str, mode: str) -> None:
    assert measures(first_run, dataset, mode)["R@5"] == 1
    assert measures(first_run, dataset, mode)["nDCG@10"] > 0.9
    assert cast("dict[str, float]", row(first_run, dataset, mode)["latency_ms"])["p95"] > 0
    assert row(first_run, dataset, mode)["failures"] == []


def test_answers_contain_the_gold_answer_and_cite_its_document(first_run: Json) -> None:
    values = measures(first_run, "towns", "sources")
    assert values["answered"] == 1
    assert values["answer_present"] == 1
    assert values["citation_recall"] == 1
    assert values["citation_precision"] > 0.5


def test_every_quote_is_verbatim(first_run: Json) -> None:
    assert cast("dict[str, int]", row(first_run, "towns", "sources")["counts"])["quotes"] >= len(TOWNS)
    assert measures(first_run, "towns", "sources")["quote_verbatim"] == 1


def test_missing_facts_are_not_found(first_run: Json) -> None:
    assert measures(first_run, "towns", "sources")["not_found_recall"] == 1
    assert measures(first_run, "towns", "sources")["false_not_found"] == 0


def test_thresholds_come_from_measurements(first_run: Json, folder: Path) -> None:
    derived = cast("dict[str, float]", first_run["calibration"])
    gold = cast("dict[str, dict[str, float]]", row(first_run, "towns", "dense")["scores"])["gold"]
    assert 0 < derived["relevance_threshold"] <= min(gold.values())
    assert 0 <= derived["dense_weight"] <= 1
    assert 0 <= derived["answerable_threshold"] <= 1
    assert "<svg" in (folder / "scores.html").read_text()


async def test_a_second_run_uses_the_same_documents_and_gives_the_same_results(
    first_run: Json, stack: LocalStack, folder: Path, api: httpx.AsyncClient
) -> None:
    before = (await api.get("/v1/documents", params={"page_size": 1000})).json()["documents"]
    compared = ["--compare", str(folder / "run.json"), "--fail-under", "nDCG@10=0.9", "--json"]
    done = evaluate(stack, str(folder / "harbours"), "--mode", "dense", *compared)
    assert done.returncode == 0, done.stderr
    comparison = cast("list[Json]", json.loads(done.stdout)["comparison"])
    assert {measure["difference"] for measure in comparison} == {0.0}
    assert measures(json.loads(done.stdout), "harbours", "dense") == measures(first_run, "harbours", "dense")
    after = (await api.get("/v1/documents", params={"page_size": 1000})).json()["documents"]
    assert [entry["id"] for entry in after] == [element["id"] for element in before]


@pytest.mark.usefixtures("first_run")
def test_a_missed_bound_fails_the_run(stack: LocalStack, folder: Path) -> None:
    done = evaluate(stack, str(folder / "harbours"), "--mode", "dense", "--fail-over", "R@5=0.5")
    assert done.returncode == 1
    assert "harbours dense: R@5 1.0000 is over 0.5" in done.stderr


async def test_thresholds_are_stored_with_the_live_space(
    first_run: Json, stack: LocalStack, folder: Path, api: httpx.AsyncClient
) -> None:
    try:
        done = evaluate(stack, str(folder / "towns.json"), "--calibrate")
        assert done.returncode == 0, done.stderr
        assert "Stored with all-MiniLM-L6-v2" in done.stdout
        (space,) = [entry for entry in (await api.get("/v1/spaces")).json()["spaces"] if entry["role"] == "live"]
        stored = space["calibration"]
        assert stored["measured_at"]
        assert 0 < stored["relevance_threshold"] < 1
        assert stored["report"]["command"] == "citewire eval --calibrate"
    finally:
        live = cast("Json", first_run["space"])
        response = await api.put("/v1/spaces/calibration", json={"space": live, "calibration": None})
        assert response.status_code == 200, response.text


def test_ratings_become_a_data_set(stack: LocalStack, tmp_path: Path) -> None:
    """By the real API: a good answer's quotes become expectations, a bad answer a case; follow-ups are left out."""
    text = (
        "# Griffins\n\nThe griffin stabling fee is 4714 guilders a month.\n\n# Hydras\n\nA hydra eats 17 goats a day.\n"
    )
    with httpx.Client(base_url=stack.base_url, trust_env=False, timeout=120) as http:
        stored = http.post("/v1/documents", files={"file": ("beasts.md", text.encode())}).raise_for_status().json()
        stack.wait(lambda: ready(http, stored["id"]), "the document isn't ready")

        def ask(question: str, **more: object) -> Json:
            body = {"question": question, "profile": "grounded", "stream": False, **more}
            return http.post("/v1/chat", json=body).raise_for_status().json()

        def rate(answer: Json, **body: object) -> str:
            path = f"/v1/conversations/{answer['conversation_id']}/answers/{answer['exchange_id']}/feedback"
            http.put(path, json=body).raise_for_status()
            return str(answer["exchange_id"])

        good = ask("How much is the griffin stabling fee?")
        bad = ask("How many goats does a hydra eat a day?")
        rated_up, rated_down = rate(good, rating="up"), rate(bad, rating="down", reasons=["outdated"], comment="18 now")
        rate(ask("And in a year?", conversation_id=good["conversation_id"]), rating="up")
    options = ["--mode", "lexical", "--by", "chunk", "--profile", "grounded"]
    folder = tmp_path / "set"
    done = evaluate(stack, "--from", "feedback", *options, "--export", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    assert "asked as a follow-up in a conversation" in done.stderr
    run = cast("Json", json.loads(done.stdout))
    for label, name in (("lexical by chunk", "R@5"), ("grounded", "quote_recall"), ("grounded", "citation_recall")):
        per_query = cast("dict[str, dict[str, float]]", row(run, "feedback", label)["per_query"])
        assert per_query[name][rated_up] == 1, (label, name)
    case = next(case for case in cast("list[Json]", run["cases"]) if case["case_id"] == rated_down)
    assert (case["reasons"], case["comment"]) == (["outdated"], "18 now")
    assert any("17 goats" in quote for quote in cast("list[str]", case["quotes"]))
    # The export can be evaluated like any other set, with the same content.
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    query = next(query for query in queries if query["_id"] == rated_up)
    assert ("4714" in query["answers"][0], "[ref:" in query["answers"][0], len(query["quotes"])) == (True, False, 1)
    assert f"{rated_up}\t{stored['id']}\t1\n" in (folder / "qrels" / "test.tsv").read_text()
    assert rated_down in (folder / "cases.jsonl").read_text()
    shown = evaluate(stack, "--from", "feedback", "--no-search")
    assert "Rated down, to review" in shown.stdout
    assert "18 now" in shown.stdout


def ready(http: httpx.Client, number: int) -> bool | None:
    return http.get(f"/v1/documents/{number}").json()["status"] == "ready" or None
