"""Runs a data set through the HTTP API: ingests the corpus, asks every query, computes the measures."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar, cast

import httpx

from citewire_cli.evaluation.beir import BeirDataset, BeirDocument

T = TypeVar("T")
Mode = Literal["dense", "lexical", "hybrid"]
Progress = Callable[[str, int, int], None]
"""Called with what is being done ("upload", "ingest", "search"), how many are done, and how many there are."""

_EVAL_ID = "eval_id"


class EvaluationError(Exception):
    """The run can't give a figure that means something."""


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The measures of one data set in one mode.

    Attributes:
        dataset: The data set's name.
        mode: How the search ranked.
        queries: Queries asked.
        documents: Documents in the collection.
        measures: Mean over queries by measure, as `ir_measures` writes their names (`nDCG@10`, `R@100`, …), each 0–1.
        latency_ms: p50 and p95 of one search over HTTP, in milliseconds.
    """

    dataset: str
    mode: str
    queries: int
    documents: int
    measures: dict[str, float]
    latency_ms: dict[str, float]


async def evaluate(
    client: httpx.AsyncClient,
    dataset: BeirDataset,
    *,
    modes: Iterable[Mode],
    top_k: int,
    concurrency: int,
    progress: Progress,
) -> list[EvaluationResult]:
    """Ingests what is missing of the corpus into a collection of its own, then measures each mode.

    Documents are the unit of judgement, so searches group by document: a document ranks by its best chunk.

    Raises:
        EvaluationError: Documents failed to ingest.
        httpx.HTTPStatusError: The gateway refused a request.
    """
    collection = f"eval-{dataset.name}-{dataset.fingerprint}"[:128]
    known = await _fill(client, collection, dataset.documents, concurrency, progress)
    results: list[EvaluationResult] = []
    for mode in modes:
        run, seconds = await _search_all(client, collection, dataset.queries, known, mode, top_k, concurrency, progress)
        results.append(
            EvaluationResult(
                dataset=dataset.name,
                mode=mode,
                queries=len(dataset.queries),
                documents=len(known),
                measures=measure(dataset.qrels, run),
                latency_ms={"p50": _quantile(seconds, 0.5) * 1e3, "p95": _quantile(seconds, 0.95) * 1e3},
            )
        )
    return results


def measure(qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]]) -> dict[str, float]:
    """Means over the judged queries; a query without results counts as 0."""
    import ir_measures  # an optional extra: only this command needs it, and it brings SciPy

    wanted = [ir_measures.nDCG @ 10, ir_measures.R @ 10, ir_measures.R @ 100, ir_measures.RR @ 10]
    values = ir_measures.calc_aggregate(wanted, qrels, run)  # pyright: ignore[reportUnknownMemberType]  # untyped there
    return {str(name): float(values[name]) for name in wanted}


async def _fill(
    client: httpx.AsyncClient,
    collection: str,
    documents: tuple[BeirDocument, ...],
    concurrency: int,
    progress: Progress,
) -> dict[int, str]:
    known = await _listed(client, collection)
    present = set(known.values())
    missing = [document for document in documents if document.eval_id not in present]
    done = len(documents) - len(missing)

    async def put(document: BeirDocument) -> None:
        nonlocal done
        known[await _put(client, collection, document)] = document.eval_id
        done += 1
        progress("upload", done, len(documents))

    await _for_each(missing, put, concurrency)
    await _wait_until_ready(client, collection, len(known), progress)
    return known


async def _put(client: httpx.AsyncClient, collection: str, document: BeirDocument) -> int:
    body = {
        "type": "article",
        "title": (document.title or document.eval_id)[:500],
        "content": document.text or document.title,
        "collection": collection,
        "metadata": {_EVAL_ID: document.eval_id},
    }
    key = hashlib.sha256(f"{collection}/{document.eval_id}".encode()).hexdigest()
    response = await client.post("/v1/documents", json=body, headers={"Idempotency-Key": key})
    response.raise_for_status()
    return int(response.json()["id"])


async def _listed(client: httpx.AsyncClient, collection: str) -> dict[int, str]:
    """Documents of the collection by id, with their ids in the data set."""
    known: dict[int, str] = {}
    token = ""
    while True:
        parameters = {"collection": collection, "page_size": "1000", "page_token": token}
        response = await client.get("/v1/documents", params=parameters)
        response.raise_for_status()
        page = response.json()
        for document in page["documents"]:
            metadata = cast("dict[str, object]", document.get("metadata") or {})
            eval_id = metadata.get(_EVAL_ID)
            if isinstance(eval_id, str):
                known[int(document["id"])] = eval_id
        token = page.get("next_page_token") or ""
        if not token:
            return known


async def _wait_until_ready(client: httpx.AsyncClient, collection: str, total: int, progress: Progress) -> None:
    while True:
        waiting = 0
        for status in ("pending", "processing"):
            waiting += await _count(client, collection, status, total)
        progress("ingest", total - waiting, total)
        if not waiting:
            break
        await asyncio.sleep(1)
    failed = await _count(client, collection, "failed", total)
    if failed:
        raise EvaluationError(f"{failed} of {total} documents failed to ingest; the figures would be too low")


async def _count(client: httpx.AsyncClient, collection: str, status: str, limit: int) -> int:
    count, token = 0, ""
    while count < limit:
        parameters = {"collection": collection, "status": status, "page_size": "1000", "page_token": token}
        response = await client.get("/v1/documents", params=parameters)
        response.raise_for_status()
        page = response.json()
        count += len(page["documents"])
        token = page.get("next_page_token") or ""
        if not token:
            break
    return count


async def _search_all(
    client: httpx.AsyncClient,
    collection: str,
    queries: dict[str, str],
    known: dict[int, str],
    mode: Mode,
    top_k: int,
    concurrency: int,
    progress: Progress,
) -> tuple[dict[str, dict[str, float]], list[float]]:
    run: dict[str, dict[str, float]] = {}
    seconds: list[float] = []

    async def search(query: tuple[str, str]) -> None:
        query_id, text = query
        body = {"query": text, "top_k": top_k, "mode": mode, "group_by": "document", "collection": collection}
        start = time.perf_counter()
        response = await client.post("/v1/search", json=body)
        seconds.append(time.perf_counter() - start)
        response.raise_for_status()
        hits = cast("list[dict[str, object]]", response.json()["results"])
        # The order is the server's; ranks, not scores, go into the run, so that equal scores can't be reordered.
        run[query_id] = {
            known[int(cast("int", hit["document_id"]))]: float(len(hits) - rank) for rank, hit in enumerate(hits)
        }
        progress("search", len(run), len(queries))

    await _for_each(queries.items(), search, concurrency)
    return run, seconds


async def _for_each(items: Iterable[T], work: Callable[[T], Awaitable[None]], concurrency: int) -> None:
    """Works on all items, `concurrency` at a time; the first failure ends the rest and is raised as it is."""
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
