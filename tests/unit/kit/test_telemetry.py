"""Logs, traces and metrics."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Generator
from typing import Any

import pytest
import structlog
from opentelemetry import trace
from prometheus_client import REGISTRY

from citewire_kit import metrics
from citewire_kit.errors import StartupError
from citewire_kit.settings import ProcessSettings
from citewire_kit.telemetry import configure_logging, get_logger, start_metrics_server
from citewire_kit.tenant import use_request_id
from citewire_kit.tracing import build_provider, current_ids, extract, inject

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}"


@pytest.fixture
def _restore() -> Generator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


@pytest.fixture
def logged(_restore: None) -> io.StringIO:
    stream = io.StringIO()
    configure_logging("embedder", level="INFO", log_format="json", stream=stream)
    return stream


def fail() -> None:
    question = "who was fired" + " and why"
    raise ValueError(len(question))


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object_with_its_context(logged: io.StringIO) -> None:
    tracer = build_provider("embedder", None).get_tracer("test")
    with use_request_id("request-7"), tracer.start_as_current_span("span"):
        ids = current_ids()
        get_logger("citewire_embedder.service").info("batch_embedded", inputs=12)
    (line,) = lines(logged)
    assert ids is not None
    assert line | {"ts": ""} == {
        "ts": "",
        "level": "info",
        "event": "batch_embedded",
        "service": "embedder",
        "logger": "citewire_embedder.service",
        "request_id": "request-7",
        "trace_id": ids[0],
        "span_id": ids[1],
        "inputs": 12,
    }
    assert list(line)[:4] == ["ts", "level", "event", "service"]


@pytest.mark.parametrize("name", ["uvicorn.error", "grpc._server", "some.library"])
def test_libraries_log_through_the_same_pipeline(name: str, logged: io.StringIO) -> None:
    logging.getLogger(name).setLevel(logging.NOTSET)  # a server in this process may have raised it
    with use_request_id("request-7"):
        logging.getLogger(name).warning("from %s", "outside", extra={"detail": 1})
    (line,) = lines(logged)
    assert (line["event"], line["level"], line["logger"], line["request_id"], line["detail"]) == (
        "from outside",
        "warning",
        name,
        "request-7",
        1,
    )


def test_a_traceback_stays_one_line_and_shows_no_local_variables(logged: io.StringIO) -> None:
    try:
        fail()
    except ValueError:
        get_logger("x").exception("failed")
    (line,) = lines(logged)
    assert "ValueError: 21" in line["exception"]
    assert "who was fired and why" not in logged.getvalue()


def test_the_console_format_shows_no_local_variables_either(_restore: None) -> None:  # noqa: PT019 # only its teardown is needed
    stream = io.StringIO()
    configure_logging("embedder", level="INFO", log_format="console", stream=stream)
    try:
        fail()
    except ValueError:
        get_logger("x").exception("failed", inputs=3)
    assert "failed" in stream.getvalue()
    assert "inputs=3" in stream.getvalue()
    assert "ValueError: 21" in stream.getvalue()
    assert "who was fired and why" not in stream.getvalue()


def test_logs_before_the_setup_show_no_local_variables() -> None:
    code = """
from citewire_kit.telemetry import get_logger

def fail(question):
    try:
        raise ValueError(21)
    except ValueError:
        get_logger("x").exception("failed", inputs=3)

fail("who was " + "fired")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "inputs=3" in done.stdout
    assert "ValueError: 21" in done.stdout
    assert "who was fired" not in done.stdout + done.stderr


def test_levels_and_warnings(logged: io.StringIO) -> None:
    get_logger("x").debug("not_shown")
    logging.getLogger("httpx").info("a request line: not shown")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("deprecated thing", UserWarning, stacklevel=1)
    assert ["deprecated thing" in line["event"] for line in lines(logged)] == [True]


@pytest.mark.parametrize("flags", ["00", "01"])
def test_the_callers_trace_and_sampling_are_continued(flags: str) -> None:
    tracer = build_provider("embedder", None).get_tracer("test")
    carrier: dict[str, str] = {}
    with tracer.start_as_current_span("span", context=extract({"traceparent": PARENT.format(flags=flags)})):
        inject(carrier)
    trace_id, span_id = carrier["traceparent"].split("-")[1:3]
    assert trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert span_id != "00f067aa0ba902b7"
    assert carrier["traceparent"].endswith(flags)


def test_a_new_trace_has_ids_without_an_exporter_and_is_not_recorded() -> None:
    tracer = build_provider("gateway", None).get_tracer("test")
    with tracer.start_as_current_span("span") as span:
        assert current_ids() is not None
        assert not span.is_recording()
    assert trace.get_current_span() is trace.INVALID_SPAN


