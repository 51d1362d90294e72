"""Every RPC of the three services against callers with forged credentials: each is refused before its handler runs.

The calls are those that the servers describe by reflection. The servicers behind them only record calls, so that a
call that reaches a handler is noticed whatever its answer.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from citewire.embedder.v1 import embedder_pb2_grpc
from citewire.generator.v1 import generator_pb2_grpc
from citewire.retriever.v1 import corpus_pb2_grpc, retriever_pb2_grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import citewire_retriever.ingest
from certificates import Authority, files_in
from citewire_kit.callers.__main__ import make_keys
from citewire_kit.callers.signer import SigningKey, sign
from citewire_kit.callers.token import thumbprint, to_claims
from citewire_kit.server import GrpcServer
from citewire_kit.settings import ServiceSettings
from citewire_kit.tenant import Tenant
from citewire_kit.tls_files import TlsFiles

SERVICES: dict[str, list[tuple[str, Callable[[Any, grpc.aio.Server], None]]]] = {
    "embedder": [("citewire.embedder.v1.EmbedderService", embedder_pb2_grpc.add_EmbedderServiceServicer_to_server)],
    "retriever": [
        ("citewire.retriever.v1.RetrieverService", retriever_pb2_grpc.add_RetrieverServiceServicer_to_server),
        ("citewire.retriever.v1.CorpusService", corpus_pb2_grpc.add_CorpusServiceServicer_to_server),
    ],
    "generator": [
        ("citewire.generator.v1.GeneratorService", generator_pb2_grpc.add_GeneratorServiceServicer_to_server)
    ],
}
INGEST = Path(citewire_retriever.ingest.__file__).parent
ACME, GLOBEX = Tenant("acme", "ann", "pro", ("owner",)), Tenant("globex", "eve", "pro", ("owner",))
REFUSED = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
Metadata = Sequence[tuple[str, str]]


@dataclass
class Recorder:
    """A servicer of any service that records the calls that reach it."""

    calls: list[str] = field(default_factory=list[str])

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 # any method
        async def answer(_request: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
            self.calls.append(name)
            await context.abort(grpc.StatusCode.DATA_LOSS, "it was reached")

        return answer


@dataclass(frozen=True)
class Attack:
    """A running service and an attacker's means: other issuers' keys and a certificate of the same authority."""

    service: str
    address: str
    keys: Path
    touched: Recorder
    certificates: dict[str, TlsFiles]

    def token(self, tenant: Tenant = GLOBEX, *, signer: str = "gateway", **claims: object) -> str:
        """A valid token of an issuer, except for the claims given."""
        now = int(time.time())
        start: dict[str, object] = {"iss": f"citewire-{signer}", "aud": f"citewire-{self.service}"}
        times: dict[str, object] = {"iat": now, "exp": now + 25}
        key = SigningKey.from_pem((self.keys / f"{signer}.pem").read_bytes())
        return sign(key, {**start, **times, **to_claims(tenant), **self._bound(signer), **claims})

    def _bound(self, certificate: str) -> dict[str, object]:
        files = self.certificates.get(certificate)
        return {} if files is None else {"cnf": {"x5t#S256": thumbprint(files.cert.read_bytes())}}

    def forgeries(self) -> dict[str, tuple[str, Metadata]]:
        """The certificate and metadata of each forged call, by what is wrong with it."""
        now, other = int(time.time()), "embedder" if self.service == "retriever" else "retriever"
        known = SigningKey.from_pem((self.keys / "gateway.pem").read_bytes())
        strange = SigningKey(Ed25519PrivateKey.generate(), known.key_id)
        plain = (("cw-org", "acme"), ("cw-user", "ann"), ("cw-plan", "pro"), ("cw-roles", "owner"))
        claims = {"iss": "citewire-gateway", "aud": f"citewire-{self.service}", "iat": now, "exp": now + 25}
        tokens = {
            "forged": ("gateway", sign(strange, claims | to_claims(ACME) | self._bound("gateway"))),
            "expired": ("gateway", self.token(ACME, iat=now - 60, exp=now - 35)),
            "for another service": ("gateway", self.token(ACME, aud=f"citewire-{other}")),
            "for another organisation": ("globex", self.token(ACME, signer="globex")),
            "as the gateway with another's key": ("globex", self.token(ACME, signer="globex", iss="citewire-gateway")),
            "not for this method": ("nobody", self.token(ACME, signer="nobody")),
            "of another certificate": ("gateway", self.token(ACME, cnf={"x5t#S256": "A" * 43})),
        }
        if self.certificates:  # a token copied from the gateway, and one sent under another certificate
            tokens["stolen"] = ("stranger", self.token(ACME))
            tokens["of an unknown certificate"] = (
                "stranger",
                self.token(GLOBEX, signer="globex", **self._bound("stranger")),
            )
            tokens["without a certificate"] = ("gateway", self.token(ACME, cnf={}))
        good = self.token(ACME)
        return {
            "unsigned": ("gateway", plain),
            "with nothing": ("gateway", ()),
            "twice": ("gateway", (("cw-caller", good), ("cw-caller", good))),
            **{wrong: (under, (*plain, ("cw-caller", token))) for wrong, (under, token) in tokens.items()},
        }

    def channel(self, certificate: str = "gateway") -> grpc.aio.Channel:
        """A channel under a certificate of the same authority."""
        files = self.certificates.get(certificate)
        if files is None:
            return grpc.aio.insecure_channel(self.address)
        pair = files.read()[1]
        return grpc.aio.secure_channel(self.address, grpc.ssl_channel_credentials(pair.ca, pair.key, pair.cert))


@asynccontextmanager
async def running_attack(service: str, folder: Path, *, tls: bool) -> AsyncGenerator[Attack]:
    """Runs a service that knows the gateway, the worker, an issuer for globex, and an issuer that may call nothing."""
    keys, certificates = folder / "keys", dict[str, TlsFiles]()
    make_keys(keys, {"gateway": (), "worker": (), "globex": ("globex",), "nobody": ()})
    _forbid_all(keys / "issuers.json", "citewire-nobody")
    if tls:
        authority = Authority()
        for name in ("localhost", "gateway", "worker", "globex", "nobody", "stranger"):
            authority.issue(folder / name, name)
            certificates[name] = files_in(folder / name)
    told: dict[str, object] = {"port": 0, "metrics_port": 0, "leave_seconds": 0, "drain_seconds": 0}
    if tls:
        files = certificates["localhost"]
        told |= {"tls_cert": files.cert, "tls_key": files.key, "tls_ca": files.ca}
    settings = ServiceSettings.model_validate({**told, "caller_issuers": keys / "issuers.json"})
    async with AsyncExitStack() as stack:
        server, touched = GrpcServer(settings, service=service), Recorder()
        for name, register in SERVICES[service]:
            server.add(register, touched, name)
        port = await server.start()
        stack.push_async_callback(server.drain_and_stop)
        server.set_serving(True)
        yield Attack(service, f"localhost:{port}", keys, touched, certificates)


def _forbid_all(path: Path, issuer: str) -> None:
    content = json.loads(path.read_bytes())
    content["issuers"][issuer]["methods"] = ["grpc.none.Service/Nothing"]
    path.write_text(json.dumps(content))


async def methods_of(channel: grpc.aio.Channel) -> list[tuple[str, str]]:
    """(path, shape) of every method that the server describes, except health and reflection."""
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(cast("Any", channel))  # typed for the synchronous API
    listed = await _ask(stub, reflection_pb2.ServerReflectionRequest(list_services=""))
    methods: list[tuple[str, str]] = []
    for service in listed.list_services_response.service:
        if service.name.startswith("grpc."):
            continue
        asked = reflection_pb2.ServerReflectionRequest(file_containing_symbol=service.name)
        for raw in (await _ask(stub, asked)).file_descriptor_response.file_descriptor_proto:
            file = FileDescriptorProto.FromString(raw)
            methods += [
                (f"/{file.package}.{descriptor.name}/{method.name}", _shape(method))
                for descriptor in file.service
                if f"{file.package}.{descriptor.name}" == service.name
                for method in descriptor.method
            ]
    return methods


async def _ask(stub: Any, request: Any) -> Any:  # noqa: ANN401 # reflection has no types
    call = stub.ServerReflectionInfo(iter([request]), timeout=10)
    return await call.read()


def _shape(method: Any) -> str:  # noqa: ANN401 # of a descriptor without types
    ways = {False: "unary", True: "stream"}
    return f"{ways[method.client_streaming]}_{ways[method.server_streaming]}"


async def status_of(channel: grpc.aio.Channel, path: str, shape: str, metadata: Metadata) -> grpc.StatusCode:
    """The status of a call with an empty request."""
    make: Any = getattr(channel, shape)
    # Nothing is streamed: a client still writing when the call ends may see grpc.aio's own error, not the status.
    requests = () if shape.startswith("stream") else (b"",)
    call = make(path)(*requests, metadata=metadata, timeout=20)
    return await call.code()


@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "mutual-tls"])
@pytest.mark.parametrize("service", SERVICES)
async def test_forged_calls_are_refused_and_signed_ones_answered(service: str, tls: bool, tmp_path: Path) -> None:
    async with running_attack(service, tmp_path, tls=tls) as attack:
        answers: dict[tuple[str, str], grpc.StatusCode] = {}
        async with attack.channel() as channel:
            methods = await methods_of(channel)
            assert {path.split("/")[1] for path, _ in methods} == {name for name, _ in SERVICES[service]}
        for wrong, (under, metadata) in attack.forgeries().items():
            async with attack.channel(under) as channel:
                for path, shape in methods:
                    answers[wrong, path] = await status_of(channel, path, shape, metadata)
        assert {call: code for call, code in answers.items() if code not in REFUSED} == {}
        assert attack.touched.calls == [], "the handlers"
        async with attack.channel() as channel:  # the same calls with a valid token are let through
            good = [("cw-caller", attack.token(ACME))]
            reached = {path: await status_of(channel, path, shape, good) for path, shape in methods}
            assert not REFUSED & set(reached.values()), reached
            assert sorted(attack.touched.calls) == sorted(path.split("/")[2] for path, _ in methods)


@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "mutual-tls"])
@pytest.mark.parametrize("service", SERVICES)
async def test_the_worker_may_call_only_what_its_code_calls(service: str, tls: bool, tmp_path: Path) -> None:
    source = "".join(path.read_text() for path in INGEST.rglob("*.py"))
    called = set(re.findall(r"_stub\.([A-Z]\w+)", source))
    async with running_attack(service, tmp_path, tls=tls) as attack, attack.channel("worker") as channel:
        metadata = [("cw-caller", attack.token(ACME, signer="worker"))]
        methods = await methods_of(channel)
        answers = {path: await status_of(channel, path, shape, metadata) for path, shape in methods}
    own = {name for path, _ in methods if service != "retriever" and (name := path.split("/")[2]) in called}
    assert set(attack.touched.calls) == own
    assert {path for path, code in answers.items() if code is not grpc.StatusCode.PERMISSION_DENIED} == {
        path for path in answers if path.split("/")[2] in own
    }
