"""The kit's server on a real port: order of the stages, errors, tenant, limits, health, drain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import grpc
import pytest
from google.protobuf.wrappers_pb2 import StringValue
from grpc_health.v1 import health_pb2
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from callers import signed_channel
from citewire_kit import client
from citewire_kit.callers.admission import Admission
from citewire_kit.errors import (
    CitewireError,
    Code,
    FieldViolation,
    Internal,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unauthenticated,
    Unimplemented,
)
from citewire_kit.interceptor_stages import Load, build_stages
from citewire_kit.interceptors import INTERCEPTOR_ORDER, Call, Stage, StageInterceptor
from citewire_kit.tenant import (
    LOCAL_TENANT,
    CallContext,
    Tenant,
    current_call_context,
    current_request_id,
    current_tenant,
    use_call_context,
    use_request_id,
    use_tenant,
)
from echo_service import (
    METHODS,
    SERVICE,
    EchoServicer,
    EchoStub,
    RunningEchoService,
    make_settings,
    register,
    running_echo_service,
    text,
)
from health_calls import health_of
from waiting import BUSY_SECONDS

Caller = Callable[[RunningEchoService], Awaitable[str]]


async def _requests(*values: str) -> AsyncGenerator[StringValue]:
    for value in values:
        yield text(value)


async def call_unary(running: RunningEchoService) -> str:
    return (await client.unary(running.stub.unary, text("abc"), timeout=5)).value


async def call_server_stream(running: RunningEchoService) -> str:
    async with aclosing(client.stream(running.stub.server_stream, text("abc"), timeout=5)) as answers:
        return "".join([answer.value async for answer in answers])


async def call_client_stream(running: RunningEchoService) -> str:
    return (await client.client_stream(running.stub.client_stream, _requests("a", "b", "c"), timeout=5)).value


async def call_bidi(running: RunningEchoService) -> str:
    async with aclosing(client.bidi(running.stub.bidi, _requests("a", "b", "c"), timeout=5)) as answers:
        return "".join([answer.value async for answer in answers])


async def drain(answers: AsyncGenerator[StringValue]) -> None:
    async with aclosing(answers):
        async for _ in answers:
            pass


CALLERS: dict[str, Caller] = {
    "Unary": call_unary,
    "ServerStream": call_server_stream,
    "ClientStream": call_client_stream,
    "Bidi": call_bidi,
}
all_shapes = pytest.mark.parametrize("method", list(CALLERS))


def failing_servicer(exc: BaseException) -> EchoServicer:
    """A servicer whose methods all raise."""

    async def single(_request: object) -> StringValue:
        raise exc

    async def stream(_request: object) -> AsyncGenerator[StringValue]:
        raise exc
        yield  # makes it a generator

    return EchoServicer(single, stream, single, stream)


def handled(method: str, code: Code) -> float:
    labels = {"grpc_type": METHODS[method], "grpc_service": SERVICE, "grpc_method": method, "grpc_code": code.value}
    return REGISTRY.get_sample_value("grpc_server_handled_total", labels) or 0.0


def in_flight() -> float:
    return sum(
        sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name == "citewire_grpc_server_in_flight"
    )


@all_shapes
async def test_each_shape_is_answered_and_counted(method: str) -> None:
    before = handled(method, Code.OK)
    async with running_echo_service(EchoServicer()) as running:
        assert await CALLERS[method](running) == "abc"
        assert handled(method, Code.OK) == before + 1
        assert in_flight() == 0


def test_the_order_of_the_stages_is_fixed() -> None:
    # Metrics outside of auth, so that refused calls are counted; request id and trace outermost, so that every log
    # line and every error has them.
    assert INTERCEPTOR_ORDER == ("request_id", "tracing", "metrics", "audit", "errors", "tenant", "limits")
    interceptor_stages = build_stages(admission=Admission(make_settings(), "test"), load=Load(None))
    assert [name for name, _ in interceptor_stages] == list(INTERCEPTOR_ORDER)


@all_shapes
async def test_stages_run_in_order_around_the_handler_of_each_shape(method: str) -> None:
    seen: list[str] = []

    def noting(name: str) -> Stage:
        @asynccontextmanager
        async def stage(call: Call) -> AsyncGenerator[None]:
            seen.append(f"{name} {call.method}")
            try:
                yield
            finally:
                seen.append(f"end {name}")

        return stage

    server = grpc.aio.server(interceptors=[StageInterceptor([(name, noting(name)) for name in INTERCEPTOR_ORDER])])
    register(EchoServicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        running = RunningEchoService(None, EchoStub(channel), port)  # pyright: ignore[reportArgumentType] # only the stub is used
        assert await CALLERS[method](running) == "abc"
    await server.stop(None)
    assert seen == [f"{name} {method}" for name in INTERCEPTOR_ORDER] + [
        f"end {name}" for name in reversed(INTERCEPTOR_ORDER)
    ]


@all_shapes
async def test_a_call_without_tenant_is_refused_and_counted(method: str) -> None:
    before = handled(method, Code.UNAUTHENTICATED)
    async with running_echo_service(EchoServicer(), make_settings(auth="keys")) as running:
        with pytest.raises(Unauthenticated) as raised:
            await CALLERS[method](running)
        assert raised.value.reason == "TENANT_MISSING"
        assert handled(method, Code.UNAUTHENTICATED) == before + 1


@all_shapes
async def test_the_handler_sees_the_callers_tenant_context_and_request_id(method: str) -> None:
    async def whoami(_request: object) -> StringValue:
        return text(f"{current_tenant()} {current_call_context()} {current_request_id()}")

    async def whoami_stream(_request: object) -> AsyncGenerator[StringValue]:
        yield await whoami(None)

    tenant = Tenant("acme", "user@acme.example", "basic", ("owner", "editor"), "key_7")
    context = CallContext("documents", "01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11", "01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e12")
    servicer = EchoServicer(whoami, whoami_stream, whoami, whoami_stream)
    async with running_echo_service(servicer, make_settings(auth="keys")) as running:
        with use_tenant(tenant), use_call_context(context), use_request_id("request-7"):
            assert await CALLERS[method](running) == f"{tenant} {context} request-7"
        with use_tenant(tenant), use_request_id("request-8"):
            assert await CALLERS[method](running) == f"{tenant} {CallContext()} request-8"


async def test_without_auth_and_keys_every_call_works_for_the_local_tenant() -> None:
    async def whoami(_request: StringValue) -> StringValue:
        return text(current_tenant().org_id)

    async with running_echo_service(EchoServicer(unary=whoami)) as running:
        assert await call_unary(running) == LOCAL_TENANT.org_id
        acme = [("cw-org", "acme"), ("cw-user", "u"), ("cw-plan", "free")]
        assert (await running.stub.unary(text("abc"), metadata=acme, timeout=5)).value == LOCAL_TENANT.org_id
        with use_tenant(Tenant("acme", "u", "free")), pytest.raises(Unauthenticated, match="CITEWIRE_CALLER_KEY"):
            await call_unary(running)


@pytest.mark.parametrize(
    "metadata",
    [
        [("cw-org", "acme"), ("cw-user", "u; drop"), ("cw-plan", "pro")],
        [("cw-org", "acme"), ("cw-user", "u"), ("cw-plan", "gold")],
        [("cw-org", "acme"), ("cw-plan", "pro")],
        [("cw-org", "acme"), ("cw-org", "other"), ("cw-user", "u"), ("cw-plan", "pro")],
        [("cw-org", "x" * 129), ("cw-user", "u"), ("cw-plan", "pro")],
    ],
)
async def test_unsigned_callers_are_refused_unless_an_upgrade_accepts_them(
    metadata: list[tuple[str, str]],
) -> None:
    async def whoami(_request: StringValue) -> StringValue:
        return text(current_tenant().org_id)

    signed, good = make_settings(auth="keys"), [("cw-org", "acme"), ("cw-user", "u"), ("cw-plan", "pro")]
    async with running_echo_service(EchoServicer(unary=whoami), signed) as running:
        for pairs in (good, metadata):
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await running.stub.unary(text("abc"), metadata=pairs, timeout=5)
            assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
    upgrade = signed.model_copy(update={"unsigned_callers": "accepted"})
    before = REGISTRY.get_sample_value("citewire_unsigned_calls_total") or 0.0
    async with running_echo_service(EchoServicer(unary=whoami), upgrade) as running:
        assert REGISTRY.get_sample_value("citewire_unsigned_callers_accepted") == 1.0
        assert (await running.stub.unary(text("abc"), metadata=good, timeout=5)).value == "acme"
        assert REGISTRY.get_sample_value("citewire_unsigned_calls_total") == before + 1
        with use_tenant(Tenant("other", "u", "pro")):
            assert await call_unary(running) == "other", "the signed claims win"
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await running.stub.unary(text("abc"), metadata=metadata, timeout=5)
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@all_shapes
async def test_our_errors_reach_the_client_complete(method: str) -> None:
    error = InvalidArgument(
        "top_k: must be between 1 and 200",
        reason="INVALID_FIELD",
        violations=[FieldViolation("top_k", "must be between 1 and 200")],
        metadata={"limit": "200"},
        retry_after=1.5,
    )
    before = handled(method, Code.INVALID_ARGUMENT)
    async with running_echo_service(failing_servicer(error)) as running:
        with pytest.raises(InvalidArgument) as raised:
            await CALLERS[method](running)
        assert raised.value.message == error.message
        assert raised.value.reason == error.reason
        assert raised.value.violations == error.violations
        assert raised.value.metadata == error.metadata
        assert raised.value.retry_after == 1.5
        assert handled(method, Code.INVALID_ARGUMENT) == before + 1


@all_shapes
async def test_other_exceptions_tell_the_client_nothing_and_the_log_everything(method: str) -> None:
    async with running_echo_service(failing_servicer(ValueError("password=hunter2"))) as running:
        with capture_logs() as logged, pytest.raises(Internal) as raised, use_request_id("request-7"):
            await CALLERS[method](running)
    assert raised.value.reason == "INTERNAL"
    assert "hunter2" not in f"{raised.value} {raised.value.metadata}"
    assert raised.value.metadata["request_id"] == "request-7"
    failed = next(event for event in logged if event["event"] == "rpc_failed")
    assert failed["log_level"] == "error"
    assert failed["exc_info"]


@all_shapes
async def test_a_cancellation_from_inside_does_not_leave_the_client_waiting(method: str) -> None:
    async with running_echo_service(failing_servicer(asyncio.CancelledError())) as running:
        with pytest.raises(Internal):
            await CALLERS[method](running)


@all_shapes
async def test_a_method_without_an_implementation_is_unimplemented(method: str) -> None:
    async with running_echo_service(failing_servicer(NotImplementedError("Method not implemented!"))) as running:
        with pytest.raises(Unimplemented) as raised:
            await CALLERS[method](running)
        assert raised.value.reason == "NOT_IMPLEMENTED"


async def test_an_unknown_method_is_unimplemented_and_makes_no_series() -> None:
    async with running_echo_service(EchoServicer()) as running:
        channel = signed_channel(f"127.0.0.1:{running.port}")
        unknown: Any = channel.unary_unary(f"/{SERVICE}/Nothing", StringValue.SerializeToString, StringValue.FromString)
        with pytest.raises(Unimplemented):
            await client.unary(unknown, text("x"), timeout=5)
        await channel.close()
    assert not any(
        sample.labels.get("grpc_method") == "Nothing" and sample.name.startswith("grpc_server")
        for family in REGISTRY.collect()
        for sample in family.samples
    )


async def test_a_request_that_cannot_be_parsed_is_the_callers_fault() -> None:
    async with running_echo_service(EchoServicer()) as running:
        channel = signed_channel(f"127.0.0.1:{running.port}")
        raw = cast("Any", channel).unary_unary(f"/{SERVICE}/Unary")
        with pytest.raises(InvalidArgument):
            await client.unary(raw, b"\xff\xff\xff", timeout=5)
        await channel.close()


async def test_details_stay_small_whatever_the_error_contains() -> None:
    error = InvalidArgument(
        "x" * 100_000,
        reason="INVALID_FIELD",
        violations=[FieldViolation(f"field_{i}", "ä" * 1000) for i in range(1000)],
        metadata={f"key{i}": "v" * 10_000 for i in range(100)},
    )
    async with running_echo_service(failing_servicer(error)) as running:
        with pytest.raises(InvalidArgument) as raised:
            await call_unary(running)
        assert 0 < len(raised.value.violations) < 1000
        assert int(raised.value.metadata["violations_left_out"]) == 1000 - len(raised.value.violations)


async def test_a_full_server_refuses_at_once_and_says_when_to_retry() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    async def wait(_request: StringValue) -> StringValue:
        entered.set()
        await release.wait()
        return text("done")

    before = handled("Unary", Code.RESOURCE_EXHAUSTED)
    async with running_echo_service(EchoServicer(unary=wait), max_concurrent=1) as running:
        first = asyncio.create_task(call_unary(running))
        await entered.wait()
        started = asyncio.get_running_loop().time()
        with pytest.raises(ResourceExhausted) as raised:
            await call_unary(running)
        assert asyncio.get_running_loop().time() - started < BUSY_SECONDS
        assert raised.value.reason == "OVERLOADED"
        assert raised.value.retry_after == 1.0
        assert handled("Unary", Code.RESOURCE_EXHAUSTED) == before + 1
        # Probes are still answered.
        assert await health_of(running.port) == health_pb2.HealthCheckResponse.SERVING
        release.set()
        assert await first == "done"
        assert await call_unary(running) == "done"


async def test_clients_get_the_servers_error_while_they_still_write() -> None:
    """An upload refused half-way: grpc.aio itself would often report INTERNAL instead."""

    async def endless() -> AsyncGenerator[StringValue]:
        while True:
            yield text("x" * 10_000)

    servicer = failing_servicer(ResourceExhausted("too large", reason="TOO_LARGE"))
    async with running_echo_service(servicer) as running:
        for _ in range(50):
            with pytest.raises(ResourceExhausted) as raised:
                await client.client_stream(running.stub.client_stream, endless(), timeout=5)
            assert raised.value.reason == "TOO_LARGE"
            with pytest.raises(ResourceExhausted) as raised:
                await drain(client.bidi(running.stub.bidi, endless(), timeout=5))
            assert raised.value.reason == "TOO_LARGE"


async def test_an_answer_before_the_end_of_the_requests_is_received_whole() -> None:
    async def endless() -> AsyncGenerator[StringValue]:
        while True:
            yield text("x" * 10_000)

    async def early(_requests: AsyncIterator[StringValue]) -> AsyncGenerator[StringValue]:
        for number in range(20):
            yield text(str(number))

    async def store(_requests: AsyncIterator[StringValue]) -> StringValue:
        return text("stored")

    async with running_echo_service(EchoServicer(bidi=early, client_stream=store)) as running:
        for _ in range(30):
            async with aclosing(client.bidi(running.stub.bidi, endless(), timeout=5)) as answers:
                assert [answer.value async for answer in answers] == [str(number) for number in range(20)]
            answer = await client.client_stream(running.stub.client_stream, endless(), timeout=5)
            assert answer.value == "stored"


async def test_errors_of_a_chain_keep_their_reason() -> None:
    """B's error reaches A's caller with B's reason if A doesn't handle it."""
    async with running_echo_service(failing_servicer(NotFound("no such model", reason="MODEL_NOT_FOUND"))) as b:

        async def ask_b(request: StringValue) -> StringValue:
            return await client.unary(b.stub.unary, request, timeout=5)

        async with running_echo_service(EchoServicer(unary=ask_b)) as a:
            with pytest.raises(CitewireError) as raised:
                await call_unary(a)
    assert raised.value.reason == "MODEL_NOT_FOUND"
    assert raised.value.code is Code.NOT_FOUND
