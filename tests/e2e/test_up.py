"""`citewire up` as a newcomer meets it: the sample library, the printed lines, restarts, and a clean end."""

from __future__ import annotations

import json
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from citewire_cli.stack.logs import read_line
from citewire_cli.stack.sample import QUESTION, sample_sources
from citewire_client.sse import SseEvent, SseParser
from local_stack import PORTS, PROCESSES, LocalStack, local_stack

QUESTIONS: list[tuple[str, str, dict[str, object], str]] = [
    (QUESTION, "travel-expenses.md", {"section": "Meal allowance"}, "62 euros"),
    ("Where are the orange boarding cards kept?", "incident-runbook.md", {"section": "Going to orange"}, "red cabinet"),
    ("Which Android version does Gangway need?", "release-notes.html", {"section": "Gangway 4.1"}, "Android 10"),
    ("How many people does a life raft hold?", "deck-safety.pdf", {"page_number": 1}, "25"),
    (
        "At which wave height are sailings cancelled?",
        "deck-safety.pdf",
        {"page_number": 3},
        "2.5",
    ),
    ("When does the Ullsand ticket counter close?", "offices.csv", {"row_number": 6}, "19:30"),
    ("What does a car cost from Tarnholm to Brannoy?", "fares.tsv", {"row_number": 4}, "49"),
    ("How long is the trial period of new crew?", "welcome-letter.txt", {}, "four months"),
    ("How deep must the water at Brannoy be for a ship to berth?", "tide_windows.py", {}, "SAFETY_MARGIN_METRES"),
    ("How long are seats held while a passenger pays?", "seat-hold.ts", {}, "eight minutes"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("up") / "data"


@pytest.fixture(scope="module")
def sample(home: Path) -> Iterator[LocalStack]:
    """A stack with the sample library."""
    with local_stack(home, arguments=("--grace", "10")) as stack:
        stack.wait(lambda: stack.events("welcome") or None, "no welcome", seconds=120)
        yield stack


def events_of(stream: bytes) -> list[SseEvent]:
    return list(SseParser().feed(stream))


def citewire(stack: LocalStack, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "CITEWIRE_URL": stack.base_url, "CITEWIRE_DATA_DIR": str(stack.data_dir)}
    command = [sys.executable, "-m", "citewire_cli", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)


def test_ready_is_printed_once_the_sample_library_can_be_searched(sample: LocalStack) -> None:
    (ready,) = sample.events("ready")
    (loaded,) = sample.events("sample_ready")
    assert loaded["documents"] == len(sample_sources()) == 9
    assert str(loaded["ts"]) <= str(ready["ts"])
    assert set(sample.pids()) == set(PROCESSES)


def test_first_start_logs_no_error_and_no_warning(sample: LocalStack) -> None:
    bad = [
        f"{path.name}: {raw.decode()}"
        for path in sample.logs.iterdir()
        for raw in path.read_bytes().splitlines()
        if read_line(raw).level >= logging.WARNING
    ]
    assert bad == []


@pytest.mark.system(program="curl", package="curl")
def test_printed_curl_line_answers_in_the_documented_order(sample: LocalStack) -> None:
    (welcome,) = sample.events("welcome")
    curl = shlex.split(str(welcome["curl"]))
    assert curl[:2] == ["curl", "-N"]
    done = subprocess.run([*curl, "-sS", "--max-time", "60"], capture_output=True, timeout=90, check=True)
    events = events_of(done.stdout)
    names = [event.event for event in events]
    tokens = names.count("token")
    assert tokens >= 1
    assert [name for name in names if name != "conversation"] == ["citations", *["token"] * tokens, "usage", "done"]
    assert names[0] in {"conversation", "citations"}
    assert events[-1].data == "{}"
    citations = json.loads(events[names.index("citations")].data)["citations"]
    assert citations[0]["file_name"] == "travel-expenses.md"
    assert "Meal allowance" in citations[0]["section"]
    answer = "".join(json.loads(event.data)["text"] for event in events if event.event == "token")
    assert "62 euros" in answer
    usage = json.loads(events[names.index("usage")].data)
    assert set(usage) == {"embedding_tokens", "prompt_tokens", "completion_tokens"}


def test_printed_ask_line_answers_with_numbered_sources(sample: LocalStack) -> None:
    (welcome,) = sample.events("welcome")
    ask = shlex.split(str(welcome["ask"]))
    assert ask[-2:] == ["ask", QUESTION]
    done = citewire(sample, *ask[-2:])
    assert done.returncode == 0, done.stderr
    assert "62 euros" in done.stdout
    assert "\nSources\n[1] travel-expenses.md, § " in done.stdout


@pytest.mark.parametrize(("question", "file", "place", "fact"), QUESTIONS, ids=[case[1] for case in QUESTIONS])
def test_sample_questions_open_the_right_place(
    sample: LocalStack, question: str, file: str, place: dict[str, object], fact: str
) -> None:
    with httpx.Client(base_url=sample.base_url, trust_env=False, timeout=60) as http:
        answer = http.post("/v1/chat", json={"question": question, "stream": False}).raise_for_status().json()
        searched = http.post("/v1/search", json={"query": question, "top_k": 3}).raise_for_status().json()
    citations = answer["citations"][:3]
    fitting = [
        citation
        for citation in citations
        if citation["file_name"] == file and all(str(value) in str(citation.get(key)) for key, value in place.items())
    ]
    assert fitting, [(c["file_name"], c.get("section"), c.get("page_number"), c.get("row_number")) for c in citations]
    assert any(fact in result["content"] for result in searched["results"])


def test_question_without_an_answer_exits_with_5(sample: LocalStack) -> None:
    done = citewire(sample, "ask", "What is the capital of Mongolia?", "--json")
    assert done.returncode == 5, done.stdout + done.stderr


def test_status_documents_and_ingest(sample: LocalStack, tmp_path: Path) -> None:
    report = json.loads(citewire(sample, "status", "--json").stdout)
    assert report["ready"] is True
    assert report["documents"]["ready"] >= 9
    assert set(report["processes"]) == set(PROCESSES)
    (tmp_path / "zebra.md").write_text("# Zebra crossing\n\nThe zebra crossing at the pier has 23 stripes.\n")
    first = json.loads(citewire(sample, "ingest", str(tmp_path), "--json").stdout)["documents"][0]
    assert first["status"] == "ready"
    assert first["chunks"] >= 1
    again = json.loads(citewire(sample, "ingest", str(tmp_path), "--json").stdout)["documents"][0]
    assert again["id"] == first["id"]
    question = "How many stripes has the zebra crossing?"
    answer = json.loads(citewire(sample, "ask", question, "--json").stdout)
    assert answer["citations"][0]["file_name"] == f"{tmp_path.name}/zebra.md"
    searched = json.loads(citewire(sample, "search", question, "--json", "-k", "3").stdout)
    assert "23 stripes" in searched["results"][0]["content"]
    assert citewire(sample, "documents", "delete", str(first["id"]), "--yes").returncode == 0
    assert citewire(sample, "documents", "show", str(first["id"])).returncode == 5


def test_keys(sample: LocalStack) -> None:
    made = citewire(sample, "keys", "create", "--org", "acme", "--user", "ann", "--name", "laptop", "--json")
    assert made.returncode == 0, made.stderr
    assert "cw_" in made.stdout
    listed = citewire(sample, "keys", "list", "--org", "acme", "--json")
    assert "laptop" in listed.stdout
    assert json.loads(made.stdout)["key"] not in listed.stdout
    key_id = str(json.loads(made.stdout)["id"])
    assert citewire(sample, "keys", "revoke", key_id).returncode == 0


def test_second_up_on_the_same_folder_says_so(sample: LocalStack) -> None:
    environ = {**os.environ, **dict.fromkeys(PORTS, "0"), "CITEWIRE_DATA_DIR": str(sample.data_dir)}
    command = [sys.executable, "-m", "citewire_cli", "up"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"used by process {sample.process.pid}, at {sample.base_url}" in done.stderr


def test_a_taken_port_is_reported(sample: LocalStack, tmp_path: Path) -> None:
    port = sample.ports()["worker"]
    environ = {**os.environ, **dict.fromkeys(PORTS, "0"), "CITEWIRE_DATA_DIR": str(tmp_path)}
    environ["CITEWIRE_GATEWAY_METRICS_PORT"] = str(port)
    command = [sys.executable, "-m", "citewire_cli", "up"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"Port {port}, which gateway needs for metrics, is taken" in done.stderr
    assert "CITEWIRE_GATEWAY_METRICS_PORT" in done.stderr


@pytest.mark.parametrize("name", PROCESSES)
def test_killed_process_comes_back_and_all_works(sample: LocalStack, name: str) -> None:
    restarts = sample.restarts(name)
    others = {other: pid for other, pid in sample.pids().items() if other != name}
    old = sample.kill(name)
    sample.wait_restarted(name, old)
    sample.wait_ready()
    assert sample.restarts(name) == restarts + 1
    assert {other: pid for other, pid in sample.pids().items() if other != name} == others
    ended = [event for event in sample.events("process_ended") if event["process"] == name]
    assert "SIGKILL" in str(ended[-1]["how"])

    def ask() -> subprocess.CompletedProcess[str] | None:
        done = citewire(sample, "ask", QUESTION, "--json")
        return done if done.returncode != 3 else None  # each of the gateway's channels reconnects at its own pace

    done = sample.wait(ask, f"no answer after {name} was killed", seconds=15)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["citations"][0]["file_name"] == "travel-expenses.md"


def test_sigterm_ends_everything_and_the_data_survives(sample: LocalStack, home: Path) -> None:
    children = sample.descendants()
    assert len(children) >= len(PROCESSES)
    assert sample.stop() == 0
    _, left = psutil.wait_procs(children, timeout=5)
    assert left == []
    assert not (home / "run.json").exists()
    with local_stack(home, arguments=()) as again:
        again.wait(lambda: again.events("welcome") or None, "no welcome", seconds=120)
        assert again.events("sample_ready") == []
        documents = httpx.get(f"{again.base_url}/v1/documents", trust_env=False, timeout=30).json()["documents"]
        assert {source.name for source in sample_sources()} <= {document["file_name"] for document in documents}
        orphans = again.descendants()
        again.process.kill()
        again.process.wait(10)
        _, left = psutil.wait_procs(orphans, timeout=30)
        assert left == []
    # Postgres's guard stopped it, or had no time to: either way the next start finds the data.
    with local_stack(home, arguments=()) as third:
        done = citewire(third, "ask", QUESTION)
        assert done.returncode == 0, done.stderr
        assert third.stop(signal.SIGINT) == 0
    shutil.rmtree(home)
