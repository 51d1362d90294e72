"""The dashboards' figures, computed from the processes' samples."""

from collections.abc import Mapping

from citewire_cli.jsonio import JsonObject
from citewire_cli.monitor.samples import Samples, Where

FAILURES = frozenset({"INTERNAL", "UNKNOWN", "DATA_LOSS", "UNAVAILABLE"})
"""Codes of calls that failed through the server's fault, as counted by the alert."""

_SERVER_ERRORS = frozenset({"500", "502", "503", "504"})
_UNCOUNTED = frozenset({"/livez", "/readyz"})
_CHATS: Where = {
    "method": "POST",
    "route": frozenset(
        {
            "/v1/chat",
            "/v1/chat/completions",
            "/v1/responses",
            "/anthropic/v1/messages",
            "/api/chat/",
            "/api/chat",
            "/api/chat/query",
            "/api/rag-chat/stream",
        }
    ),
}


def process_figures(name: str, now: Samples, seconds: float) -> JsonObject:
    """One process's figures.

    Args:
        name: the process.
        now: its counts over `seconds`.
        seconds: since its start, or since the last refresh.
    """
    requests, errors, histogram = _traffic(name, now)
    figures: JsonObject = {
        "version": now.label("citewire_build_info", "version"),
        "uptime_seconds": round(now.time - now.sum("process_start_time_seconds"), 1),
        "requests": round(requests),
        "requests_per_second": requests / seconds if seconds > 0 else 0.0,
        "errors": round(errors),
        "p50_seconds": now.quantile(0.5, *histogram),
        "p95_seconds": now.quantile(0.95, *histogram),
        "in_flight": round(_in_flight(name, now)),
        "cpu_cores": now.sum("process_cpu_seconds_total") / seconds if seconds > 0 else 0.0,
        "memory_bytes": round(now.sum("process_resident_memory_bytes")),
    }
    if now.has("citewire_db_pool_waiting"):
        figures["waiting_for_database"] = round(now.sum("citewire_db_pool_waiting"))
    return figures


def stack_figures(stack: Mapping[str, Samples]) -> JsonObject:
    """The figures of the whole stack; processes that couldn't be read have none."""
    figures: JsonObject = {}
    if (gateway := stack.get("gateway")) is not None:
        broken = gateway.by("citewire_streams_broken_total", "dialect")
        statuses = gateway.by("citewire_http_requests_total", "status", _CHATS)
        figures["chats"] = {status: round(count) for status, count in sorted(statuses.items()) if count}
        figures["chats_broken"] = round(sum(broken.values()))
        figures["first_text_p50_seconds"] = gateway.quantile(0.5, "citewire_chat_first_text_seconds")
        figures["first_text_p95_seconds"] = gateway.quantile(0.95, "citewire_chat_first_text_seconds")
        figures["streams_in_flight"] = round(gateway.sum("citewire_streams_in_flight"))
        figures["citations"] = _rounded(gateway.by("citewire_citations_total", "verdict"))
        figures["uncited_sentences"] = round(gateway.sum("citewire_uncited_sentences_total"))
    if (generator := stack.get("generator")) is not None:
        first = "gen_ai_server_time_to_first_token_seconds"
        figures["model_first_token_p50_seconds"] = generator.quantile(0.5, first)
        figures["model_first_token_p95_seconds"] = generator.quantile(0.95, first)
        figures["answers"] = _rounded(generator.by("citewire_generator_answers_total", "outcome"))
    models = [samples for name, samples in stack.items() if name in {"embedder", "generator"}]
    if models:
        figures["tokens"] = {
            kind: round(
                sum(model.sum("gen_ai_client_token_usage_sum", {"gen_ai_token_type": kind}) for model in models)
            )
            for kind in ("input", "output")
        }
        figures["cost_usd"] = sum(model.sum("citewire_provider_cost_usd_total") for model in models)
    if (worker := stack.get("worker")) is not None:
        figures["ingest"] = {
            "waiting": round(worker.sum("citewire_ingest_queue_depth")),
            "oldest_seconds": worker.sum("citewire_ingest_queue_oldest_seconds"),
            "running": round(worker.sum("citewire_ingest_jobs_running")),
            **_rounded(worker.by("citewire_ingest_jobs_total", "outcome")),
        }
    if (retriever := stack.get("retriever")) is not None:
        figures["searches"] = _rounded(retriever.by("citewire_searches_total", "way"))
        figures["sampled_recall"] = {
            scope: retriever.mean("citewire_search_sampled_recall", {"scope": scope})
            for scope in sorted(retriever.by("citewire_search_sampled_recall_count", "scope"))
        }
    return figures


def _traffic(name: str, now: Samples) -> tuple[float, float, tuple[str, Where | None]]:
    """Requests, those that failed through our fault, and the histogram of their durations."""
    if name == "gateway":
        routes = frozenset(now.by("citewire_http_requests_total", "route")) - _UNCOUNTED
        where: Where = {"route": routes}
        errors = now.sum("citewire_http_requests_total", {**where, "status": _SERVER_ERRORS})
        errors += now.sum("citewire_streams_broken_total")
        return now.sum("citewire_http_requests_total", where), errors, ("citewire_http_request_seconds", where)
    if name == "worker":
        jobs = now.by("citewire_ingest_jobs_total", "outcome")
        return sum(jobs.values()), jobs.get("failed", 0.0), ("citewire_ingest_stage_seconds", None)
    errors = now.sum("grpc_server_handled_total", {"grpc_code": FAILURES})
    return now.sum("grpc_server_handled_total"), errors, ("grpc_server_handling_seconds", None)


def _in_flight(name: str, now: Samples) -> float:
    if name == "gateway":
        return now.sum("citewire_streams_in_flight")
    if name == "worker":
        return now.sum("citewire_ingest_jobs_running")
    return now.sum("citewire_grpc_server_in_flight")


def _rounded(counts: Mapping[str, float]) -> JsonObject:
    return {name: round(count) for name, count in counts.items()}
