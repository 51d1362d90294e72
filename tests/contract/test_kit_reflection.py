"""Reflection of kit's gRPC server, used by buf, a real client, and under each version's name."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse

from citewire_kit.channel import open_channel
from echo_service import SERVICE, EchoServicer, make_settings, running_echo_service, text

V1, V1ALPHA = "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"
PROTOCOLS = {V1: "grpc-v1", V1ALPHA: "grpc-v1alpha"}


async def ask(port: int, name: str, *requests: ServerReflectionRequest) -> list[ServerReflectionResponse]:
    channel = open_channel(f"127.0.0.1:{port}")
    info: Any = channel.stream_stream(
        f"/{name}/ServerReflectionInfo",
        ServerReflectionRequest.SerializeToString,
        ServerReflectionResponse.FromString,
    )
    try:
        answers: AsyncIterator[ServerReflectionResponse] = info(iter(requests))
        return [answer async for answer in answers]
    finally:
        await channel.close()


async def buf_curl(port: int, path: str, *options: str) -> tuple[int, str, str]:
    buf = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "buf"),
        *("curl", "--protocol", "grpc", "--http2-prior-knowledge", *options, f"http://127.0.0.1:{port}{path}"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await buf.communicate()
    assert buf.returncode is not None
    return buf.returncode, out.decode(), err.decode()


def files(answers: Sequence[ServerReflectionResponse]) -> list[FileDescriptorProto]:
    return [
        FileDescriptorProto.FromString(file)
        for answer in answers
        for file in answer.file_descriptor_response.file_descriptor_proto
    ]


@pytest.mark.parametrize("name", [V1, V1ALPHA])
async def test_each_version_lists_and_describes_every_service(name: str) -> None:
    async with running_echo_service(EchoServicer(), make_settings(auth="keys")) as running:
        [listed] = await ask(running.port, name, ServerReflectionRequest(list_services=""))
        names = {service.name for service in listed.list_services_response.service}
        assert names == {SERVICE, "grpc.health.v1.Health", V1, V1ALPHA}
        for service in sorted(names):
            descriptors = files(await ask(running.port, name, ServerReflectionRequest(file_containing_symbol=service)))
            package, _, short = service.rpartition(".")
            assert (package, short) in {(file.package, entry.name) for file in descriptors for entry in file.service}


async def test_v1_is_described_as_v1() -> None:
    async with running_echo_service(EchoServicer()) as running:
        [file] = files(await ask(running.port, V1, ServerReflectionRequest(file_containing_symbol=V1)))
    assert file.name == "grpc/reflection/v1/reflection.proto"
    assert b"v1alpha" not in file.SerializeToString()
    assert not file.options.deprecated


async def test_an_unknown_symbol_does_not_end_the_stream() -> None:
    async with running_echo_service(EchoServicer()) as running:
        unknown, listed = await ask(
            running.port,
            V1,
            ServerReflectionRequest(file_containing_symbol="no.such.Service"),
            ServerReflectionRequest(list_services=""),
        )
    assert unknown.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    assert unknown.original_request.file_containing_symbol == "no.such.Service"
    assert listed.list_services_response.service


@pytest.mark.parametrize("name", [V1, V1ALPHA])
async def test_buf_lists_describes_and_calls(name: str) -> None:
    protocol = ("--reflect-protocol", PROTOCOLS[name])
    async with running_echo_service(EchoServicer()) as running:
        code, out, err = await buf_curl(running.port, "", *protocol, "--list-services")
        assert code == 0, err
        assert {SERVICE, V1, V1ALPHA} <= set(out.split())
        code, out, err = await buf_curl(running.port, f"/{SERVICE}/Unary", *protocol, "-d", '"sea"')
        assert code == 0, err
        assert "sea" in out


@pytest.mark.parametrize("name", [V1, V1ALPHA])
async def test_reflection_can_be_turned_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITEWIRE_REFLECTION", "off")
    async with running_echo_service(EchoServicer(), make_settings()) as running:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await ask(running.port, name, ServerReflectionRequest(list_services=""))
        assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
        code, out, err = await buf_curl(running.port, "", "--reflect-protocol", PROTOCOLS[name], "--list-services")
        assert code != 0, out
        assert SERVICE not in out + err
        assert (await running.stub.unary(text("sea"))).value == "sea"
