"""The observability of a running stack: its metrics, its traces, and `citewire status`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from citewire_retriever.citus.exporter import NAMES as OF_CLUSTERS
from echo_model import echo_model
from http_api import upload_bytes
from local_stack import LocalStack, local_stack, prepared
from monitoring_files import ROOT, expressions, recorded
from otlp_collector import Collector, ExportedSpan, otlp_collector
from prometheus_server import prometheus_server
from promql import Selector, selectors

PROCESSES = ("gateway", "embedder", "retriever", "generator", "worker")
DOCUMENT = b"# Refunds\n\nRefunds take five days, and are paid to the card that was used.\n"
DOCUMENT_OF_METRICS = ROOT / "docs" / "reference" / "observability.md"
QUESTION = "How long do refunds for zebras take?"
TRACE = "0af7651916cd43dd8448eb211c80319c"
OF_PROMETHEUS = {"up", "ALERTS"}
"""Series that Prometheus makes itself, or records by a rule."""


@dataclass(frozen=True)
class TracedStack:
    """A stack with a paid model that sends its traces to this test."""

    stack: LocalStack
    collector: Collector


@pytest.fixture(scope="module")
def traced_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TracedStack]:
    """A stack with a document that has answered two questions: by its model, and after failing over from another."""
    with socket.socket() as nobody, echo_model() as model, otlp_collector() as collector:
        nobody.bind(("127.0.0.1", 0))  # bound, but not listening
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "CITEWIRE_GENERATOR_PROVIDER": "openai",
            "CITEWIRE_GENERATOR_OPENAI_API_KEY": "sk-watch",
            "CITEWIRE_GENERATOR_OPENAI_API_BASE": model.url,
            "CITEWIRE_GENERATOR_OPENAI_MODEL": "gpt-4.1-mini",
            "CITEWIRE_GENERATOR_API_BASE": f"http://127.0.0.1:{nobody.getsockname()[1]}/v1",
            "CITEWIRE_GENERATOR_MODEL": "away",
            "CITEWIRE_GENERATOR_FALLBACKS": "openai/gpt-4.1-mini",
        }
        with local_stack(prepared(tmp_path_factory.mktemp("watched")), environ=environ) as stack:
            asyncio.run(_use(stack))
            yield TracedStack(stack, collector)


async def _use(stack: LocalStack) -> None:
    async with httpx.AsyncClient(base_url=stack.base_url, trust_env=False, timeout=60) as api:
        await upload_bytes(api, "refunds.md", DOCUMENT)
        for model in (None, "openai-compatible/away"):
            body = {"question": QUESTION, "stream": False} | ({"model": model} if model else {})
            headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"} if model is None else {}
            answer = await api.post("/v1/chat", json=body, headers=headers)
            assert answer.status_code == 200, answer.text


def running_series(stack: LocalStack) -> dict[str, list[dict[str, str]]]:
    """Returns the labels of every sample by series, as a Prometheus with our configuration would store them."""
    series: dict[str, list[dict[str, str]]] = {}
    for process in PROCESSES:
        scraped = {"job": f"citewire-{process}", "instance": f"{process}:9100"}
        for family in text_string_to_metric_families(stack.metrics(process)):
            for sample in family.samples:
                series.setdefault(sample.name, []).append(sample.labels | scraped)
    return series


def complaint(selector: Selector, series: dict[str, list[dict[str, str]]]) -> str:
    """Returns what is wrong with a selector; "" if a sample matches it and has all labels that it is grouped by."""
    samples = series.get(selector.name)
    if samples is None:
        return "no process has it"
    fitting = [
        labels
        for labels in samples
        if all(matcher.fits(labels.get(matcher.label, "")) for matcher in selector.matchers)
    ]
    if not fitting:
        return f"no sample fits {selector.matchers}"
    unknown = {matcher.label for matcher in selector.matchers} | selector.grouped
    missing = [label for label in unknown if not any(label in labels for labels in fitting)]
    return f"has no label {', '.join(missing)}" if missing else ""


def test_every_monitored_metric_exists(traced_stack: TracedStack) -> None:
    series = running_series(traced_stack.stack)
    wrong: list[str] = []
    seen: set[str] = set()
    for expression in expressions():
        for selector in selectors(expression.text):
            seen.add(selector.name)
            if selector.name.startswith("citewire:"):
                if selector.name not in recorded():
                    wrong.append(f"{expression.where}: {selector.name}: no rule records it")
            elif selector.name not in OF_PROMETHEUS | OF_CLUSTERS and (problem := complaint(selector, series)):
                wrong.append(f"{expression.where}: {selector.name} {problem}")
    assert wrong == []
    assert len(seen) > 50


def test_the_table_of_metrics_is_complete(traced_stack: TracedStack) -> None:
    named = re.findall(r"^\| (`.+?`) \|", DOCUMENT_OF_METRICS.read_text(encoding="utf-8"), re.MULTILINE)
    documented = {name for cell in named for name in re.findall(r"`((?:citewire|gen_ai|grpc)_\w+)`", cell)}
    running = {
        family.name + ("_total" if family.type == "counter" else "")
        for process in PROCESSES
        for family in text_string_to_metric_families(traced_stack.stack.metrics(process))
        if family.name.startswith(("citewire_", "gen_ai_", "grpc_"))
    }
    assert documented == running | OF_CLUSTERS  # this stack has one Postgres; test_citus_watch.py has a cluster's


def test_the_check_finds_metrics_that_do_not_exist(traced_stack: TracedStack) -> None:
    series = running_series(traced_stack.stack)

    def problem_of(expression: str) -> str:
        (selector,) = selectors(expression)
        return complaint(selector, series)

    assert problem_of("rate(citewire_searches_total[5m])") == ""
    assert problem_of("citewire_searchs_total") == "no process has it"
    assert "no sample fits" in problem_of('citewire_searches_total{way="walk"}')
    assert problem_of("sum by (weg) (citewire_searches_total)") == "has no label weg"


@pytest.mark.system(program="prometheus", package="prometheus")
def test_a_prometheus_answers_every_expression(traced_stack: TracedStack, tmp_path: Path) -> None:
    with prometheus_server(tmp_path, traced_stack.stack.ports("metrics_port")) as prometheus:

        def unanswered() -> list[str]:
            return [
                expression.where
                for expression in expressions()
                if not _may_be_empty(expression.where) and not prometheus.query(expression.text)
            ]

        # A rate needs two scrapes in a row, and some fail on a busy machine.
        prometheus.wait(lambda: not unanswered(), lambda: f"no result: {unanswered()}")
        firing = prometheus.query('ALERTS{alertname=~"Citewire.+", alertstate="firing"}')
        assert firing == [], firing


def _may_be_empty(where: str) -> bool:
    """Whether an expression may have no result on a healthy stack: alerts, displays of alerts, a cluster's nodes."""
    return where.startswith(("Citewire", "citewire-cluster")) or "annotations" in where


