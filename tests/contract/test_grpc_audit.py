"""A service's audit trail holds the calls of callers other than the gateway, and its lines can be verified."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from citewire.embedder.v1 import embedder_pb2_grpc
from citewire.generator.v1 import generator_pb2_grpc
from citewire.retriever.v1 import corpus_pb2, retriever_pb2
from citewire.retriever.v1.corpus_pb2_grpc import CorpusServiceStub
from citewire.retriever.v1.retriever_pb2_grpc import RetrieverServiceStub
from google.protobuf import descriptor_pool
from structlog.testing import capture_logs

from citewire_kit.audit_lines import check_lines
from citewire_kit.audit_rpcs import AUDITED_RPCS, UNAUDITED_RPCS
from citewire_kit.callers.__main__ import make_keys
from citewire_kit.callers.signer import Signer
from citewire_kit.channel import open_channel
from citewire_kit.tenant import Tenant, use_tenant
from retriever_process import running_retriever

if TYPE_CHECKING:
    from pathlib import Path

    from databases import Database

ANN = Tenant("acme", "ann", "pro", ("owner",), "key_1")
CANARY = "Goldammer8812"
SERVICES = ("embedder.v1.Embedder", "generator.v1.Generator", "retriever.v1.Retriever", "retriever.v1.Corpus")


def test_every_rpc_is_audited_or_exempt() -> None:
    assert embedder_pb2_grpc
    assert generator_pb2_grpc
    rpcs = {
        f"/citewire.{name}Service/{method.name}"
        for name in SERVICES
        for method in descriptor_pool.Default().FindServiceByName(f"citewire.{name}Service").methods
    }
    assert AUDITED_RPCS.keys() | UNAUDITED_RPCS == rpcs
    assert not AUDITED_RPCS.keys() & UNAUDITED_RPCS


async def call_as(issuer: str, key: Path, port: int) -> int:
    """Stores, searches and deletes a document, and asks for it afterwards."""
    channel = open_channel(f"127.0.0.1:{port}", signer=Signer(issuer, key))
    try:
        corpus, retriever = CorpusServiceStub(channel), RetrieverServiceStub(channel)
        with use_tenant(ANN):
            put = corpus_pb2.PutDocumentRequest(type="article", title=CANARY, content=CANARY)
            number = (await corpus.PutDocument(put)).document.document_id
            search = retriever_pb2.SearchRequest(query=CANARY, mode=retriever_pb2.SEARCH_MODE_LEXICAL, top_k=3)
            await retriever.Search(search)
            await corpus.DeleteDocument(corpus_pb2.DeleteDocumentRequest(document_id=number))
            with pytest.raises(grpc.aio.AioRpcError):
                await corpus.GetDocument(corpus_pb2.GetDocumentRequest(document_id=number))
        return number
    finally:
        await channel.close()


async def test_calls_of_other_services_are_audited_and_the_gateways_are_not(database: Database, tmp_path: Path) -> None:
    make_keys(tmp_path, {"gateway": (), "crm": ()})
    with capture_logs() as logs:
        async with running_retriever(database, caller_issuers=tmp_path / "issuers.json") as retriever:
            port = retriever.server.port
            assert port is not None
            await call_as("citewire-gateway", tmp_path / "gateway.pem", port)
            number = await call_as("citewire-crm", tmp_path / "crm.pem", port)
            channel = open_channel(f"127.0.0.1:{port}")
            with pytest.raises(grpc.aio.AioRpcError):  # an unsigned call
                await CorpusServiceStub(channel).ListDocuments(corpus_pb2.ListDocumentsRequest())
            await channel.close()
    blocks = [entry for entry in logs if entry["event"] == "audit_block"]
    events: list[Any] = [event for block in blocks for event in block["events"]]
    ann = ["acme", "ann", "key_1", "citewire-crm"]
    assert [(event[1:5], event[5], event[7], event[8]) for event in events] == [
        (ann, "document.create", "ok", ""),
        (ann, "search", "ok", ""),
        (ann, "document.delete", "ok", ""),
        (ann, "document.read", "failed", "DOCUMENT_NOT_FOUND"),
        (["?", "", "", ""], "document.list", "refused", "TENANT_MISSING"),
    ]
    document = [f"document:{number}"]
    assert [event[6] for event in events] == [document, [], document, document, []]
    assert {event[9] for event in events} == {"127.0.0.1"}
    assert all("grpc" in event[10] and event[11] for event in events)
    assert CANARY not in str(blocks)
    _tamper([json.dumps(entry) for entry in logs], tmp_path)


def _tamper(lines: list[str], folder: Path) -> None:
    """Verification finds a line that was changed, left out or rewritten."""
    report = check_lines(reversed([*lines, *lines, "no JSON, though it names audit_block: " + CANARY]))
    assert (report.problems, report.events, report.chains) == ([], 5, 1)
    block = next(line for line in lines if '"audit_block"' in line)
    others = [line for line in lines if line != block]
    values: dict[str, Any] = json.loads(block)
    assert check_lines([*others, block.replace('"ann"', '"eve"')]).problems
    assert check_lines([*others, json.dumps(values | {"events": values["events"][1:]})]).problems
    with pytest.raises(ValueError, match="line 1 isn't a block"):
        check_lines(['{"event": "audit_block"}'])
    head = {name: values[name] for name in ("process_id", "seq", "hash")}
    (folder / "heads").write_text(json.dumps(head))
    (folder / "log").write_text("\n".join(lines))
    (folder / "cut").write_text("\n".join(others))
    assert _verify(folder, "log") == (0, True)
    assert _verify(folder, "cut") == (1, False)


def _verify(folder: Path, name: str) -> tuple[int, bool]:
    command = [sys.executable, "-m", "citewire_gateway", "audit", "verify", "--json", "--heads", str(folder / "heads")]
    done = subprocess.run([*command, "--lines", str(folder / name)], capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)["whole"]
