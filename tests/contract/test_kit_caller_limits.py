"""Limits by plan for callers of a service over gRPC without the gateway: requests, streams, tokens, RetryInfo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf.wrappers_pb2 import StringValue
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status
from opentelemetry import trace

from certificates import Authority, files_in
from citewire_kit import client
from citewire_kit.caller_limits import CallerLimits, CallerLimitSettings, open_caller_limits
from citewire_kit.callers.__main__ import make_keys
from citewire_kit.callers.signer import Signer
from citewire_kit.channel import open_channel
from citewire_kit.errors import CitewireError
from citewire_kit.genai import ModelSpan
from citewire_kit.limit_store import MemoryStore
from citewire_kit.limiter import Limiter
from citewire_kit.plan_limits import read_limits
from citewire_kit.server import GrpcServer
from citewire_kit.settings import ServiceSettings
from citewire_kit.status import DETAILS_KEY
from citewire_kit.tenant import Tenant, use_tenant
from echo_service import (
    SERVICE,
    EchoServicer,
    EchoStub,
    RunningEchoService,
    make_settings,
    register,
    running_echo_service,
    text,
)
from limit_windows import stop_limit_windows
from waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

ADA = Tenant("acme", "ada", "free", key_id="key-1")
ADAS_OTHER_KEY = Tenant("acme", "ada", "free", key_id="key-2")
BOB = Tenant("acme", "bob", "free")
EVE = Tenant("other", "ada", "free")
PRO = Tenant("pro", "ada", "pro")
PLANS = """{"free": {"requests": {"key": 3, "user": 4, "org": 6}, "streams": {"key": null, "user": 2, "org": 3},
                     "tokens": {"key": null, "user": 100, "org": 250}}}"""


@pytest.fixture(autouse=True)
def _stopped_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_limit_windows(monkeypatch)


def limits(plans: str = PLANS, *, unlimited: frozenset[str] = frozenset()) -> CallerLimits:
    return CallerLimits(Limiter(MemoryStore(), read_limits(plans)), unlimited, spends=True)


@asynccontextmanager
async def echo_service_with_limits(servicer: EchoServicer, plans: str = PLANS) -> AsyncGenerator[RunningEchoService]:
    async with running_echo_service(servicer, make_settings(auth="keys"), callers=limits(plans)) as running:
        yield running


async def echo(running: RunningEchoService, tenant: Tenant) -> str:
    with use_tenant(tenant):
        return (await client.unary(running.stub.unary, text("hello"), timeout=20)).value


async def refusal_of(running: RunningEchoService, tenant: Tenant) -> CitewireError:
    with pytest.raises(CitewireError) as caught:
        await echo(running, tenant)
    assert caught.value.reason == "RATE_LIMITED"
    return caught.value


async def test_a_runaway_caller_is_stopped_by_the_limits_of_key_user_and_organisation() -> None:
    async with echo_service_with_limits(EchoServicer()) as running:
        for _ in range(3):
            await echo(running, ADA)
        assert (await refusal_of(running, ADA)).metadata["limit"] == "requests-key"
        await echo(running, ADAS_OTHER_KEY)
        assert (await refusal_of(running, ADAS_OTHER_KEY)).metadata["limit"] == "requests-user"
        for _ in range(2):
            await echo(running, BOB)
        error = await refusal_of(running, BOB)
        assert (error.metadata["limit"], error.metadata["quota"], error.metadata["window_seconds"]) == (
            "requests-org", "6", "60",
        )  # fmt: skip
        for _ in range(3):
            await echo(running, EVE)
            await echo(running, PRO)


async def test_any_grpc_client_can_read_when_to_retry() -> None:
    """Without our client, from the status and RetryInfo in its details."""
    async with echo_service_with_limits(EchoServicer(), '{"free": {"requests": {"user": 0}}}') as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            with use_tenant(BOB):
                await running.stub.unary(text("hello"), timeout=20)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    details = dict(caught.value.trailing_metadata() or ())[DETAILS_KEY]
    assert isinstance(details, bytes)
    status, retry = Status.FromString(details), error_details_pb2.RetryInfo()
    assert [detail.Unpack(retry) for detail in status.details].count(True) == 1
    assert 1 <= retry.retry_delay.seconds <= 60


async def test_streams_count_while_they_run_and_until_the_caller_leaves() -> None:
    gate = asyncio.Event()
    running_streams = 0

    async def slow(_request: StringValue) -> AsyncGenerator[StringValue]:
        nonlocal running_streams
        running_streams += 1
        yield text("first")
        await gate.wait()

    plans = '{"free": {"requests": {"key": null, "user": null, "org": null}, "streams": {"key": null, "user": 2}}}'
    async with echo_service_with_limits(EchoServicer(server_stream=slow), plans) as running:

        async def listen() -> None:
            with use_tenant(BOB):
                async for _ in client.stream(running.stub.server_stream, text("go"), timeout=20):
                    pass

        streams = [asyncio.create_task(listen()) for _ in range(2)]
        await wait_until(lambda: running_streams == 2)
        with pytest.raises(CitewireError) as caught:
            await listen()
        assert (caught.value.metadata["limit"], caught.value.retry_after) == ("streams-user", 2.0)
        assert await echo(running, BOB)
        streams[0].cancel()
        await wait_until(lambda: running.server.in_flight == 1)
        streams.append(asyncio.create_task(listen()))
        await wait_until(lambda: running_streams == 3)
        gate.set()
        await asyncio.gather(*streams[1:])


async def test_tokens_of_a_call_count_against_the_next() -> None:
    async def spend(_request: StringValue) -> StringValue:
        # In a task that the call started, like a batch or a provider's call.
        span = ModelSpan(trace.INVALID_SPAN)
        await asyncio.create_task(asyncio.to_thread(span.record_usage, 80, 40))
        return text("done")

    plans = PLANS.replace('"requests": {"key": 3, "user": 4, "org": 6}, ', "")
    async with echo_service_with_limits(EchoServicer(unary=spend), plans) as running:
        await echo(running, ADA)
        assert (await refusal_of(running, ADA)).metadata["limit"] == "tokens-user"
        await echo(running, BOB)
        await echo(running, Tenant("acme", "cem", "free"))
        assert (await refusal_of(running, Tenant("acme", "dan", "free"))).metadata["limit"] == "tokens-org"
        await echo(running, EVE)


async def test_the_gateways_calls_are_not_counted_again(tmp_path: Path) -> None:
    authority = Authority()
    for name in ("localhost", "gateway", "reports"):
        authority.issue(tmp_path / name, name)
    files = files_in(tmp_path / "localhost")
    keys = tmp_path / "keys"
    make_keys(keys, {"gateway": (), "reports": ()})
    settings = ServiceSettings(
        port=0, metrics_port=0, leave_seconds=0, caller_issuers=keys / "issuers.json",
        tls_cert=files.cert, tls_key=files.key, tls_ca=files.ca,
    )  # fmt: skip
    plans = '{"free": {"requests": {"user": 1}}}'
    server = GrpcServer(settings, service="test", callers=limits(plans, unlimited=frozenset({"gateway", "worker"})))
    server.add(register, EchoServicer(), SERVICE)
    port = await server.start()
    server.set_serving(True)
    try:
        for name, statuses in (("gateway", [""] * 4), ("reports", ["", "RATE_LIMITED", "RATE_LIMITED"])):
            signer = Signer(f"citewire-{name}", keys / f"{name}.pem")
            channel = open_channel(f"localhost:{port}", tls=files_in(tmp_path / name), signer=signer)
            running = RunningEchoService(server, EchoStub(channel), port)
            reasons: list[str] = []
            for _ in statuses:
                try:
                    await echo(running, BOB)
                    reasons.append("")
                except CitewireError as error:
                    reasons.append(error.reason)
            await channel.close()
            assert reasons == statuses
    finally:
        await server.drain_and_stop()


async def test_settings_determine_who_is_limited(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:

        def open_limits(**values: object) -> CallerLimits | None:
            settings = CallerLimitSettings.model_validate({"port": 0, "metrics_port": 0, **values})
            return open_caller_limits(stack, settings, spends=False)

        assert open_limits() is None  # the gateway and the worker are the only callers
        assert open_limits(unlimited_callers="", auth="off") is None
        assert open_limits(unlimited_callers="") is not None
        with pytest.raises(ValueError, match="TLS is off"):
            open_limits(unlimited_callers="gateway")
