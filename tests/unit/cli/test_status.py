"""`citewire status`, and how it reads metrics."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from citewire_cli.errors import CliError
from citewire_cli.monitor.samples import quantile, read_samples
from citewire_cli.monitor.scrape import PROCESSES, metrics_addresses
from citewire_cli.settings import ClientSettings
from cli_types import Run
from fake_gateway import FakeGateway, Reply, Request, fake_gateway, reply_json, reply_problem
from fake_library import FakeLibrary, StoredDocument

CHECKS = {"status": "ready", "embedder": "ok", "database": "ok"}
START = 1_000_000.0
GATEWAY = """\
# TYPE process_start_time_seconds gauge
process_start_time_seconds {start}
# TYPE citewire_build_info gauge
citewire_build_info{{service="gateway",version="1.2.3"}} 1
# TYPE citewire_http_requests_total counter
citewire_http_requests_total{{method="POST",route="/v1/chat",status="200"}} {good}
citewire_http_requests_total{{method="POST",route="/v1/chat",status="503"}} {bad}
citewire_http_requests_total{{method="GET",route="/readyz",status="503"}} 1000
# TYPE citewire_http_request_seconds histogram
citewire_http_request_seconds_bucket{{method="POST",route="/v1/chat",le="0.1"}} {fast}
citewire_http_request_seconds_bucket{{method="POST",route="/v1/chat",le="1.0"}} {good}
citewire_http_request_seconds_bucket{{method="POST",route="/v1/chat",le="+Inf"}} {good}
citewire_http_request_seconds_count{{method="POST",route="/v1/chat"}} {good}
# TYPE citewire_streams_in_flight gauge
citewire_streams_in_flight{{dialect="native"}} 3
# TYPE citewire_citations_total counter
citewire_citations_total{{verdict="supported",profile="documents"}} 8
citewire_citations_total{{verdict="unsupported",profile="sources"}} 2
# TYPE citewire_chat_first_text_seconds histogram
citewire_chat_first_text_seconds_bucket{{profile="documents",le="0.5"}} 0
citewire_chat_first_text_seconds_bucket{{profile="documents",le="1.0"}} 10
citewire_chat_first_text_seconds_bucket{{profile="documents",le="+Inf"}} 10
"""
OTHERS = {
    "embedder": 'gen_ai_client_token_usage_sum{gen_ai_token_type="input"} 90\n',
    "retriever": 'grpc_server_handled_total{grpc_code="OK"} 5\ngrpc_server_handled_total{grpc_code="INTERNAL"} 2\n'
    'citewire_search_sampled_recall_sum{scope="whole"} 9.5\ncitewire_search_sampled_recall_count{scope="whole"} 10\n',
    "generator": 'gen_ai_client_token_usage_sum{gen_ai_token_type="input"} 10\n'
    'gen_ai_client_token_usage_sum{gen_ai_token_type="output"} 7\ncitewire_provider_cost_usd_total{model="m"} 0.25\n',
    "worker": "citewire_ingest_queue_depth 4\ncitewire_ingest_queue_oldest_seconds 120\n"
    'citewire_ingest_jobs_total{kind="ingest",outcome="done"} 6\n',
}


def text(body: str) -> Reply:
    return Reply(content_type="text/plain; version=0.0.4; charset=utf-8", chunks=(body.encode(),))


def gateway_metrics(good: int = 90, bad: int = 10, start: float = START) -> str:
    return GATEWAY.format(good=good, bad=bad, fast=good // 2, start=start)


@pytest.fixture
def processes() -> Iterator[dict[str, FakeGateway]]:
    """The metrics endpoints of a stack, by process."""
    with ExitStack() as stack:
        results = {name: stack.enter_context(fake_gateway()) for name in PROCESSES}
        for name, server in results.items():
            body = gateway_metrics() if name == "gateway" else f"process_start_time_seconds {START}\n{OTHERS[name]}"
            server.on("GET", "/metrics", text(body))
        yield results


@pytest.fixture
def options(gateway: FakeGateway, processes: dict[str, FakeGateway]) -> list[str]:
    """The options with the metrics' addresses of a healthy stack."""
    gateway.on("GET", "/readyz", reply_json(CHECKS))
    gateway.on("GET", "/openapi.json", reply_json({"info": {"version": "1.2.3"}}))
    gateway.on("GET", "/v1/usage", reply_json({"scope": "org", "total": {"cost_usd": 1.5}}))
    library = FakeLibrary(gateway)
    for number, state in enumerate(("ready", "failed", "ready"), 1):
        library.documents[number] = StoredDocument(number, f"d{number}.md", b"x", {}, str(number), [state])
    return [
        part
        for name, server in processes.items()
        for part in ("--metrics", f"{name}={server.url.removeprefix('http://')}")
    ]