async def test_one_question_is_one_trace(traced_stack: TracedStack) -> None:
    expected = {"gateway", "embedder", "retriever", "generator"}

    def arrived() -> list[ExportedSpan] | None:
        spans = traced_stack.collector.trace(TRACE)
        root = any(span.name == "POST /v1/chat" for span in spans)
        return spans if root and {span.service for span in spans} >= expected else None

    spans = await asyncio.to_thread(traced_stack.stack.wait, arrived, "the trace did not arrive")
    by_id = {span.span.span_id: span for span in spans}
    roots = [span for span in spans if span.span.parent_span_id not in by_id]
    assert [(span.service, span.name) for span in roots] == [("gateway", "POST /v1/chat")]
    (root,) = roots

    def path(span: ExportedSpan) -> list[tuple[str, str]]:
        steps = [(span.service, span.name)]
        while span is not root:
            span = by_id[span.span.parent_span_id]
            steps.append((span.service, span.name))
        return steps[::-1]

    def model(operation: str) -> ExportedSpan:
        results = [span for span in spans if span.attributes.get("gen_ai.operation.name") == operation]
        assert len(results) == 1, (operation, [span.name for span in spans])
        return results[0]

    embedding, retrieval, chat = model("embeddings"), model("retrieval"), model("chat")
    for span, service, rpc in (
        (embedding, "embedder", "citewire.embedder.v1.EmbedderService/Embed"),
        (retrieval, "retriever", "citewire.retriever.v1.RetrieverService/Search"),
        (chat, "generator", "citewire.generator.v1.GeneratorService/Generate"),
    ):
        above = [("gateway", "POST /v1/chat"), ("gateway", rpc), (service, rpc)]
        assert path(span) == [*above, (service, span.name)]
        start, end = span.span.start_time_unix_nano, span.span.end_time_unix_nano
        assert root.span.start_time_unix_nano < start <= end < root.span.end_time_unix_nano
    assert embedding.span.end_time_unix_nano <= retrieval.span.start_time_unix_nano
    assert retrieval.span.end_time_unix_nano <= chat.span.start_time_unix_nano
    assert embedding.attributes["gen_ai.provider.name"] == "citewire-local"
    assert embedding.attributes["gen_ai.request.model"] == "all-MiniLM-L6-v2"
    assert int(str(embedding.attributes["gen_ai.usage.input_tokens"])) > 3
    assert retrieval.attributes["citewire.retrieval.passages"] == 1
    assert chat.attributes["gen_ai.provider.name"] == "openai"
    assert chat.attributes["gen_ai.request.model"] == "gpt-4.1-mini"
    assert chat.attributes["gen_ai.usage.input_tokens"] == 50
    assert chat.attributes["gen_ai.usage.output_tokens"] == 12
    assert chat.attributes["gen_ai.response.finish_reasons"] == ["stop"]


