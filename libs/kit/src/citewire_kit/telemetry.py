"""Logging and tracing of a process, and its metrics server.

Every line that a process logs, its libraries' lines included, goes through one pipeline to stderr: one JSON object per
line, or readable text. Request and trace ids are added from the context.
"""

import contextlib
import logging
import socket
import sys
import threading
from collections.abc import MutableMapping
from typing import Any, TextIO
from wsgiref.simple_server import WSGIServer

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import REGISTRY, start_http_server

from citewire_kit.errors import StartupError
from citewire_kit.metrics import init_process
from citewire_kit.plain_structlog import structlog
from citewire_kit.settings import ProcessSettings
from citewire_kit.tenant import current_request_id
from citewire_kit.tracing import build_provider, capture_content, current_ids

Event = MutableMapping[str, Any]

# The default prints local variables in tracebacks, and with them questions, documents and keys.
_PLAIN_CONSOLE = structlog.dev.ConsoleRenderer(
    colors=False, timestamp_key="ts", exception_formatter=structlog.dev.plain_traceback
)

if not structlog.is_configured():  # for logging before `setup`, or in programs that never call it
    structlog.configure(processors=[structlog.processors.add_log_level, _PLAIN_CONSOLE])

# Libraries that log a line per request, or details that matter only for debugging them.
_QUIET = ("uvicorn.access", "httpx", "httpx2", "httpcore", "httpcore2", "asyncio", "grpc._cython")


class Telemetry:
    """The result of `setup`; `shutdown()` flushes it."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider

    def shutdown(self) -> None:
        """Exports the waiting spans and stops. Call it last: nothing is exported afterwards."""
        self._provider.shutdown()
        for handler in logging.getLogger().handlers:
            handler.flush()


class MetricsServer:
    """The HTTP server that Prometheus scrapes."""

    def __init__(self, server: WSGIServer, thread: threading.Thread) -> None:
        self._server = server
        self._thread = thread

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.server_port

    def close(self) -> None:
        """Stops the server and frees its port.

        The server checks whether to stop only twice a second, or when somebody connects, so this connects.
        """
        stopping = threading.Thread(target=self._server.shutdown)
        stopping.start()
        with contextlib.suppress(OSError):
            socket.create_connection((str(self._server.server_address[0]), self.port), timeout=1).close()
        stopping.join()
        self._server.server_close()
        self._thread.join()


def setup(service: str, settings: ProcessSettings) -> Telemetry:
    """Sets up logging and tracing for the process. Call it once, in `__main__`, before anything logs."""
    configure_logging(service, level=settings.log_level, log_format=settings.log_format)
    init_process(service)
    capture_content(on=settings.trace_content == "on")
    provider = build_provider(service, settings.otlp_endpoint)
    trace.set_tracer_provider(provider)
    return Telemetry(provider)


def configure_logging(service: str, *, level: str, log_format: str, stream: TextIO | None = None) -> None:
    """Sends all logging of the process through one pipeline to `stream` (stderr by default)."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _add_context(service),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,  # loggers made at import follow a later configuration (tests)
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(log_format)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "grpc"):
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(True)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Returns a module's logger.

    Example:
        log = get_logger(__name__)
        log.info("document_published", chunks=12)

    Log ids, counts and durations; never questions, document texts, answers or keys.
    """
    return structlog.stdlib.get_logger(name)


def start_metrics_server(settings: ProcessSettings) -> MetricsServer:
    """Serves the process's metrics on their own port.

    Raises:
        StartupError: The port isn't available.
    """
    return serve_metrics(settings.metrics_host, settings.metrics_port, setting=settings.env_name("metrics_port"))


def serve_metrics(host: str, port: int, *, setting: str) -> MetricsServer:
    """Like `serve_metrics`, for a process with its own settings; `setting` is the variable with the port.

    Raises:
        StartupError: The port isn't available.
    """
    try:
        server, thread = start_http_server(port, host, registry=REGISTRY)
    except OSError as exc:
        raise StartupError(
            f"cannot serve metrics on {host}:{port}: {exc.strerror}. "
            f"Stop what uses the port, or set {setting} to another."
        ) from exc
    return MetricsServer(server, thread)


def _add_context(service: str) -> structlog.typing.Processor:
    def add(_logger: Any, _method: str, event: Event) -> Event:  # noqa: ANN401 # structlog's signature
        event["service"] = service
        request_id = current_request_id()
        if request_id:
            event.setdefault("request_id", request_id)
        ids = current_ids()
        if ids is not None:
            event.setdefault("trace_id", ids[0])
            event.setdefault("span_id", ids[1])
        return event

    return add


def _renderers(log_format: str) -> list[structlog.typing.Processor]:
    if log_format == "console":
        return [_PLAIN_CONSOLE]
    return [structlog.processors.format_exc_info, _order_keys, structlog.processors.JSONRenderer(default=str)]


def _order_keys(_logger: Any, _method: str, event: Event) -> Event:  # noqa: ANN401 # structlog's signature
    first = {key: event[key] for key in ("ts", "level", "event", "service") if key in event}
    return first | {key: value for key, value in event.items() if key not in first}