def test_the_status_of_a_healthy_stack(options: list[str], run: Run) -> None:
    result = run("status", *options)
    assert result.exit_code == 0, result.output
    assert "ready  version 1.2.3" in result.stdout
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["embedder", "ok"] in lines
    gateway = next(line for line in lines if line[:2] == ["gateway", "up"])
    assert gateway[2] == "100"  # without the probes' requests
    assert gateway[4:9] == ["10", "100", "ms", "910", "ms"]
    for text in (
        "questions by status                200 90, 503 10",
        "first text, p50 / p95              750 ms / 975 ms",
        "streams in flight                  3",
        "tokens                             input 100, output 7",
        "cost of these processes            0.250000 USD",
        "cost in 30 days, the organisation  1.500000 USD",
        "ingest                             4 wait, the oldest for 2 min; 0 running; ended: done 6",
        "sampled recall                     whole 0.950",
        "citations by verdict               supported 8, unsupported 2",
        "Documents: total 3, ready 2, failed 1, chunks 6",
    ):
        assert text in result.stdout, result.stdout


def test_the_status_as_json(options: list[str], run: Run) -> None:
    report = json.loads(run("status", "--json", *options).stdout)
    assert report["documents"] == {"total": 3, "ready": 2, "failed": 1, "chunks": 6}
    assert report["health"] == CHECKS
    assert set(report["processes"]) == set(PROCESSES)
    gateway = report["processes"]["gateway"]
    assert (gateway["up"], gateway["version"], gateway["requests"], gateway["errors"]) == (True, "1.2.3", 100, 10)
    assert gateway["p50_seconds"] == pytest.approx(0.1)
    assert gateway["requests_per_second"] == pytest.approx(100 / gateway["uptime_seconds"], rel=0.01)
    assert report["processes"]["retriever"]["errors"] == 2
    assert report["figures"]["ingest"]["waiting"] == 4
    assert report["figures"]["sampled_recall"] == {"whole": 0.95}
    assert report["figures"]["citations"] == {"supported": 8, "unsupported": 2}
    assert report["usage"]["cost_usd"] == 1.5


def test_a_process_that_cannot_be_reached_is_named(options: list[str], run: Run) -> None:
    options[options.index("--metrics") + 1 : options.index("--metrics") + 2] = ["gateway=127.0.0.1:1"]
    result = run("status", *options)
    assert result.exit_code == 1
    assert "gateway: http://127.0.0.1:1/metrics cannot be reached: it isn't running" in result.stdout
    assert ["gateway", "DOWN"] in [line.split()[:2] for line in result.stdout.splitlines()]
    assert ["worker", "up"] in [line.split()[:2] for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (text("<html>hello</html>"), "answers with something other than metrics"),
        (text(""), "answers with something other than metrics"),
        (reply_problem(404, "Not found"), "answers with HTTP 404"),
    ],
)
def test_an_address_without_metrics_is_reported(
    options: list[str], processes: dict[str, FakeGateway], run: Run, answer: Reply, text: str
) -> None:
    processes["worker"].on("GET", "/metrics", answer)
    result = run("status", *options)
    assert result.exit_code == 1
    assert f"worker: {processes['worker'].url}/metrics {text}" in result.stdout


def test_a_stack_that_is_not_ready(gateway: FakeGateway, options: list[str], run: Run) -> None:
    gateway.on("GET", "/readyz", reply_problem(503, "Not ready", detail="not ready: embedder", embedder="unavailable"))
    gateway.on("GET", "/v1/documents", reply_problem(503, "The library is away"))
    result = run("status", *options)
    assert result.exit_code == 3
    assert "NOT READY" in result.stdout
    assert "not ready: embedder" in result.stdout
    assert ["embedder", "unavailable"] in [line.split() for line in result.stdout.splitlines()]
    assert "The library is away" in result.stdout


