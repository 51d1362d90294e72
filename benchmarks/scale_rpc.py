"""The large search benchmark's calls over gRPC: their times, and the recall that the retriever samples itself."""

from __future__ import annotations

import http.client
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import retriever_pb2 as pb
from citewire.retriever.v1.retriever_pb2_grpc import RetrieverServiceStub
from google.protobuf.json_format import ParseDict

from benchmarks.scale_data import ScaleData
from benchmarks.search_data import SPACE
from benchmarks.search_ways import SIGNER, retriever, tenant
from benchmarks.tables import format_table
from citewire_kit import client
from citewire_kit.channel import open_channel
from citewire_kit.server import run
from citewire_kit.tenant import use_tenant
from corpus_rows import Vectors

_SAMPLED = {"CITEWIRE_RETRIEVER_RECALL_SAMPLE_RATE": "0.5", "CITEWIRE_RETRIEVER_RECALL_SAMPLE_WAITING": "1000"}
_METRIC = re.compile(r'^citewire_search_sampled_recall_(sum|count)\{scope="(\w+)"\} (\S+)$', re.MULTILINE)


@dataclass(slots=True)
class Calls:
    """The results of one kind of call."""

    recall: list[float] = field(default_factory=list[float])
    """Recall of the calls that used the graph."""
    own: list[float] = field(default_factory=list[float])
    exact: list[float] = field(default_factory=list[float])


def measure_calls(data: ScaleData, vectors: Vectors) -> str:
    """Times whole calls, one after another, in the retriever's own way and exactly."""
    rows: list[list[object]] = []
    with retriever(data, {"CITEWIRE_RETRIEVER_RECALL_SAMPLE_RATE": "0"}) as port:
        for org in ("org1", "org3", "org6"):
            run(_ask(port, [org], [None], vectors))  # warms up connections, plans and caches
            calls = run(_ask(port, [org], [None], vectors))["whole"]
            own, exact = np.percentile(calls.own, [50, 95]), np.percentile(calls.exact, [50, 95])
            times = [float(value) for value in (*own, *exact)]
            rows.append([f"{data.sizes[org]:,}", *times, f"1/{times[2] / times[0]:.1f}"])
    headings = ["chunks of the tenant", "p50 ms", "p95 ms", "exact p50 ms", "exact p95 ms", "of exact p50"]
    return "Whole calls over gRPC\n\n" + format_table(headings, rows)


def measure_sampling(data: ScaleData, vectors: Vectors) -> str:
    """Has a retriever sample half of the searches, and compares its metric with the recall of all of them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        metrics = int(free.getsockname()[1])
    orgs = [org for org, size in data.sizes.items() if size > 5000]
    half: dict[str, object] = {
        "filter": {"comparison": {"field": "tags", "op": "OPERATOR_CONTAINS", "value": "share50"}}
    }
    with retriever(data, {**_SAMPLED, "CITEWIRE_RETRIEVER_METRICS_PORT": str(metrics)}) as port:
        calls = run(_ask(port, orgs, [None, half], vectors))
        sampled = _wait_for_samples(metrics)
    rows: list[list[object]] = []
    for scope, scope_calls in calls.items():
        full = float(np.mean(scope_calls.recall))
        total, count = sampled[scope]
        rows.append([scope, len(scope_calls.recall), f"{full:.4f}", int(count), f"{total / count:.4f}",
                     f"{total / count - full:+.4f}"])  # fmt: skip
    headings = ["scope", "searches by graph", "full recall@10", "sampled", "metric", "difference"]
    return "Sampled recall, rate 0.5, from /metrics\n\n" + format_table(headings, rows)


def _wait_for_samples(port: int) -> dict[str, tuple[float, float]]:
    """Reads the metric until it stops growing: samples are measured after the answers."""
    before: dict[str, tuple[float, float]] = {}
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        values = {(scope, part): float(value) for part, scope, value in _METRIC.findall(text)}
        now = {scope: (values[scope, "sum"], values[scope, "count"]) for scope in ("whole", "narrowed")}
        if now == before:
            return now
        before = now
        time.sleep(1)


async def _ask(
    port: int, orgs: Sequence[str], scopes: Sequence[dict[str, object] | None], vectors: Vectors
) -> dict[str, Calls]:
    space = common_pb2.EmbeddingSpace(model=SPACE.model, revision=SPACE.revision, dimensions=SPACE.dimensions)
    calls_by_scope = {"whole": Calls(), "narrowed": Calls()}
    async with open_channel(f"127.0.0.1:{port}", signer=SIGNER) as channel:
        stub = RetrieverServiceStub(channel)
        for org in orgs:
            for scope in scopes:
                calls = calls_by_scope["narrowed" if scope else "whole"]
                results: list[pb.SearchResponse] = []
                for exact, times in ((False, calls.own), (True, calls.exact)):
                    for place, vector in enumerate(vectors):
                        asked = pb.SearchRequest(
                            vector=vector.astype("<f4").tobytes(), space=space, keep_duplicates=True, exact=exact
                        )
                        if scope:
                            ParseDict(scope, asked.scope)
                        with use_tenant(tenant(org)):
                            begun = time.perf_counter()
                            response = await client.unary(stub.Search, asked, timeout=30)
                            times.append((time.perf_counter() - begun) * 1000)
                        if not exact:
                            results.append(response)
                        elif not results[place].exact:
                            exact_ids, ids = (_ids(answer) for answer in (response, results[place]))
                            calls.recall.append(len(exact_ids & ids) / max(1, len(exact_ids)))
    return calls_by_scope


def _ids(response: pb.SearchResponse) -> set[int]:
    return {result.chunk.chunk_id for result in response.results}
