"""Metrics that all processes share.

Names, attributes and buckets of the `gen_ai_*` series are those of OpenTelemetry's GenAI conventions, written the way
Prometheus writes them (dots become underscores, units become suffixes). Series with a bounded label set exist from
the start, so that a rate never misses its first event. Every label is bounded: see `LabelGuard`.
"""

from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

from citewire_kit.errors import Code
from citewire_kit.plan_limits import DEFAULT_LIMITS, Measure

TokenType = Literal["input", "output"]
CancelCause = Literal["client", "deadline", "drain", "upstream", "cancel", "lost"]
CANCEL_CAUSES: tuple[CancelCause, ...] = ("client", "deadline", "drain", "upstream", "cancel", "lost")

OWN = "own"
"""Common label of tenants' own models, because their names are unbounded."""

_PACKAGES = {"worker": "citewire-retriever"}
"""Package names that differ from the process name."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


# A series for each counter's creation time would double the number of series.
disable_created_metrics()


class LabelGuard:
    """Limits the values of an external label: the first `limit` are kept, later ones become `other`."""

    def __init__(self, limit: int = 64) -> None:
        self._limit = limit
        self._seen: set[str] = set()

    def __call__(self, value: str) -> str:
        """Returns `value`, or `other` once the limit is reached."""
        if value in self._seen:
            return value
        if len(self._seen) >= self._limit:
            return "other"
        value = value[:128]
        self._seen.add(value)
        return value

    def known(self, value: str) -> str:
        """Returns `value` if it is known, else `OWN`."""
        return value if not value or value in self._seen else OWN


_models = LabelGuard(64)
_providers = LabelGuard(16)
_error_types = LabelGuard(64)

TOKENS = Histogram(
    "gen_ai_client_token_usage",
    "Number of input and output tokens used.",
    ["gen_ai_provider_name", "gen_ai_request_model", "gen_ai_operation_name", "gen_ai_token_type"],
    buckets=(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864),
)

OPERATION_DURATION = Histogram(
    "gen_ai_client_operation_duration_seconds",
    "GenAI operation duration.",
    ["gen_ai_provider_name", "gen_ai_request_model", "gen_ai_operation_name", "error_type"],
    buckets=(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
)

TTFT = Histogram(
    "gen_ai_server_time_to_first_token_seconds",
    "Time to generate the first token for successful responses.",
    ["gen_ai_provider_name", "gen_ai_request_model"],
    buckets=(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)

_RPC = ["grpc_type", "grpc_service", "grpc_method"]

GRPC_SERVER_STARTED = Counter("grpc_server_started_total", "RPCs started on the server.", _RPC)
GRPC_SERVER_HANDLED = Counter(
    "grpc_server_handled_total", "RPCs completed on the server, whatever the outcome.", [*_RPC, "grpc_code"]
)
GRPC_SERVER_SECONDS = Histogram(
    "grpc_server_handling_seconds", "Seconds from an RPC's start on the server to its end.", _RPC, buckets=_SECONDS
)
GRPC_SERVER_IN_FLIGHT = Gauge("citewire_grpc_server_in_flight", "RPCs that the server is handling now.", _RPC)

GRPC_CLIENT_IN_FLIGHT = Gauge("citewire_grpc_client_in_flight", "RPCs that the client is waiting for now.", _RPC)
GRPC_CLIENT_STARTED = Counter("grpc_client_started_total", "RPCs started by the client.", _RPC)
GRPC_CLIENT_HANDLED = Counter(
    "grpc_client_handled_total", "RPCs completed by the client, whatever the outcome.", [*_RPC, "grpc_code"]
)
GRPC_CLIENT_SECONDS = Histogram(
    "grpc_client_handling_seconds", "Seconds from an RPC's start at the client to its end.", _RPC, buckets=_SECONDS
)

HTTP_REQUESTS = Counter("citewire_http_requests_total", "HTTP requests answered.", ["method", "route", "status"])
HTTP_SECONDS = Histogram(
    "citewire_http_request_seconds",
    "Seconds from an HTTP request's start to the end of its answer.",
    ["method", "route"],
    buckets=_SECONDS,
)

UNSIGNED_ACCEPTED = Gauge(
    "citewire_unsigned_callers_accepted", "Whether unsigned calls are accepted (1), for the duration of an upgrade."
)
UNSIGNED_CALLS = Counter("citewire_unsigned_calls_total", "Unsigned calls that were accepted.")

STREAMS_IN_FLIGHT = Gauge("citewire_streams_in_flight", "Answers that are being streamed now.", ["dialect"])
STREAMS_CANCELLED = Counter("citewire_streams_cancelled_total", "Streamed answers that were cut off.", ["cause"])
STREAMS_BROKEN = Counter(
    "citewire_streams_broken_total",
    "Streamed answers that failed on our side after a status of 200, which request statuses don't show.",
    ["dialect"],
)

BUILD = Gauge("citewire_build_info", "Which process this is, and its version; always 1.", ["service", "version"])


def init_process(service: str) -> None:
    """Publishes which process this is, and the version of its package."""
    try:
        result = version(_PACKAGES.get(service, f"citewire-{service}"))
    except PackageNotFoundError:
        result = "unknown"
    BUILD.labels(service, result).set(1)


def record_tokens(*, provider: str, model: str, operation: str, token_type: TokenType, count: int) -> None:
    """Records tokens of a call, once, in the process that made the call."""
    TOKENS.labels(_providers(provider), _models.known(model), operation, token_type).observe(count)


def record_operation(*, provider: str, model: str, operation: str, seconds: float, error_type: str = "") -> None:
    """Records the duration of a call to a model, and the class of its error ("" if it succeeded)."""
    error = _error_types(error_type) if error_type else ""
    OPERATION_DURATION.labels(_providers(provider), _models.known(model), operation, error).observe(seconds)


def record_ttft(*, provider: str, model: str, seconds: float) -> None:
    """Records the seconds from the start of a generation to its first token."""
    TTFT.labels(_providers(provider), _models.known(model)).observe(seconds)


def init_model(
    *, provider: str, model: str, operation: str, token_types: Iterable[TokenType] = ("input", "output")
) -> None:
    """Creates the series of a configured model before its first call. Other models count as `OWN`."""
    provider, model = _providers(provider), _models(model)
    for token_type in token_types:
        TOKENS.labels(provider, model, operation, token_type)
    OPERATION_DURATION.labels(provider, model, operation, "")
    if operation == "chat":
        TTFT.labels(provider, model)


def init_streams(dialects: Iterable[str], causes: Iterable[CancelCause] = CANCEL_CAUSES) -> None:
    """Creates the series of the streams that this process serves."""
    for dialect in dialects:
        STREAMS_IN_FLIGHT.labels(dialect)
        STREAMS_BROKEN.labels(dialect)
    for cause in causes:
        STREAMS_CANCELLED.labels(cause)


def init_http(routes: Iterable[tuple[str, str, Iterable[int]]]) -> None:
    """Creates the series of (method, route template, likely statuses)."""
    for method, route, statuses in routes:
        HTTP_SECONDS.labels(method, route)
        for status in statuses:
            HTTP_REQUESTS.labels(method, route, str(status))


LIMITED = Counter(
    "citewire_limited_requests_total",
    "Requests rejected because of a limit of the caller's plan, or of invalid API keys from one address.",
    ["measure", "scope", "plan"],
)
LIMIT_STORE_UP = Gauge(
    "citewire_limit_store_up", "Whether limits are counted in the shared store (1) or by each gateway on its own (0)."
)
LIMIT_STORE_FAILURES = Counter(
    "citewire_limit_store_failures_total", "Failed calls to the shared store of limits; no request is rejected for it."
)


class RpcSeries:
    """The series of one gRPC method, looked up once, because a look-up by labels costs more than counting."""

    __slots__ = ("handled", "in_flight", "seconds", "started")

    def __init__(
        self, labels: tuple[str, str, str], started: Counter, handled: Counter, seconds: Histogram, in_flight: Gauge
    ) -> None:
        self.started = started.labels(*labels)
        self.seconds = seconds.labels(*labels)
        self.in_flight = in_flight.labels(*labels)
        self.handled = {code: handled.labels(*labels, code.value) for code in Code}


@cache
def grpc_server_series(shape: str, service: str, method: str) -> RpcSeries:
    """Returns the series of a method on the server, created for every code."""
    return RpcSeries(
        (shape, service, method), GRPC_SERVER_STARTED, GRPC_SERVER_HANDLED, GRPC_SERVER_SECONDS, GRPC_SERVER_IN_FLIGHT
    )


@cache
def grpc_client_series(shape: str, service: str, method: str) -> RpcSeries:
    """Returns the series of a method on the client, created for every code."""
    return RpcSeries(
        (shape, service, method), GRPC_CLIENT_STARTED, GRPC_CLIENT_HANDLED, GRPC_CLIENT_SECONDS, GRPC_CLIENT_IN_FLIGHT
    )


def init_limits(*measures: Measure) -> None:
    """Creates the series of the limits that this process enforces."""
    for plan, limits in DEFAULT_LIMITS.items():
        for measure in measures:
            for scope in limits[measure]:
                LIMITED.labels(measure, scope, plan)