def test_without_a_gateway_the_services_are_still_shown(options: list[str], run: Run) -> None:
    result = run("status", "--url", "http://127.0.0.1:1", *options)
    assert result.exit_code == 3
    assert "NOT READY" in result.stdout
    assert "cannot be reached" in result.stdout
    assert ["retriever", "up"] in [line.split()[:2] for line in result.stdout.splitlines()]


def test_a_refused_key_is_an_error(gateway: FakeGateway, options: list[str], run: Run) -> None:
    gateway.on("GET", "/v1/documents", reply_problem(401, "Who are you?"))
    assert run("status", *options).exit_code == 4


def test_an_error_waits_for_the_processes_that_are_still_asked(
    gateway: FakeGateway, processes: dict[str, FakeGateway], options: list[str], run: Run
) -> None:
    refused, answered = threading.Event(), threading.Event()

    def refuse(_: Request) -> Reply:
        refused.set()
        return reply_problem(401, "Who are you?")

    def late(_: Request) -> Reply:
        refused.wait(20)
        time.sleep(0.3)  # by then, a command that doesn't wait has ended
        answered.set()
        return text(f"process_start_time_seconds {START}\n")

    gateway.on("GET", "/v1/documents", refuse)
    processes["worker"].on("GET", "/metrics", late)
    assert run("status", *options).exit_code == 4
    assert answered.is_set()


def test_a_bad_address_is_wrong_usage(run: Run) -> None:
    for value in ("gateway", "gateway=", "other=127.0.0.1:1", "gateway=127.0.0.1", "gateway=a b:1/x"):
        result = run("status", "--metrics", value)
        assert result.exit_code == 2, value
        assert "gateway=127.0.0.1:9100" in result.stderr


def settings(url: str) -> ClientSettings:
    return ClientSettings(url, None, Path("nowhere"))


def test_addresses_of_metrics() -> None:
    here = settings("http://127.0.0.1:8080")
    usual = metrics_addresses(here, {"CITEWIRE_WORKER_METRICS_PORT": "7"}, {}, [])
    assert usual == {
        "gateway": "http://127.0.0.1:9100/metrics",
        "embedder": "http://127.0.0.1:9101/metrics",
        "retriever": "http://127.0.0.1:9102/metrics",
        "generator": "http://127.0.0.1:9103/metrics",
        "worker": "http://127.0.0.1:7/metrics",
    }
    local = metrics_addresses(here, {}, {"gateway": {"metrics_port": 5}}, ["worker=h:6"])
    assert local == {"gateway": "http://127.0.0.1:5/metrics", "worker": "http://h:6/metrics"}
    beside = settings("http://127.0.0.1:18080")  # the usual ports belong to another stack
    assert metrics_addresses(beside, {}, {}, []) == {}
    assert list(metrics_addresses(beside, {"CITEWIRE_GATEWAY_METRICS_PORT": "7"}, {}, [])) == ["gateway"]
    away = settings("https://citewire.example.com")
    assert metrics_addresses(away, {}, {}, []) == {}
    assert metrics_addresses(away, {}, {}, ["gateway=h:1"]) == {"gateway": "http://h:1/metrics"}
    with pytest.raises(CliError):
        metrics_addresses(away, {}, {}, ["nobody=h:1"])


def test_counters_since_an_earlier_reading() -> None:
    before = read_samples(gateway_metrics(), START + 10)
    later = read_samples(gateway_metrics(good=100, bad=30), START + 20)
    since = later.since(before)
    statuses = since.by("citewire_http_requests_total", "status", {"route": "/v1/chat"})
    assert statuses == {"200": 10, "503": 20}
    assert since.sum("citewire_streams_in_flight") == 3  # a gauge has no difference
    restarted = read_samples(gateway_metrics(good=1, bad=0, start=START + 15), START + 20)
    assert restarted.since(before).sum("citewire_http_requests_total", {"status": "200"}) == 1


def test_quantiles() -> None:
    inf = float("inf")
    assert quantile(0.5, {}) is None
    assert quantile(0.5, {1.0: 0, inf: 0}) is None
    assert quantile(0.5, {1.0: 10, inf: 10}) == pytest.approx(0.5)
    assert quantile(0.95, {1.0: 50, 2.0: 100, inf: 100}) == pytest.approx(1.9)
    assert quantile(0.99, {1.0: 50, 2.0: 60, inf: 100}) == 2.0  # beyond the last bound, nothing more is known
