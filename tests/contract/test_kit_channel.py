"""Channels: load balancing, health, retries, and reconnecting."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest
from citewire.embedder.v1 import embedder_pb2
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import corpus_pb2, retriever_pb2
from google.protobuf.wrappers_pb2 import StringValue

import echo_service
from citewire_kit import client
from citewire_kit.channel import IDEMPOTENT, open_channel, service_config
from citewire_kit.errors import ResourceExhausted, Unavailable
from citewire_kit.methods import methods_of
from echo_service import SERVICE, EchoServicer, EchoStub, make_settings, running_echo_service, text

STUBS = (embedder_pb2, generator_pb2, retriever_pb2, corpus_pb2)


def servicer_named(name: str) -> EchoServicer:
    async def who(_request: StringValue) -> StringValue:
        return text(name)

    return EchoServicer(unary=who)


def test_every_retried_method_exists_and_is_unary() -> None:
    services = {f"{stub.DESCRIPTOR.package}.{name}" for stub in STUBS for name in stub.DESCRIPTOR.services_by_name}
    unary = {(service, method) for name in services for shape, service, method in methods_of(name) if shape == "unary"}
    assert set(IDEMPOTENT) <= unary


def test_calls_that_write_or_cost_money_are_never_retried() -> None:
    assert not any(
        method.startswith(("Upload", "Put", "Create", "Update", "Delete", "Retry", "Switch", "Prepare", "Generate"))
        or method in ("Decide", "Assess", "Rewrite", "SuggestQuestions")
        for _, method in IDEMPOTENT
    )


def test_the_service_config_is_in_grpcs_format() -> None:
    config = json.loads(service_config([("s", "m")]))
    assert config["loadBalancingConfig"] == [{"round_robin": {}}]
    assert config["healthCheckConfig"] == {"serviceName": ""}
    assert config["methodConfig"][0]["name"] == [{"service": "s", "method": "m"}]
    assert "methodConfig" not in json.loads(service_config([]))


async def test_calls_are_spread_over_the_replicas_that_serve() -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(running_echo_service(servicer_named("one")))
        second = await stack.enter_async_context(running_echo_service(servicer_named("two")))
        channel = open_channel(f"ipv4:127.0.0.1:{first.port},127.0.0.1:{second.port}")
        stack.push_async_callback(channel.close)
        stub = EchoStub(channel)
        await _until_all_answer(stub, {"one", "two"})
        answers = Counter([await ask(stub) for _ in range(40)])
        assert answers == {"one": 20, "two": 20}
        second.server.set_serving(False)
        await _until_all_answer(stub, {"one"})
        second.server.set_serving(True)
        await _until_all_answer(stub, {"one", "two"})


async def test_no_call_fails_while_a_replica_drains() -> None:
    """As in a rolling restart: first NOT_SERVING, then time for clients to leave, then the stop."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(running_echo_service(servicer_named("one")))
        second = await stack.enter_async_context(
            running_echo_service(servicer_named("two"), make_settings(leave_seconds=0.5))
        )
        channel = open_channel(f"ipv4:127.0.0.1:{first.port},127.0.0.1:{second.port}", idempotent=())
        stack.push_async_callback(channel.close)
        stub = EchoStub(channel)
        await _until_all_answer(stub, {"one", "two"})
        draining = asyncio.create_task(second.server.drain_and_stop())
        answers = Counter[str]()
        while not draining.done():
            answers[await ask(stub)] += 1  # raises if one fails
        assert answers["one"] > 0
        assert await ask(stub) == "one"


async def test_a_server_that_comes_back_on_its_port_is_found_within_seconds() -> None:
    async with running_echo_service(servicer_named("first")) as first:
        port = first.port
        channel = open_channel(f"127.0.0.1:{port}")
        stub = EchoStub(channel)
        assert await ask(stub) == "first"
    with pytest.raises(Unavailable):
        await ask(stub)
    async with running_echo_service(servicer_named("second"), make_settings(port=port)):
        async with asyncio.timeout(5):
            await _until_all_answer(stub, {"second"})
    await channel.close()


@pytest.mark.parametrize("retried", [True, False])
async def test_unavailable_is_retried_on_named_methods_only(retried: bool) -> None:
    tries = 0

    async def flaky(request: StringValue) -> StringValue:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise Unavailable("not now", reason="SERVICE_UNAVAILABLE")
        return request

    async with running_echo_service(EchoServicer(unary=flaky)) as running:
        channel = open_channel(f"127.0.0.1:{running.port}", idempotent=[(SERVICE, "Unary" if retried else "Other")])
        stub = EchoStub(channel)
        if retried:
            assert await ask(stub) == "x"
            assert tries == 3
        else:
            with pytest.raises(Unavailable):
                await ask(stub)
            assert tries == 1
        await channel.close()


