"""Services as processes of a test, with their log, metrics and traces."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as pb_grpc

from callers import keyed_environment
from local_ports import free_port
from waiting import wait_until

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


@dataclass(frozen=True)
class ServiceProcess:
    """A process that listens."""

    process: asyncio.subprocess.Process
    log: Path
    port: int
    metrics_port: int


class SpanCollector(pb_grpc.TraceServiceServicer):
    """Receives the spans that processes export."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.names: set[str] = set()

    async def Export(self, request: pb.ExportTraceServiceRequest, context: Context) -> pb.ExportTraceServiceResponse:  # noqa: N802 # gRPC's name
        self.received.append(request.SerializeToString())
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.names.update(span.name for span in scope.spans)
        return pb.ExportTraceServiceResponse()


@asynccontextmanager
async def span_collector() -> AsyncGenerator[tuple[SpanCollector, str]]:
    """Runs a trace collector; yields it and its endpoint."""
    taking = SpanCollector()
    server = grpc.aio.server()
    add: Any = pb_grpc.add_TraceServiceServicer_to_server  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # no types there
    add(taking, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield taking, f"http://127.0.0.1:{port}"
    finally:
        await server.stop(0)


@asynccontextmanager
async def service_process(name: str, *arguments: str, log: Path, **environment: str) -> AsyncGenerator[ServiceProcess]:
    """Runs `python -m citewire_NAME` on free ports until the block ends, and checks that it then stops."""
    prefix = f"CITEWIRE_{name.upper()}"
    metrics_port = free_port()
    values = {"PORT": "0", "METRICS_PORT": str(metrics_port), "LEAVE_SECONDS": "0.1", "DRAIN_SECONDS": "2"}
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"citewire_{name}",
            *arguments,
            env={
                "PATH": os.environ["PATH"],
                "CITEWIRE_LOG_LEVEL": "DEBUG",
                **keyed_environment(),
                **{f"{prefix}_{key}": value for key, value in values.items()},
                **environment,
            },
            stdout=output,
            stderr=output,
        )

    def port() -> int:
        assert process.returncode is None, log.read_text()
        events = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
        return next((event["port"] for event in events if event["event"] == "listening"), 0)

    try:
        await wait_until(lambda: port() != 0, 60)
        yield ServiceProcess(process, log, port(), metrics_port)
        if process.returncode is None:  # otherwise the test has killed it
            process.terminate()
        async with asyncio.timeout(20):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
