"""Fuzzes the three gRPC services: each call gets an answer or a clear status, and nothing of other organisations.

Requests are made from the services' own descriptors, which reflection returns.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from citewire_kit.callers.signer import Signer
from citewire_kit.tenant import Tenant, use_tenant
from fuzz_target import ATTACKER, CANARY, HEALTH_CHECKS, FuzzTarget
from message_strategies import MessageMaker

if TYPE_CHECKING:
    from proof_scale import PrintTable, ProofScale

SECONDS = 5.0
"""Time limit of a call."""
SERVICES = ("embedder", "retriever", "generator")
CALLER = Tenant(ATTACKER, "ann", "pro", ("owner",))
OUR_FAULT = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.DATA_LOSS}


class Fuzzer:
    """Calls a service and checks its answers."""

    def __init__(self, channel: grpc.Channel, signer: Signer) -> None:
        self._channel, self._signer = channel, signer
        self.statuses: Counter[str] = Counter()
        self.failures: dict[tuple[str, str], str] = {}
        """The first call of each kind with a wrong result, by method and status."""

    def call(self, method: MethodDescriptor, requests: list[Message]) -> None:
        """Makes a call and reads its answer to the end."""
        status, printed = "OK", ""
        try:
            printed = self._call(method, requests)
        except grpc.RpcError as error:
            status, printed = error.code().name, f"{error.details()} {error.trailing_metadata()}"
        self.statuses[status] += 1
        if grpc.StatusCode[status] in OUR_FAULT or CANARY in printed or "Traceback" in printed:
            self.failures.setdefault((method.full_name, status), f"{requests}\n{printed[:2000]}")

    def _call(self, method: MethodDescriptor, requests: list[Message]) -> str:
        kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
        path = f"/{method.containing_service.full_name}/{method.name}"
        with use_tenant(CALLER):
            caller = self._signer.metadata(path)
        call: Any = getattr(self._channel, kind)(
            path,
            message_factory.GetMessageClass(method.input_type).SerializeToString,
            message_factory.GetMessageClass(method.output_type).FromString,
        )
        asked: Any = iter(requests) if method.client_streaming else requests[0]
        answer: Any = call(asked, timeout=SECONDS, metadata=caller)
        return "".join(map(repr, answer)) if method.server_streaming else repr(answer)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("service", SERVICES)
def test_no_call_breaks_a_service_or_reads_foreign_data(
    target: FuzzTarget, service: str, proof: ProofScale, print_table: PrintTable
) -> None:
    before = target.secrets()
    known = {
        "document_id": target.known.document_ids,
        "document_ids": target.known.document_ids,
        "chunk_id": target.known.chunk_ids,
        "chunk_ids": target.known.chunk_ids,
        "collection": target.known.names,
        "name": target.known.names,
        "vector": target.known.vectors,
        "model": [target.known.model],
        "revision": [target.known.revision],
        "question": ["What does the lighthouse keeper earn?"],
        "query": ["lighthouse keeper"],
        "dimensions": [len(target.known.vectors[0]) // 4],
    }
    with grpc.insecure_channel(f"127.0.0.1:{target.stack.ports('port')[service]}") as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        pool = DescriptorPool(database)
        fuzzer = Fuzzer(channel, Signer("citewire-gateway", target.stack.data_dir / "callers" / "gateway.pem"))
        for name in sorted(database.get_services()):
            for method in pool.FindServiceByName(name).methods if name.startswith("citewire.") else ():
                _fuzz(fuzzer, method, known, proof)
    statuses = [list(item) for item in sorted(fuzzer.statuses.items())]
    print_table(f"Calls of the {service} made from its descriptors", ["status", "calls"], statuses)
    assert not fuzzer.failures, "\n\n".join(f"{key}: {what}" for key, what in fuzzer.failures.items())
    assert target.secrets() == before
    assert fuzzer.statuses["OK"] > 0, "no call was valid"


def _fuzz(fuzzer: Fuzzer, method: MethodDescriptor, known: dict[str, Any], proof: ProofScale) -> None:
    message = MessageMaker(known).messages(method.input_type)
    most = 4 if method.client_streaming else 1

    @seed(proof.seed)
    @settings(
        max_examples=proof.pick(scaled_down=20, full=400),
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=HEALTH_CHECKS,
    )
    @given(requests=st.lists(message, min_size=1, max_size=most))
    def run(requests: list[Message]) -> None:
        fuzzer.call(method, requests)

    run()