async def test_a_call_that_fails_only_after_waiting_is_not_retried() -> None:
    tries = 0

    async def waits(_request: StringValue) -> StringValue:
        nonlocal tries
        tries += 1
        await asyncio.sleep(0.6)
        raise Unavailable("the database can't be reached", reason="DATABASE_UNAVAILABLE", retry_after=1)

    async with running_echo_service(EchoServicer(unary=waits)) as running:
        channel = open_channel(f"127.0.0.1:{running.port}", idempotent=[(SERVICE, "Unary")])
        with pytest.raises(Unavailable) as raised:
            await ask(EchoStub(channel))
        await channel.close()
    assert (tries, raised.value.reason, raised.value.retry_after) == (1, "DATABASE_UNAVAILABLE", 1)


async def test_overload_is_not_retried() -> None:
    tries = 0

    async def full(_request: StringValue) -> StringValue:
        nonlocal tries
        tries += 1
        raise ResourceExhausted("full", reason="OVERLOADED", retry_after=1)

    async with running_echo_service(EchoServicer(unary=full)) as running:
        channel = open_channel(f"127.0.0.1:{running.port}", idempotent=[(SERVICE, "Unary")])
        with pytest.raises(ResourceExhausted):
            await ask(EchoStub(channel))
        await channel.close()
    assert tries == 1


async def test_a_connection_is_renewed_without_cutting_a_stream_or_failing_a_call() -> None:
    async def ticks(_request: StringValue) -> AsyncGenerator[StringValue]:
        for number in range(30):
            yield text(str(number))
            await asyncio.sleep(0.05)

    async with running_echo_service(
        EchoServicer(server_stream=ticks), make_settings(connection_seconds=0.3)
    ) as running:

        async def read() -> list[str]:
            answers = client.stream(running.stub.server_stream, text("go"), timeout=30)
            return [answer.value async for answer in answers]

        reading = asyncio.create_task(read())
        asked = 0
        while not reading.done():
            assert await ask(running.stub) == "x"
            asked += 1
        assert await reading == [str(number) for number in range(30)]
        assert asked > 10


async def test_keepalive_gives_up_a_server_that_hangs() -> None:
    """A stopped process keeps its connection open without answering: without pings, the call would wait 60 s."""
    program = (
        "import asyncio, sys; sys.path.insert(0, sys.argv[1])\n"
        "from echo_service import EchoServicer, running_echo_service\n"
        "async def main():\n"
        "    async with running_echo_service(EchoServicer()) as running:\n"
        "        print('port', running.port, flush=True); await asyncio.sleep(120)\n"
        "asyncio.run(main())"
    )
    folder = str(Path(echo_service.__file__).parent)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, folder, stdout=PIPE)
    assert process.stdout is not None
    port = 0
    while not port:
        words = (await process.stdout.readline()).decode().split()
        port = int(words[1]) if words[0] == "port" else 0
    channel = open_channel(f"127.0.0.1:{port}")
    stub = EchoStub(channel)
    assert await ask(stub) == "x"
    process.send_signal(signal.SIGSTOP)
    try:
        started = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable):
            await client.unary(stub.unary, text("x"), timeout=60)
        assert asyncio.get_running_loop().time() - started < 20
    finally:
        await channel.close()
        process.kill()
        await process.communicate()


async def test_large_messages_pass_up_to_the_limit() -> None:
    async with running_echo_service(EchoServicer()) as running:
        fifteen = text("x" * (15 * 1024 * 1024))
        assert len((await client.unary(running.stub.unary, fifteen, timeout=20)).value) == len(fifteen.value)
        with pytest.raises(ResourceExhausted) as raised:
            await client.unary(running.stub.unary, text("x" * (17 * 1024 * 1024)), timeout=20)
        assert raised.value.reason == "TOO_LARGE"


async def test_a_slow_reader_slows_the_sender_of_a_stream() -> None:
    """The tiny window of a stream channel is what makes the generator coalesce tokens."""
    sent = 0

    async def chatter(_request: StringValue) -> AsyncGenerator[StringValue]:
        nonlocal sent
        for _ in range(100_000):
            yield text("t" * 100)
            sent += 1

    async with running_echo_service(EchoServicer(server_stream=chatter)) as running:
        ahead: dict[bool, int] = {}
        for tiny in (False, True):
            channel = open_channel(f"127.0.0.1:{running.port}", streams=tiny)
            sent = 0
            async with aclosing(client.stream(EchoStub(channel).server_stream, text("go"), timeout=30)) as answers:
                await anext(answers)
                before = -1
                while before != sent:  # until the sender has stopped
                    before = sent
                    await asyncio.sleep(0.2)
                ahead[tiny] = sent
            await channel.close()
    assert ahead[True] * 10 < ahead[False]


async def ask(stub: EchoStub) -> str:
    return (await client.unary(stub.unary, text("x"), timeout=5)).value


async def _until_all_answer(stub: EchoStub, names: set[str]) -> None:
    """Waits until exactly the named replicas answer."""
    async with asyncio.timeout(10):
        while True:
            try:
                got = {await ask(stub) for _ in range(8)}
            except Unavailable:
                await asyncio.sleep(0.05)
                continue
            if got == names:
                return
