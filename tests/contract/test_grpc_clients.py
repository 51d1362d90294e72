"""`citewire_client.services` against gRPC servers that require signed callers."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from citewire.embedder.v1 import embedder_pb2
from citewire.embedder.v1.embedder_pb2_grpc import add_EmbedderServiceServicer_to_server
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import corpus_pb2, retriever_pb2

from callers import KEY
from certificates import Authority, files_in
from citewire_client import (
    AuthenticationError,
    ConnectionFailedError,
    InvalidRequestError,
    PermissionDeniedError,
    RateLimitError,
    TimedOutError,
    UnavailableError,
)
from citewire_client.services import (
    AsyncCorpusClient,
    AsyncEmbedderClient,
    AsyncGeneratorClient,
    AsyncRetrieverClient,
    Caller,
    CallerKey,
    EmbedderClient,
    GeneratorClient,
    RetrieverClient,
    Tls,
    TokenFile,
)
from citewire_client.services.channels import options as client_options
from citewire_client.services.channels import service_config as client_config
from citewire_kit import channel
from citewire_kit.callers.__main__ import make_keys
from citewire_kit.errors import FieldViolation, InvalidArgument, ResourceExhausted, Unavailable
from citewire_kit.server import GrpcServer
from citewire_kit.settings import ServiceSettings
from citewire_kit.tenant import Tenant, current_tenant
from gateway_fake_servers import Fakes, running_fakes, servicer_of
from gateway_fakes import FakeEmbedder, completed, delta, started
from scripts.service_clients import TARGET, module

ANNA = Caller("acme", "anna", plan="pro", roles=("reader",), groups=("sales",))
SIGNER = CallerKey("citewire-gateway", KEY)
ASKED = generator_pb2.GenerateRequest(question="Why?")
pytestmark = pytest.mark.usefixtures("fakes")


@pytest.fixture
async def fakes() -> AsyncIterator[Fakes]:
    async with running_fakes() as running:
        yield running


@pytest.fixture
async def generator(fakes: Fakes) -> AsyncIterator[AsyncGeneratorClient]:
    async with AsyncGeneratorClient(fakes.target("generator"), signer=SIGNER, caller=ANNA) as client:
        yield client


def test_channels_have_the_options_of_our_own_processes() -> None:
    ours, theirs = json.loads(channel.service_config()), json.loads(client_config())
    for config in (ours, theirs):
        config["methodConfig"][0]["name"].sort(key=str)
    assert ours == theirs
    for streams in (False, True):
        matched = dict(client_options(streams=streams))
        expected = dict(channel._options(streams=streams, idempotent=channel.IDEMPOTENT))  # pyright: ignore[reportPrivateUsage] # to compare with
        assert matched | {"grpc.service_config": ""} == expected | {"grpc.service_config": ""}


def test_the_clients_have_every_call_of_the_contracts() -> None:
    assert TARGET.read_text(encoding="utf-8") == module(), "run `make proto`"


@pytest.mark.client("citewire-client", "Services over gRPC: each call signed for its caller")
async def test_each_call_is_made_for_its_caller(fakes: Fakes) -> None:
    callers: list[Tenant] = []

    async def script(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        callers.append(current_tenant())
        yield completed()

    fakes.generator.script = script
    bob = Caller("globex", "bob", roles=("editor",))
    async with AsyncGeneratorClient(fakes.target("generator"), signer=SIGNER, caller=ANNA) as client:
        for caller in (None, bob, ANNA):
            async with client.generate(ASKED, caller=caller) as stream:
                assert [message.WhichOneof("event") async for message in stream] == ["completed"]
    assert [(tenant.org_id, tenant.user_id, tenant.roles, tenant.groups) for tenant in callers] == [
        ("acme", "anna", ("reader",), ("sales",)),
        ("globex", "bob", ("editor",), ()),
        ("acme", "anna", ("reader",), ("sales",)),
    ]


async def test_an_unsigned_call_is_refused(fakes: Fakes) -> None:
    async with AsyncEmbedderClient(fakes.target("embedder")) as client:
        with pytest.raises(AuthenticationError):
            await client.list_models(embedder_pb2.ListModelsRequest())
    async with AsyncEmbedderClient(fakes.target("embedder"), signer=SIGNER) as client:
        with pytest.raises(ValueError, match="pass `caller` to the client"):
            await client.list_models(embedder_pb2.ListModelsRequest())


@pytest.mark.client("citewire-client", "Services over gRPC: its own error classes, with the invalid fields")
async def test_errors_have_kinds_and_fields(fakes: Fakes, generator: AsyncGeneratorClient) -> None:
    errors: list[Exception] = []

    async def script(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        raise errors.pop()

    wrong = [FieldViolation("question", "must not be empty"), FieldViolation("passages[3].text", "must not be empty")]
    fakes.generator.script = script

    async def ended_by(error: Exception) -> None:
        errors.append(error)
        async with generator.generate(ASKED) as stream:
            async for _ in stream:
                pass

    with pytest.raises(InvalidRequestError, match="question and a passage are empty") as invalid:
        await ended_by(InvalidArgument("question and a passage are empty", reason="INVALID_FIELD", violations=wrong))
    assert [(field.field, field.message) for field in invalid.value.errors] == [
        ("question", "must not be empty"),
        ("passages[3].text", "must not be empty"),
    ]
    assert (invalid.value.status, invalid.value.reason) == (422, "INVALID_FIELD")
    with pytest.raises(RateLimitError) as limited:
        await ended_by(ResourceExhausted("too many", reason="RATE_LIMITED", retry_after=2.5))
    assert (limited.value.status, limited.value.retry_after) == (429, 2.5)
    with pytest.raises(UnavailableError, match="the model provider went away"):
        await ended_by(Unavailable("the model provider went away", reason="PROVIDER_UNAVAILABLE"))


@pytest.mark.client("citewire-client", "Services over gRPC: leaving a stream stops the model")
async def test_leaving_a_stream_ends_its_call(fakes: Fakes, generator: AsyncGeneratorClient) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        try:
            yield started((1, 0))
            begun.set()
            while True:
                yield delta("word ")
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    fakes.generator.script = endless
    async with generator.generate(ASKED) as stream:
        async for message in stream:
            if message.WhichOneof("event") == "delta":
                break
    async with asyncio.timeout(20):
        await ended.wait()
    begun.clear()
    ended.clear()

    async def read() -> None:
        async with generator.generate(ASKED) as stream:
            async for _ in stream:
                pass

    reading = asyncio.create_task(read())
    async with asyncio.timeout(20):
        await begun.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await ended.wait()


async def test_a_stream_is_entered_before_it_is_read(generator: AsyncGeneratorClient) -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await anext(generator.generate(ASKED))


async def test_an_unreachable_server_differs_from_a_late_one(fakes: Fakes, generator: AsyncGeneratorClient) -> None:
    async def silent(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        await asyncio.sleep(60)
        yield completed()

    fakes.generator.script = silent
    with pytest.raises(TimedOutError):
        async with generator.generate(ASKED, timeout=0.3) as stream:
            await anext(stream)
    await fakes.kill("embedder")
    async with AsyncEmbedderClient(fakes.target("embedder"), signer=SIGNER, caller=ANNA) as client:
        with pytest.raises((ConnectionFailedError, UnavailableError)):
            await client.list_models(embedder_pb2.ListModelsRequest(), timeout=5)


async def test_an_error_in_the_callers_requests_is_raised(fakes: Fakes) -> None:
    async def pieces() -> AsyncGenerator[corpus_pb2.UploadDocumentRequest, None]:
        yield corpus_pb2.UploadDocumentRequest()
        raise OSError("the disk went away")

    async with AsyncCorpusClient(fakes.target("retriever"), signer=SIGNER, caller=ANNA) as client:
        with pytest.raises(OSError, match="the disk went away"):
            await client.upload_document(pieces())


@pytest.mark.client("citewire-client", "Services over gRPC, without asyncio")
async def test_the_synchronous_clients(fakes: Fakes) -> None:
    async def answers(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("By 12 %.")
        yield completed()

    fakes.generator.script = answers

    def calls() -> tuple[list[str | None], int]:
        with GeneratorClient(fakes.target("generator"), signer=SIGNER, caller=ANNA) as generator:
            with generator.generate(ASKED) as stream:
                events = [message.WhichOneof("event") for message in stream]
        with RetrieverClient(fakes.target("retriever"), signer=SIGNER, caller=ANNA) as retriever:
            matched = retriever.search(
                retriever_pb2.SearchRequest(query="x", top_k=5, mode=retriever_pb2.SEARCH_MODE_LEXICAL)
            )
        with EmbedderClient(fakes.target("embedder")) as embedder, pytest.raises(AuthenticationError):
            embedder.list_models(embedder_pb2.ListModelsRequest())
        return events, len(matched.results)

    events, results = await asyncio.to_thread(calls)
    assert events == ["started", "delta", "completed"]
    assert results == len(fakes.retriever.results)


async def test_a_search_finds_what_the_retriever_has(fakes: Fakes) -> None:
    async with AsyncRetrieverClient(fakes.target("retriever"), signer=SIGNER, caller=ANNA) as client:
        request = retriever_pb2.SearchRequest(query="x", top_k=5, mode=retriever_pb2.SEARCH_MODE_LEXICAL)
        assert len((await client.search(request, request_id="r-1")).results) == len(fakes.retriever.results)


@pytest.mark.client("citewire-client", "Services over gRPC: mutual TLS, with each call bound to the certificate")
async def test_tokens_are_bound_to_the_certificate(tmp_path: Path) -> None:
    authority = Authority()
    for name in ("localhost", "reports", "other"):
        authority.issue(tmp_path / name, name)
    keys, files = tmp_path / "keys", files_in(tmp_path / "localhost")
    make_keys(keys, {"reports": ("acme",), "other": ()})
    settings = ServiceSettings(
        port=0, metrics_port=0, leave_seconds=0, caller_issuers=keys / "issuers.json",
        tls_cert=files.cert, tls_key=files.key, tls_ca=files.ca,
    )  # fmt: skip
    server = GrpcServer(settings, service="embedder")
    name = "citewire.embedder.v1.EmbedderService"
    register: Any = add_EmbedderServiceServicer_to_server
    server.add(register, servicer_of(name, FakeEmbedder()), name)
    target = f"localhost:{await server.start()}"
    server.set_serving(True)
    signer = CallerKey("citewire-reports", keys / "reports.pem")
    request = embedder_pb2.EmbedRequest(inputs=["x"])
    try:
        own, others = (_tls(tmp_path / name) for name in ("reports", "other"))
        async with AsyncEmbedderClient(target, signer=signer, caller=ANNA, tls=own) as client:
            assert len((await client.embed(request)).vectors) > 0
            with pytest.raises(PermissionDeniedError):
                await client.embed(request, caller=Caller("globex", "bob"))
        async with AsyncEmbedderClient(target, signer=signer, caller=ANNA, tls=others) as client:
            with pytest.raises((AuthenticationError, PermissionDeniedError)):
                await client.embed(request)
        # A stolen token is worth nothing under another certificate.
        stolen = tmp_path / "token"
        stolen.write_text(signer.token("embedder", ANNA, own.certificate.read_bytes()))
        for tls, taken in ((own, True), (others, False)):
            async with AsyncEmbedderClient(target, signer=TokenFile(stolen), caller=ANNA, tls=tls) as client:
                if taken:
                    await client.embed(request)
                    continue
                with pytest.raises((AuthenticationError, PermissionDeniedError)):
                    await client.embed(request)
    finally:
        await server.drain_and_stop()


def _tls(folder: Path) -> Tls:
    files = files_in(folder)
    return Tls(files.ca, files.cert, files.key)


def test_a_replaced_key_is_picked_up(tmp_path: Path) -> None:
    make_keys(tmp_path, {"old": (), "new": ()})
    file = tmp_path / "key.pem"
    file.write_bytes((tmp_path / "old.pem").read_bytes())
    signer = CallerKey("me", file)
    first = signer.token("embedder", ANNA, b"")
    assert signer.token("embedder", ANNA, b"") == first
    file.write_text("half of a ke")
    os.utime(file, ns=(1, 1))
    assert signer.token("embedder", ANNA, b"") == first
    file.write_bytes((tmp_path / "new.pem").read_bytes())
    os.utime(file, ns=(2, 2))
    assert (
        jwt.get_unverified_header(signer.token("embedder", ANNA, b""))["kid"] != jwt.get_unverified_header(first)["kid"]
    )


def test_an_invalid_key_file_is_named(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no key")
    with pytest.raises(ValueError, match=r"wrong\.pem isn't a private key"):
        CallerKey("me", wrong)