def test_no_span_contains_questions_or_answers(traced_stack: TracedStack) -> None:
    spans = traced_stack.collector.spans
    assert {span.service for span in spans} == set(PROCESSES)  # the worker continues the upload's trace
    for span in spans:
        raw = span.span.SerializeToString()
        for text in (b"zebra", b"Refunds", b"five days", b"nobody says", b"sk-watch"):
            assert text not in raw, (span.service, span.name)


@dataclass(frozen=True)
class Status:
    """The output and the exit code of `citewire status`."""

    code: int
    report: dict[str, Any]


@pytest.fixture(scope="module")
def status(traced_stack: TracedStack) -> Callable[..., Status]:
    """Runs `citewire status --json` on the stack."""

    def ask(*arguments: str) -> Status:
        variables = {"CITEWIRE_URL": traced_stack.stack.base_url, "CITEWIRE_DATA_DIR": str(traced_stack.stack.data_dir)}
        done = subprocess.run(
            [sys.executable, "-m", "citewire_cli", "status", "--json", *arguments],
            env={**os.environ, **variables},
            capture_output=True,
            timeout=60,
        )
        return Status(done.returncode, json.loads(done.stdout))

    return ask


def test_status_shows_recent_activity(status: Callable[..., Status]) -> None:
    result = status()
    assert result.code == 0
    processes, figures = result.report["processes"], result.report["figures"]
    assert {name for name, process in processes.items() if process.get("up")} == set(PROCESSES)
    assert all(process["version"] for process in processes.values() if process.get("up"))
    assert figures["chats"] == {"200": 2}
    assert figures["first_text_p95_seconds"] > 0
    assert figures["tokens"]["output"] == 24
    assert figures["cost_usd"] == pytest.approx(result.report["usage"]["cost_usd"], rel=0.01)
    assert figures["cost_usd"] > 0
    assert figures["ingest"]["waiting"] == 0
    assert figures["ingest"]["done"] >= 1
    assert result.report["documents"]["ready"] == 1


def test_status_names_a_missing_process(status: Callable[..., Status]) -> None:
    result = status("--metrics", "worker=127.0.0.1:1")
    assert result.code == 1
    worker = result.report["processes"]["worker"]
    assert (worker["up"], worker["metrics"]) == (False, "http://127.0.0.1:1/metrics")
    assert "cannot be reached" in worker["problem"]
    assert result.report["processes"]["gateway"]["up"]
