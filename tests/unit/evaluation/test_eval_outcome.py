"""What follows a run of `citewire eval`: thresholds, comparison, bounds on the exit code, plots."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import cast

import pytest

from citewire_eval.results import write_atomically
from cli_types import Run
from eval_sets import bodies
from fake_eval_library import EvalLibrary
from fake_gateway import FakeGateway, Reply, reply_problem


def test_thresholds_are_derived_and_stored(run: Run, gateway: FakeGateway, library: EvalLibrary, squad: Path) -> None:
    library.calibration = {"dense_weight": None, "relevance_threshold": 0.9, "measured_at": None}
    done = run("eval", str(squad), "--calibrate")
    assert done.exit_code == 0, done.output
    assert library.calibration is not None
    assert library.calibration["relevance_threshold"] == 0.5
    assert library.calibration["answerable_threshold"] == 0.5
    assert library.calibration["dense_weight"] == 0.5
    searches = bodies(gateway, "POST", "/v1/search")
    weights = [cast("float", request["dense_weight"]) for request in searches if "dense_weight" in request]
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


def test_a_user_may_not_store_thresholds(
    run: Run, gateway: FakeGateway, library: EvalLibrary, squad: Path, tmp_path: Path
) -> None:
    gateway.on("PUT", "/v1/spaces/calibration", reply_problem(403, "Permission denied", detail="Ask an admin."))
    done = run("eval", str(squad), "--calibrate", "--save", str(tmp_path / "run.json"))
    assert done.exit_code == 4
    assert "use --dry-run to print them" in done.stderr
    # The measurements aren't lost.
    assert "relevance_threshold: 0.5000" in done.stdout
    assert "calibration" in json.loads((tmp_path / "run.json").read_text())
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
    assert {entry["measure"] for entry in compared} == {"nDCG@10", "R@5", "R@10", "R@100", "RR@10", "off_topic"}


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "citewire.eval/9"}'])
def test_an_invalid_stored_run_is_refused_before_any_request(
    run: Run, gateway: FakeGateway, squad: Path, tmp_path: Path, content: str
) -> None:
    (tmp_path / "before.json").write_text(content)
    done = run("eval", str(squad), "--compare", str(tmp_path / "before.json"))
    assert done.exit_code == 2
    assert "before.json: not" in done.stderr
    assert not gateway.requests


def test_a_missing_stored_run_is_named(run: Run, gateway: FakeGateway, squad: Path, tmp_path: Path) -> None:
    done = run("eval", str(squad), "--compare", str(tmp_path / "before.json"))
    assert done.exit_code == 2
    assert "before.json: cannot be read (No such file or directory)" in "".join(done.stderr.splitlines())
    assert not gateway.requests


@pytest.mark.parametrize("option", ["--save", "--plot"])
def test_an_unwritable_path_is_reported_before_any_request(
    run: Run, gateway: FakeGateway, squad: Path, tmp_path: Path, option: str
) -> None:
    done = run("eval", str(squad), option, str(tmp_path / "none" / "x.svg"))
    assert done.exit_code == 2
    assert "A file cannot be written" in done.stderr
    assert "there is no folder" in done.stderr.replace("\n", " ")
    assert not gateway.requests


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_atomically(path, "before")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "a" * 100_000 + "\ud800")
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]
    (tmp_path / "link.json").symlink_to(path)
    write_atomically(tmp_path / "link.json", "after")
    assert path.read_text() == "after"
    assert (tmp_path / "link.json").is_symlink()


def test_an_answer_of_another_server_is_recognised(run: Run, gateway: FakeGateway, squad: Path) -> None:
    gateway.on("GET", "/v1/spaces", Reply(404, "text/html", (b"<html>nothing here</html>",)))
    done = run("eval", str(squad))
    assert done.exit_code == 5
    assert "may not be Citewire's gateway" in done.stderr


def test_bounds_decide_the_exit_code(run: Run, library: EvalLibrary, beir: Path) -> None:
    result = run("eval", str(beir), "--mode", "dense", "--fail-under", "nDCG@10=0.8", "--fail-over", "p95=60000")
    assert result.exit_code == 0, result.output
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


def test_python_runs_the_package_as_a_program() -> None:
    done = subprocess.run([sys.executable, "-m", "citewire_eval", "--help"], capture_output=True, text=True, check=True)
    assert "--calibrate" in done.stdout


def test_a_plot_of_another_kind_is_refused(run: Run, gateway: FakeGateway, squad: Path) -> None:
    assert run("eval", str(squad), "--plot", "scores.png").exit_code == 2
    assert not gateway.requests