@pytest.mark.parametrize(
    "series",
    [("citewire_streams_cancelled_total", {"cause": cause}) for cause in ("client", "deadline", "drain", "upstream")]
    + [
        ("citewire_streams_in_flight", {"dialect": "native"}),
        (
            "gen_ai_client_token_usage_count",
            {
                "gen_ai_provider_name": "local",
                "gen_ai_request_model": "minilm",
                "gen_ai_operation_name": "embeddings",
                "gen_ai_token_type": "input",
            },
        ),
        (
            "gen_ai_client_operation_duration_seconds_count",
            {
                "gen_ai_provider_name": "local",
                "gen_ai_request_model": "minilm",
                "gen_ai_operation_name": "embeddings",
                "error_type": "",
            },
        ),
        (
            "gen_ai_server_time_to_first_token_seconds_count",
            {"gen_ai_provider_name": "local", "gen_ai_request_model": "extractive"},
        ),
        ("citewire_http_requests_total", {"method": "POST", "route": "/v1/chat", "status": "200"}),
    ],
)
def test_series_exist_before_their_first_event(series: tuple[str, dict[str, str]]) -> None:
    metrics.init_streams(["native"])
    metrics.init_model(provider="local", model="minilm", operation="embeddings", token_types=["input"])
    metrics.init_model(provider="local", model="extractive", operation="chat")
    metrics.init_http([("POST", "/v1/chat", [200, 503])])
    assert REGISTRY.get_sample_value(*series) is not None


@pytest.mark.parametrize(
    ("name", "buckets"),
    [
        ("gen_ai_client_token_usage", [4.0**n for n in range(14)]),
        ("gen_ai_client_operation_duration_seconds", [round(0.01 * 2**n, 2) for n in range(14)]),
        (
            "gen_ai_server_time_to_first_token_seconds",
            [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0],
        ),
    ],
)
def test_buckets_are_those_of_the_convention(name: str, buckets: list[float]) -> None:
    metrics.record_tokens(provider="p", model="m", operation="chat", token_type="output", count=17)
    metrics.record_operation(provider="p", model="m", operation="chat", seconds=1.5, error_type="TIMEOUT")
    metrics.record_ttft(provider="p", model="m", seconds=0.3)
    bounds = {
        float(sample.labels["le"])
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name == f"{name}_bucket"
    }
    assert sorted(bounds) == [*buckets, float("inf")]


def test_tokens_are_observed_under_their_labels() -> None:
    labels = {
        "gen_ai_provider_name": "p",
        "gen_ai_request_model": "m17",
        "gen_ai_operation_name": "chat",
        "gen_ai_token_type": "output",
    }
    metrics.init_model(provider="p", model="m17", operation="chat")
    metrics.record_tokens(provider="p", model="m17", operation="chat", token_type="output", count=17)
    assert REGISTRY.get_sample_value("gen_ai_client_token_usage_sum", labels) == 17


def test_labels_from_outside_are_bounded() -> None:
    guard = metrics.LabelGuard(3)
    assert [guard(name) for name in ["a", "b", "c", "d", "e", "a"]] == ["a", "b", "c", "other", "other", "a"]
    before = _label_values("gen_ai_request_model"), _label_values("gen_ai_provider_name")
    for i in range(200):
        metrics.record_ttft(provider=f"provider{i}", model=f"model{i}", seconds=0.1)
    assert _label_values("gen_ai_request_model") - before[0] <= {"own"}
    assert len(_label_values("gen_ai_provider_name") - before[1]) <= 17


def test_tenants_models_do_not_use_up_the_operators_labels() -> None:
    """A thousand tenants' models come first and share a series; the configured model still has its own."""
    for number in range(1000):
        metrics.record_operation(provider="p", model=f"tenants{number}", operation="chat", seconds=1.0)
    metrics.init_model(provider="p", model="configured", operation="chat")
    metrics.record_operation(provider="p", model="configured", operation="chat", seconds=1.0)
    assert "configured" in _label_values("gen_ai_request_model")
    assert not {name for name in _label_values("gen_ai_request_model") if name.startswith("tenants")}
    labels = {"gen_ai_provider_name": "p", "gen_ai_request_model": "own", "gen_ai_operation_name": "chat"}
    own = REGISTRY.get_sample_value("gen_ai_client_operation_duration_seconds_count", {**labels, "error_type": ""})
    assert own is not None
    assert own >= 1000


def _label_values(label: str) -> set[str]:
    name = "gen_ai_server_time_to_first_token_seconds_count"
    return {sample.labels[label] for family in REGISTRY.collect() for sample in family.samples if sample.name == name}


def test_metrics_are_served_on_their_own_port_until_closed() -> None:
    server = start_metrics_server(ProcessSettings(port=0, metrics_port=0))
    url = f"http://127.0.0.1:{server.port}/metrics"
    with urllib.request.urlopen(url, timeout=5) as answer:
        assert b"grpc_server_handled_total" in answer.read()
    with pytest.raises(StartupError, match="CITEWIRE_METRICS_PORT"):
        start_metrics_server(ProcessSettings(port=0, metrics_port=server.port))
    server.close()
    start_metrics_server(ProcessSettings(port=0, metrics_port=server.port)).close()


def test_the_metrics_server_closes_at_once() -> None:
    seconds: list[float] = []
    for _ in range(3):
        server = start_metrics_server(ProcessSettings(port=0, metrics_port=0))
        began = time.perf_counter()
        server.close()
        seconds.append(time.perf_counter() - began)
    # Its loop checks every half second whether to stop. The shortest time counts: the machine may be busy.
    assert min(seconds) < 0.25
