"""Mutual TLS between our processes: who is admitted, renewed certificates, probes without TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from google.protobuf.wrappers_pb2 import StringValue
from grpc_health.v1 import health_pb2

from certificates import Authority, files_in
from citewire_kit import client, tls, watched
from citewire_kit.channel import open_channel
from citewire_kit.errors import StartupError, Unavailable
from citewire_kit.health import LIVENESS, STARTUP
from citewire_kit.server import GrpcServer
from citewire_kit.settings import ServiceSettings
from citewire_kit.tls_files import TlsFiles
from echo_service import SERVICE, EchoServicer, EchoStub, make_settings, register, text

HOST = "localhost"


@dataclass
class Secured:
    """A running server that speaks mutual TLS only."""

    authority: Authority
    folder: Path
    server: GrpcServer
    probe_port: int

    @property
    def target(self) -> str:
        return f"{HOST}:{self.server.port}"


def settings(folder: Path, probe_port: int = 0) -> ServiceSettings:
    files = files_in(folder)
    named = {"tls_cert": files.cert, "tls_key": files.key, "tls_ca": files.ca, "probe_port": probe_port}
    return make_settings().model_copy(update=named)


@asynccontextmanager
async def running_tls_server(tmp_path: Path, shapes: EchoServicer | None = None) -> AsyncGenerator[Secured]:
    authority = Authority()
    authority.issue(tmp_path / "server", HOST)
    with socket.create_server(("127.0.0.1", 0)) as free:
        probe_port = int(free.getsockname()[1])
    server = GrpcServer(settings(tmp_path / "server", probe_port=probe_port), service="test")
    server.add(register, shapes or EchoServicer(), SERVICE)
    await server.start()
    try:
        yield Secured(authority, tmp_path / "server", server, probe_port)
    finally:
        await server.drain_and_stop()


@asynccontextmanager
async def open_stub(target: str, files: TlsFiles | None) -> AsyncGenerator[tuple[EchoStub, grpc.aio.Channel]]:
    channel = open_channel(target, idempotent=(), tls=files)
    try:
        yield EchoStub(channel), channel
    finally:
        await channel.close()


async def test_calls_of_all_shapes_pass_between_certificates_of_one_authority(tmp_path: Path) -> None:
    async with running_tls_server(tmp_path) as running:
        running.server.set_serving(True)
        running.authority.issue(tmp_path / "client", "gateway")
        async with open_stub(running.target, files_in(tmp_path / "client")) as (stub, _):
            assert (await client.unary(stub.unary, text("hello"), timeout=5)).value == "hello"
            async with aclosing(client.stream(stub.server_stream, text("abc"), timeout=5)) as answers:
                assert [answer.value async for answer in answers] == ["a", "b", "c"]

            async def words() -> AsyncGenerator[StringValue]:
                for word in ("x", "y"):
                    yield text(word)

            assert (await client.client_stream(stub.client_stream, words(), timeout=5)).value == "xy"
            async with aclosing(client.bidi(stub.bidi, words(), timeout=5)) as answers:
                assert [answer.value async for answer in answers] == ["x", "y"]


async def test_nobody_else_is_admitted(tmp_path: Path) -> None:
    async with running_tls_server(tmp_path) as running:
        running.server.set_serving(True)
        stranger = Authority()
        stranger.issue(tmp_path / "stranger", "gateway")
        # Trusts our server, but shows a certificate of another authority.
        mixed = TlsFiles(
            tmp_path / "stranger" / "tls.crt", tmp_path / "stranger" / "tls.key", running.folder / "ca.crt"
        )
        for files in (None, files_in(tmp_path / "stranger"), mixed):
            async with open_stub(running.target, files) as (stub, _):
                with pytest.raises(Unavailable):
                    await client.unary(stub.unary, text("hello"), timeout=5)
        credentials = grpc.ssl_channel_credentials((running.folder / "ca.crt").read_bytes())
        async with grpc.aio.secure_channel(running.target, credentials) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await EchoStub(channel).unary(text("without a certificate"), timeout=5)
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_server_with_another_name_is_not_trusted(tmp_path: Path) -> None:
    async with running_tls_server(tmp_path) as running:
        running.server.set_serving(True)
        running.authority.issue(tmp_path / "client", "gateway")
        async with open_stub(f"127.0.0.1:{running.server.port}", files_in(tmp_path / "client")) as (stub, _):
            with pytest.raises(Unavailable):
                await client.unary(stub.unary, text("hello"), timeout=5)


async def test_both_sides_follow_renewed_certificates_and_streams_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "_LOOK_SECONDS", 0.0)
    go_on = asyncio.Event()

    async def slow(_request: StringValue) -> AsyncGenerator[StringValue]:
        yield text("first")
        await go_on.wait()
        yield text("last")

    seen: list[int] = []
    async with running_tls_server(tmp_path, EchoServicer(server_stream=slow)) as running:
        running.server.set_serving(True)
        folder = tmp_path / "client"
        running.authority.issue(folder, "gateway")
        async with open_stub(running.target, files_in(folder)) as (stub, channel):
            assert isinstance(channel, tls.RenewedChannel)
            seen.append(await served_serial(running.server.port, folder))
            async with aclosing(client.stream(stub.server_stream, text(""), timeout=20)) as answers:
                assert (await anext(answers)).value == "first"
                before = channel.current()
                renewed = running.authority.issue(running.folder, HOST)
                running.authority.issue(folder, "gateway")
                assert (await client.unary(stub.unary, text("renewed"), timeout=5)).value == "renewed"
                assert channel.current() is not before
                seen.append(await served_serial(running.server.port, folder))
                go_on.set()
                assert [answer.value async for answer in answers] == ["last"]
    assert seen[1] == renewed
    assert seen[0] != renewed


async def served_serial(port: int | None, folder: Path) -> int:
    """Serial number of the certificate that the server shows to a new connection."""
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    context.set_alpn_protocols(["h2"])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=HOST)
    shown: Any = writer.get_extra_info("ssl_object")
    serial = x509.load_der_x509_certificate(shown.getpeercert(binary_form=True)).serial_number
    writer.close()
    return serial


async def test_unreadable_files_leave_the_current_certificate_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "_LOOK_SECONDS", 0.0)
    async with running_tls_server(tmp_path) as running:
        running.server.set_serving(True)
        folder = tmp_path / "client"
        running.authority.issue(folder, "gateway")
        async with open_stub(running.target, files_in(folder)) as (stub, channel):
            assert isinstance(channel, tls.RenewedChannel)
            before = channel.current()
            folder.rename(tmp_path / "away")
            assert (await client.unary(stub.unary, text("kept"), timeout=5)).value == "kept"
            assert channel.current() is before


async def test_missing_files_end_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="CITEWIRE_TLS_CERT"):
        open_channel("localhost:1", tls=files_in(tmp_path / "nowhere"))
    server = GrpcServer(settings(tmp_path / "nowhere"), service="test")
    with pytest.raises(StartupError, match="CITEWIRE_TLS_CERT"):
        await server.start()


async def test_probes_are_answered_without_tls_and_differ_in_meaning(tmp_path: Path) -> None:
    serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING

    async with (
        running_tls_server(tmp_path) as running,
        grpc.aio.insecure_channel(f"127.0.0.1:{running.probe_port}") as channel,
    ):
        check: Any = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )

        async def states() -> dict[str, int]:
            names = {"liveness": LIVENESS, "startup": STARTUP, "readiness": ""}
            asked = {key: health_pb2.HealthCheckRequest(service=name) for key, name in names.items()}
            return {key: (await check(request, timeout=5)).status for key, request in asked.items()}

        assert await states() == {"liveness": serving, "startup": not_serving, "readiness": not_serving}
        running.server.set_serving(True)
        assert await states() == {"liveness": serving, "startup": serving, "readiness": serving}
        running.server.set_serving(False)  # as when the database is down
        assert await states() == {"liveness": serving, "startup": serving, "readiness": not_serving}
        # Only health is answered on that port.
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await EchoStub(channel).unary(text("hello"), timeout=5)
        assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
