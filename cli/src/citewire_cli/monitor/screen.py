"""Prints the report as text."""

from citewire_cli import output
from citewire_cli.jsonio import JsonObject, as_object, get_float, get_int, get_object, get_str

_NOT_CHECKS = frozenset({"status", "type", "title", "detail", "reason", "errors", "request_id"})
_COLUMNS = (
    *("process", "state", "requests", "per s", "errors", "p50", "p95"),
    *("in flight", "CPU", "memory", "up for", "metrics"),
)


def print_report(report: JsonObject) -> None:
    """Prints the gateway's state, then each process, then the whole stack."""
    console = output.stdout()
    ready = "ready" if report["ready"] else "NOT READY"
    console.print(f"{report['url']}  {ready}  version {report['version'] or 'unknown'}")
    details = get_object(report, "health")
    if not report["ready"]:
        console.print(output.clean(get_str(details, "detail")))
    rows = [(name, _format_check(value)) for name, value in details.items() if name not in _NOT_CHECKS]
    if rows:
        console.print()
        output.print_table(("check", "result"), rows)
    processes = {name: as_object(value) or {} for name, value in get_object(report, "processes").items()}
    if processes:
        console.print()
        console.print(f"Processes, {get_str(report, 'span')}:")
        output.print_table(_COLUMNS, (_process(name, process) for name, process in processes.items()))
        for name, process in processes.items():
            if problem := get_str(process, "problem"):
                console.print(f"{name}: {get_str(process, 'metrics')} {problem}.")
    else:
        console.print()
        console.print("Its processes' metrics addresses are unknown: give them with --metrics gateway=HOST:PORT.")
    figures = get_object(report, "figures")
    if figures:
        console.print()
        output.print_table(("figure", "value"), _figures(figures, report))
    documents = get_object(report, "documents")
    if documents:
        console.print()
        console.print("Documents: " + ", ".join(f"{name} {value}" for name, value in documents.items()))


def _process(name: str, process: JsonObject) -> tuple[str, ...]:
    state = get_str(process, "state") or ("up" if process.get("up") else "–")
    if process.get("up") is False:
        state = "NO METRICS" if state == "ready" else "DOWN" if state == "–" else state
    if not process.get("up"):
        return (name, state, *["–"] * 9, get_str(process, "metrics", "–"))
    return (
        name,
        state,
        f"{get_int(process, 'requests') or 0:,}",
        f"{get_float(process, 'requests_per_second') or 0:.2f}",
        f"{get_int(process, 'errors') or 0:,}",
        _seconds(get_float(process, "p50_seconds")),
        _seconds(get_float(process, "p95_seconds")),
        get_str(process, "in_flight"),
        f"{get_float(process, 'cpu_cores') or 0:.2f}",
        f"{(get_int(process, 'memory_bytes') or 0) / 2**20:.0f} MiB",
        _duration(get_float(process, "uptime_seconds") or 0),
        get_str(process, "metrics"),
    )


def _figures(figures: JsonObject, report: JsonObject) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    if "chats" in figures:
        broken = get_int(figures, "chats_broken") or 0
        rows += [
            ("questions by status", _counts(figures, "chats") + (f", broken off {broken}" if broken else "")),
            ("first text, p50 / p95", _pair(figures, "first_text")),
            ("streams in flight", get_str(figures, "streams_in_flight")),
        ]
    if "model_first_token_p50_seconds" in figures:
        rows.append(("model's first token, p50 / p95", _pair(figures, "model_first_token")))
    if "tokens" in figures:
        rows.append(("tokens", _counts(figures, "tokens")))
        rows.append(("cost of these processes", f"{get_float(figures, 'cost_usd') or 0:.6f} USD"))
    usage = get_object(report, "usage")
    if usage:
        whose = "the organisation" if get_str(usage, "scope") == "org" else "you"
        rows.append((f"cost in 30 days, {whose}", f"{get_float(usage, 'cost_usd') or 0:.6f} USD"))
    ingest = get_object(figures, "ingest")
    if ingest:
        oldest = get_float(ingest, "oldest_seconds") or 0
        wait = f", the oldest for {_duration(oldest)}" if get_int(ingest, "waiting") else ""
        ended = ", ".join(f"{name} {ingest[name]}" for name in ("done", "failed", "retried") if ingest.get(name))
        rows.append(
            ("ingest", f"{ingest['waiting']} wait{wait}; {ingest['running']} running; ended: {ended or 'none'}")
        )
    if "searches" in figures:
        rows.append(("searches by method", _counts(figures, "searches")))
        recall = get_object(figures, "sampled_recall")
        known = [f"{scope} {value:.3f}" for scope, value in recall.items() if isinstance(value, float)]
        rows.append(("sampled recall", ", ".join(known) or "no samples yet"))
    if "citations" in figures:
        rows.append(("citations by verdict", _counts(figures, "citations")))
        rows.append(("sentences without a citation", get_str(figures, "uncited_sentences")))
    if "answers" in figures:
        rows.append(("answers", _counts(figures, "answers")))
    return rows


def _counts(figures: JsonObject, name: str) -> str:
    counts = {key: value for key, value in get_object(figures, name).items() if value}
    return ", ".join(f"{key} {value:,}" for key, value in counts.items()) or "none"


def _pair(figures: JsonObject, name: str) -> str:
    return " / ".join(_seconds(get_float(figures, f"{name}_{level}_seconds")) for level in ("p50", "p95"))


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{whole} s"


def _format_check(value: object) -> str:
    """A check's result on one line: nested members as `name: value`."""
    members = as_object(value)
    if members is None:
        return str(value)
    return ", ".join(f"{name}: {_format_check(member)}" for name, member in members.items())
