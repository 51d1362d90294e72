"""`citewire ask` against a real HTTP server: its output and exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from cli_types import Run
from fake_gateway import FakeGateway, Reply, frame, reply_events, reply_json, reply_problem

CITATION = {
    "index": 1,
    "chunk_id": 11,
    "document_id": 3,
    "version": 1,
    "title": "Travel",
    "file_name": "travel.pdf",
    "ref": "p. 2",
    "snippet": "Abroad it is 62 euros.",
    "score": 0.713,
    "page_number": 2,
}
ROW = {
    "index": 2,
    "document_id": 4,
    "file_name": "offices.csv",
    "snippet": "office: Ullsand",
    "score": 0.5,
    "row_number": 6,
}
CODE = {"index": 3, "document_id": 5, "file_name": "a.py", "snippet": "def f():", "start_line": 4, "end_line": 9}
PROSE = {"index": 4, "document_id": 6, "file_name": "b.md", "snippet": "Text.", "section": "One > Two", "start_line": 8}


def verified_event(index: int, start: int, end: int, verdict: str, quote: str = "") -> dict[str, object]:
    sentence = {"start": start, "end": end}
    return {"index": index, "sentence": sentence, "verdict": verdict, "sentence_verdict": verdict, "quote": quote}


VERIFIED = [
    verified_event(1, 0, 24, "partial", "Abroad it is 62 euros."),
    verified_event(3, 0, 24, "partial"),
    verified_event(4, 0, 24, "partial"),
]
USAGE = {"embedding_tokens": 5, "prompt_tokens": 10, "completion_tokens": 4}
ANSWER = (
    frame("conversation", {"conversation_id": "0197"}),
    frame("citations", {"citations": [CITATION, ROW, CODE, PROSE]}),
    b": heartbeat\n\n",
    frame("token", {"text": "It is "}),
    frame("token", {"text": "62 euros – größer."}),
    frame("brand_new_event", {"anything": 1}),
    *(frame("citation", verified) for verified in VERIFIED),
    frame("usage", USAGE),
    frame("done", {}),
)


def test_answer_shows_verdicts_and_only_cited_sources(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/chat", reply_events(*ANSWER))
    result = run("ask", "How much?")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "It is 62 euros – größer. [1][3][4] (partial)",
        "",
        "Sources",
        "[1] travel.pdf, page 2  0.71",
        "    “Abroad it is 62 euros.”",
        "[3] a.py, lines 4–9",
        "    def f():",
        "[4] b.md, § One > Two, line 8",
        "    Text.",
    ]
    (request,) = gateway.requests
    assert request.json() == {"question": "How much?", "include": ["citation"]}
    assert request.headers["accept"] == "text/event-stream"
    assert "authorization" not in request.headers


def test_options_reach_the_gateway(gateway: FakeGateway, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITEWIRE_API_KEY", "cw_secret")
    gateway.on("POST", "/v1/chat", reply_events(*ANSWER))
    options = (
        "--profile",
        "simple",
        "-d",
        "12",
        "--document",
        "13",
        "-c",
        "hr",
        "--top-k",
        "7",
        "--conversation",
        "c1",
    )
    assert run("ask", "-", *options, stdin="From stdin?").exit_code == 0
    (request,) = gateway.requests
    assert request.json() == {
        "question": "From stdin?",
        "include": ["citation"],
        "profile": "simple",
        "document_ids": [12, 13],
        "collection": "hr",
        "top_k": 7,
        "conversation_id": "c1",
    }
    assert request.headers["authorization"] == "Bearer cw_secret"


def test_uncited_passages_are_listed_on_demand(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/chat", reply_events(*ANSWER))
    lines = run("ask", "How much?", "--all-sources").stdout.splitlines()
    assert lines[-3:] == ["Read but not cited", "[2] offices.csv, row 6  0.50", "    office: Ullsand"]
    uncited = (frame("citations", {"citations": [ROW]}), frame("token", {"text": "Perhaps."}), frame("done", {}))
    gateway.on("POST", "/v1/chat", reply_events(*uncited))
    result = run("ask", "?")
    assert result.stdout.splitlines() == [
        "Perhaps.",
        "",
        "1 passage was read, and none is cited; --all-sources lists them.",
    ]


def test_json(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/chat", reply_events(*ANSWER))
    result = run("ask", "How much?", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "answer": "It is 62 euros – größer.",
        "citations": [CITATION, ROW, CODE, PROSE],
        "usage": USAGE,
        "conversation_id": "0197",
        "verified": VERIFIED,
    }


@pytest.mark.parametrize(
    "frames",
    [
        (
            frame("citations", {"citations": []}),
            frame("token", {"text": "I could not find content in the selected documents that closely matches your"}),
            frame("token", {"text": " question.\n\n- Rephrase it."}),
        ),
        (
            frame("citations", {"citations": [CITATION]}),
            frame("token", {"text": "I could not find this information in the uploaded documents."}),
        ),
    ],
)
def test_no_answer_exits_with_5(gateway: FakeGateway, run: Run, frames: tuple[bytes, ...]) -> None:
    gateway.on("POST", "/v1/chat", reply_events(*frames, frame("done", {})))
    result = run("ask", "?")
    assert result.exit_code == 5
    assert "Sources" not in result.stdout


def test_answer_without_retrieval_is_an_answer(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/chat", reply_events(frame("token", {"text": "Hello!"}), frame("done", {})))
    assert run("ask", "hi").exit_code == 0


@pytest.mark.parametrize("tokens", [0, 2])
def test_stream_without_done_is_a_failed_answer(gateway: FakeGateway, run: Run, tokens: int) -> None:
    gateway.on("POST", "/v1/chat", reply_events(*(frame("token", {"text": "x"}),) * tokens))
    result = run("ask", "?")
    assert result.exit_code == 1
    assert "cut off" in result.stderr
    assert "Sources" not in result.stdout


def test_connection_lost_in_the_middle_is_a_failed_answer(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/chat", reply_events(frame("token", {"text": "half"}), cut=True))
    result = run("ask", "?")
    assert (result.exit_code, result.stdout) == (1, "half\n")
    assert "cut off" in result.stderr


def test_a_done_event_without_a_blank_line_does_not_count(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/chat", reply_events(frame("token", {"text": "x"}), b"event: done\ndata: {}\n"))
    assert run("ask", "?").exit_code == 1


def test_error_frame_fails_the_answer(gateway: FakeGateway, run: Run) -> None:
    error = frame("error", {"text": "The model is overloaded.", "reason": "PROVIDER_OVERLOADED"})
    gateway.on("POST", "/v1/chat", reply_events(frame("token", {"text": "x"}), error, frame("done", {})))
    result = run("ask", "?", "--json")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert json.loads(result.stderr)["error"] == {
        "title": "The answer failed",
        "detail": "The model is overloaded.",
        "exit_code": 1,
        "reason": "PROVIDER_OVERLOADED",
    }


def test_malformed_frame_is_skipped(gateway: FakeGateway, run: Run) -> None:
    broken = b"event: token\ndata: {not json\n\n"
    gateway.on("POST", "/v1/chat", reply_events(broken, frame("token", {"text": "ok"}), frame("done", {})))
    result = run("ask", "?")
    assert (result.exit_code, result.stdout) == (0, "ok\n")


def test_documents_cannot_steer_the_terminal(gateway: FakeGateway, run: Run) -> None:
    evil = "\x1b]0;owned\x07a\x1b[2Jb\rc\x9bd\u202ee\tf"
    citation = {"index": 1, "file_name": evil, "snippet": evil, "section": evil}
    gateway.on(
        "POST",
        "/v1/chat",
        reply_events(frame("citations", {"citations": [citation]}), frame("token", {"text": evil}), frame("done", {})),
    )
    result = run("ask", "?")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "]0;owneda[2Jbcde\tf"
    assert not set(result.stdout) & set("\x1b\x07\r\x9b\u202e")


@pytest.mark.parametrize(
    ("status", "code"), [(400, 2), (401, 4), (403, 4), (404, 5), (413, 2), (422, 2), (429, 3), (500, 1), (503, 3)]
)
def test_problem_decides_the_exit_code(gateway: FakeGateway, run: Run, status: int, code: int) -> None:
    problem = reply_problem(
        status,
        "Invalid request",
        detail="Look at the fields.",
        reason="INVALID_FIELD",
        errors=[{"field": "top_k", "message": "must be between 1 and 30"}],
        request_id="r-1",
    )
    gateway.on("POST", "/v1/chat", problem)
    result = run("ask", "?")
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "Invalid request",
        "Look at the fields.",
        "  top_k: must be between 1 and 30",
        "Request r-1",
    ]


def test_retry_after_is_shown(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/chat", Reply(503, "text/plain", (b"busy",), {"Retry-After": "2"}))
    result = run("ask", "?")
    assert result.exit_code == 3
    assert result.stderr.splitlines() == ["The gateway answered HTTP 503", "Try again in 2 s."]


def test_no_server_listens(run: Run) -> None:
    result = run("ask", "?", "--url", "http://127.0.0.1:1")
    assert result.exit_code == 3
    assert "Nothing answers at http://127.0.0.1:1" in result.stderr
    assert "citewire up" in result.stderr


def test_another_server_listens(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/chat", Reply(content_type="text/html", chunks=(b"<html>",)))
    result = run("ask", "?")
    assert result.exit_code == 3
    assert "not a Citewire gateway" in result.stderr


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://x", "http://", "http://host:99999"])
def test_bad_address_is_wrong_usage(run: Run, url: str) -> None:
    result = run("ask", "?", "--url", url)
    assert result.exit_code == 2
    assert "CITEWIRE_URL" in result.stderr


def test_question_that_is_not_utf8_is_wrong_usage(run: Run) -> None:
    result = run("ask", "lone \udcff byte")
    assert result.exit_code == 2
    assert "not valid UTF-8" in result.stderr


def test_unknown_option_is_wrong_usage(run: Run) -> None:
    assert run("ask", "?", "--nonsense").exit_code == 2


def test_ctrl_c_cancels_the_request_and_exits_with_130(gateway: FakeGateway) -> None:
    reached = threading.Event()

    def endless() -> Iterator[bytes]:
        yield frame("token", {"text": "first"})
        reached.set()
        while not gateway.gone.wait(0.05):
            yield b": heartbeat\n\n"

    gateway.on("POST", "/v1/chat", reply_events())
    gateway.on("POST", "/v1/chat", lambda _request: reply_events_of(endless()))
    environ = {**os.environ, "CITEWIRE_URL": gateway.url}
    process = subprocess.Popen(
        [sys.executable, "-m", "citewire_cli", "ask", "?"],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.read(5) == "first"
    assert reached.wait(10)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert gateway.gone.wait(5)


def reply_events_of(chunks: Iterator[bytes]) -> Reply:
    return Reply(content_type="text/event-stream", chunks=chunks)


def test_json_reply_is_not_a_stream(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/chat", reply_json({"answer": "x"}))
    assert run("ask", "?").exit_code == 3
