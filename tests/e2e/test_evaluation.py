"""`citewire eval` on a running stack: small sets in BEIR and SQuAD form, made here, whose outcome is known."""

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
def test_each_search_finds_what_is_there(first_run: Json, dataset: str, mode: str) -> None:
    assert measures(first_run, dataset, mode)["R@5"] == 1
    assert measures(first_run, dataset, mode)["nDCG@10"] > 0.9
    assert cast("dict[str, float]", row(first_run, dataset, mode)["latency_ms"])["p95"] > 0
    assert row(first_run, dataset, mode)["failures"] == []


def test_answers_hold_the_gold_answer_and_cite_its_document(first_run: Json) -> None:
    values = measures(first_run, "towns", "sources")
    assert values["answered"] == 1
    assert values["answer_present"] == 1
    assert values["citation_recall"] == 1
    assert values["citation_precision"] > 0.5


def test_every_quote_is_verbatim(first_run: Json) -> None:
    assert cast("dict[str, int]", row(first_run, "towns", "sources")["counts"])["quotes"] >= len(TOWNS)
    assert measures(first_run, "towns", "sources")["quote_verbatim"] == 1


def test_what_is_not_there_is_not_found(first_run: Json) -> None:
    assert measures(first_run, "towns", "sources")["not_found_recall"] == 1
    assert measures(first_run, "towns", "sources")["false_not_found"] == 0


def test_thresholds_come_from_what_was_measured(first_run: Json, folder: Path) -> None:
    derived = cast("dict[str, float]", first_run["calibration"])
    gold = cast("dict[str, dict[str, float]]", row(first_run, "towns", "dense")["scores"])["gold"]
    assert 0 < derived["relevance_threshold"] <= min(gold.values())
    assert 0 <= derived["dense_weight"] <= 1
    assert 0 <= derived["answerable_threshold"] <= 1
    assert "<svg" in (folder / "scores.html").read_text()


async def test_a_second_run_uses_the_same_documents_and_differs_by_nothing(
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
def test_a_bound_that_is_broken_fails(stack: LocalStack, folder: Path) -> None:
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
