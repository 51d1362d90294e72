"""Processes with certificates: the gateway reaches a service over mutual TLS, and only that way."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from callers import keyed_environment
from certificates import Authority
from citewire_kit.health import LIVENESS, STARTUP
from databases import HasDsn
from local_ports import free_port
from manifests import SERVERS
from service_process import service_process
from waiting import wait_until

SERVING = health_pb2.HealthCheckResponse.SERVING


def tls(folder: Path) -> dict[str, str]:
    names = {"CERT": "tls.crt", "KEY": "tls.key", "CA": "ca.crt"}
    return {f"CITEWIRE_TLS_{variable}": str(folder / file) for variable, file in names.items()}


def states(port: int) -> dict[str, str]:
    """Returns the state of each part in the gateway's readiness."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=20) as response:
            return json.load(response)
    except urllib.error.HTTPError as exc:
        return json.load(exc)


async def health(port: int, service: str) -> int:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        check: Any = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        asked = health_pb2.HealthCheckRequest(service=service)
        answer: health_pb2.HealthCheckResponse = await check(asked, timeout=10, wait_for_ready=True)
        return answer.status


async def test_the_gateway_reaches_a_service_only_over_tls(database: HasDsn, tmp_path: Path) -> None:
    authority = Authority()
    authority.issue(tmp_path / "generator", "localhost")
    authority.issue(tmp_path / "gateway", "gateway")
    probes = free_port()
    generator = service_process(
        "generator",
        log=tmp_path / "generator.log",
        CITEWIRE_GENERATOR_PROBE_PORT=str(probes),
        **tls(tmp_path / "generator"),
    )
    async with generator as service:
        gateway = {
            "CITEWIRE_GATEWAY_DSN": database.dsn("citewire_chat"),
            "CITEWIRE_GATEWAY_GENERATOR_TARGET": f"localhost:{service.port}",
        }
        log = tmp_path / "gateway.log"
        async with service_process("gateway", "serve", log=log, **gateway, **tls(tmp_path / "gateway")) as secured:
            assert (await asyncio.to_thread(states, secured.port))["generator"] == "ok"
        async with service_process("gateway", "serve", log=log, **gateway) as plain:
            assert (await asyncio.to_thread(states, plain.port))["generator"] != "ok"
        assert [await health(probes, name) for name in (STARTUP, LIVENESS, "")] == [SERVING] * 3


async def test_a_worker_answers_its_probes(database: HasDsn) -> None:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "citewire_retriever", "worker"),
        env={
            **os.environ,
            **keyed_environment("worker"),
            "CITEWIRE_WORKER_DSN": database.dsn("citewire_worker"),
            "CITEWIRE_WORKER_METRICS_PORT": "0",
            "CITEWIRE_WORKER_CONFINEMENT": "available",
            "CITEWIRE_WORKER_PROBE_PORT": str(port),
        },
    )
    try:
        assert await health(port, LIVENESS) == SERVING

        async def started() -> bool:
            return await health(port, STARTUP) == SERVING

        await wait_until(started)
        process.terminate()
        async with asyncio.timeout(20):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("missing", ["CERT", "KEY", "CA"])
@pytest.mark.parametrize("process", SERVERS)
def test_settings_of_certificates_must_be_complete(
    process: str, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"CITEWIRE_{process.upper()}"
    monkeypatch.setenv(f"{prefix}_DSN", "postgresql://user@host/database")
    for name, value in tls(tmp_path).items():
        monkeypatch.setenv(name, value)
    assert SERVERS[process]().model_dump()["tls_cert"] == tmp_path / "tls.crt"
    monkeypatch.delenv(f"CITEWIRE_TLS_{missing}")
    with pytest.raises(
        ValueError, match="CITEWIRE_TLS_CERT, CITEWIRE_TLS_KEY and CITEWIRE_TLS_CA must be set together"
    ):
        SERVERS[process]()
