"""Resource use of ingest: memory for large files, speed relative to the embedder's own, ten thousand small files.

- `--only memory`: a file of each format, as large as its text may be, goes through a worker whose embedder costs
  nothing. Peak memory of the worker and of its reading processes, compared with those for an eighth of the file.
- `--only ceiling`: the chunks of a long document go to the running stack's embedder through the worker's own client, as
  fast as it accepts them; and such documents are uploaded. The ratio of both speeds, measured in turns.
- `--only small`: `citewire ingest` of a folder of small files into an empty library; the rates of the first and the
  last tenth, and the command's output meanwhile.

Usage: python -m benchmarks.ingest_steady [--only memory ceiling small] [--chars N] [--formats txt csv …]
[--long N] [--pairs N] [--files N]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import psycopg

from benchmarks.ratios import median_ratio
from benchmarks.tables import describe_machine, format_table
from callers import keyed_environment
from citewire_kit.channel import open_channel
from citewire_kit.tasks import end
from citewire_kit.tenant import LOCAL_TENANT, use_tenant
from citewire_retriever.ingest.chunker import chunk
from citewire_retriever.ingest.chunks import embedding_input
from citewire_retriever.ingest.embedder_client import GrpcEmbedder
from citewire_retriever.ingest.model import ModelWindow
from citewire_retriever.ingest.parsers import parse
from citewire_retriever.ingest.settings import WorkerSettings
from embedded_postgres import EmbeddedPostgres, start_embedded_postgres
from fake_embedding import FakeModel
from ingest_files import make_pdf, prose_page
from ingest_harness import IngestHarness, embedder_address
from local_stack import LocalStack, local_stack
from zip_packages import docx, package, paragraph, xlsx

MIB = 1024 * 1024
CHARS = 3_000_000
"""Out of the 32,000,000 that a document may have: ten formats of that size take hours, `--formats txt` minutes."""
PAGES = 9_900
WINDOW = 256
DATABASE = "steady"
CLEAR_PEAK = "5"
"""The value for `/proc/PID/clear_refs` that resets the peak (proc(5))."""
WAIT_SECONDS = 570.0
_numbers = itertools.count(time.time_ns())


def main() -> int:
    """Prints the tables; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--chars", type=int, default=CHARS, help="characters of a large file (default: %(default)s)")
    parser.add_argument("--formats", nargs="+", choices=_LARGE, default=list(_LARGE))
    parser.add_argument("--long", type=int, default=150_000, help="characters of a long one (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=6, help="of embedding and ingesting (default: %(default)s)")
    parser.add_argument("--files", type=int, default=10_000, help="small files (default: %(default)s)")
    options = parser.parse_args()
    print(f"{describe_machine()}; load {os.getloadavg()[0]:.1f}", flush=True)
    for name in options.only:
        print(f"\n{format_table(*asyncio.run(_PARTS[name](options)))}", flush=True)
    return 0


Table = tuple[Sequence[str], Sequence[Sequence[object]]]


# Memory


@dataclass(frozen=True, slots=True)
class Peaks:
    """The peak memory for one file."""

    chunks: int
    seconds: float
    worker: float
    """Peak MiB of the worker."""
    readers: float
    """Peak MiB of its reading processes together."""


async def measure_memory(options: argparse.Namespace) -> Table:
    """Ingests an eighth of each large file, and the whole file."""
    rows: list[Sequence[object]] = []
    with start_embedded_postgres() as server:
        async with embedder_address(FakeModel(window=WINDOW)) as embedder:
            for suffix in options.formats:
                data = [_LARGE[suffix](options.chars // part) for part in (8, 1)]
                # A new worker for each, so that one format's leftovers don't count for the next.
                async with _worker(server, embedder) as (harness, worker):
                    small, large = [await _peaks(harness, worker, f"large.{suffix}", file) for file in data]
                rows.append(
                    (
                        suffix,
                        len(data[1]) / MIB,
                        large.chunks,
                        large.seconds,
                        small.worker,
                        large.worker,
                        small.readers,
                        large.readers,
                    )
                )
                print(f"{suffix} done", file=sys.stderr, flush=True)
    names = ("worker, an eighth", "worker, all", "readers, an eighth", "readers, all")
    return ("format", "MiB", "chunks", "seconds", *(f"{name}: MiB" for name in names)), rows


@asynccontextmanager
async def _worker(server: EmbeddedPostgres, embedder: str) -> AsyncGenerator[tuple[IngestHarness, psutil.Process]]:
    """A separate database and worker."""
    name = f"{DATABASE}_{next(_numbers)}"
    server.create_database(name)
    migrate = {**os.environ, "CITEWIRE_RETRIEVER_MIGRATE_DSN": server.dsn("postgres", name)}
    command = [sys.executable, "-m", "citewire_retriever"]
    await asyncio.to_thread(subprocess.run, [*command, "migrate"], env=migrate, check=True, capture_output=True)
    environment = {
        **os.environ,
        **keyed_environment("worker"),
        "CITEWIRE_WORKER_DSN": server.dsn("citewire_worker", name),
        "CITEWIRE_WORKER_EMBEDDER_TARGET": embedder,
        "CITEWIRE_WORKER_METRICS_PORT": "0",
        "CITEWIRE_WORKER_CONFINEMENT": "available",
        "CITEWIRE_LOG_LEVEL": "ERROR",
    }
    process = await asyncio.create_subprocess_exec(*command, "worker", env=environment)
    try:
        async with IngestHarness.open(_Named(server, name)) as harness:
            yield harness, psutil.Process(process.pid)
    finally:
        process.terminate()
        await process.wait()


@dataclass(frozen=True, slots=True)
class _Named:
    """A database of a server."""

    server: EmbeddedPostgres
    name: str

    def dsn(self, role: str) -> str:
        """Its connection string for a role."""
        return self.server.dsn(role, self.name)


async def _peaks(harness: IngestHarness, worker: psutil.Process, name: str, data: bytes) -> Peaks:
    """Uploads a file and watches until it is ready."""
    Path(f"/proc/{worker.pid}/clear_refs").write_text(CLEAR_PEAK)  # noqa: ASYNC240 # no file on a disk
    readers = [0.0]
    watching = asyncio.create_task(_watch(worker, readers))
    began = time.perf_counter()
    try:
        document_id = await harness.upload(name, data)
        row = await harness.until(document_id, "ready", seconds=WAIT_SECONDS)
    finally:
        await end(watching)
    lines = Path(f"/proc/{worker.pid}/status").read_text().splitlines()  # noqa: ASYNC240 # no file on a disk
    (peak,) = [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")]
    return Peaks(row["chunks"], time.perf_counter() - began, peak, max(readers))


async def _watch(worker: psutil.Process, readers: list[float]) -> None:
    """Samples the memory of the worker's children repeatedly, as each lives for only one file."""
    while True:
        total = 0
        for child in worker.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                total += child.memory_info().rss
        readers.append(total / MIB)
        await asyncio.sleep(0.02)


def _words(size: int, start: str = "") -> str:
    """Prose of this many characters, without repeated sentences."""
    number, parts, length = next(_numbers), [start], len(start)
    for sentence in itertools.count():
        parts.append(
            f"Sentence {sentence} of paper {number} says that the harbour was closed for {sentence % 365} days."
        )
        length += len(parts[-1]) + 1
        if length >= size:
            return ("\n\n" if sentence > 10 else " ").join(parts)
    raise AssertionError


def _rows(size: int) -> list[tuple[str, ...]]:
    """Rows of a table, with this many characters."""
    number = next(_numbers)
    return [(f"item {number} {row}", str(row), f"note {row % 97} of row {row}") for row in range(size // 70)]


def _markdown(size: int) -> bytes:
    parts = max(1, size // 100_000)
    return "\n\n".join(_words(size // parts, f"# Part {part}") for part in range(parts)).encode()


def _csv(size: int) -> bytes:
    return "\n".join(",".join(row) for row in [("Name", "Amount", "Note"), *_rows(size)]).encode()


def _xlsx(size: int) -> bytes:
    rows = [("Name", "Amount", "Note"), *_rows(size)]
    cell = '<c t="inlineStr"><is><t>{}</t></is></c>'
    return xlsx("".join(f"<row>{''.join(cell.format(value) for value in row)}</row>" for row in rows))


def _pdf(size: int) -> bytes:
    """At most as many pages as a document may have."""
    pages, number = min(PAGES, size // 3000), next(_numbers)
    text = [f"Line {line} of {number} tells what the keeper saw that night, and why." for line in range(40)]
    return make_pdf([prose_page(f"Page {page} of {number}", [text]) for page in range(pages)])


def _mail(size: int) -> bytes:
    head = 'Subject: Papers\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="m"\n\n'
    part = '--m\nContent-Type: text/plain; name="a.txt"\nContent-Disposition: attachment\n\n'
    return f"{head}{''.join(part + _words(size // 4) + chr(10) for _ in range(4))}--m--\n".encode()


_LARGE: dict[str, Callable[[int], bytes]] = {
    "txt": lambda size: _words(size).encode(),
    "md": _markdown,
    "html": lambda size: f"<html><body><p>{_words(size).replace(chr(10) * 2, '</p><p>')}</p></body></html>".encode(),
    "csv": _csv,
    "xlsx": _xlsx,
    "jsonl": lambda size: "\n".join(json.dumps({"name": a, "sum": b, "note": c}) for a, b, c in _rows(size)).encode(),
    "pdf": _pdf,
    "docx": lambda size: docx("".join(paragraph(text) for text in _words(size).split("\n\n"))),
    "eml": _mail,
    "zip": lambda size: package({f"{part}.txt": _words(size // 10) for part in range(10)}),
}
"""Files by suffix; the argument is the approximate number of characters of text."""


# The embedder's own ceiling


async def measure_ceiling(options: argparse.Namespace) -> Table:
    """Embeds the chunks of long documents directly, and uploads such documents, in turns."""
    with tempfile.TemporaryDirectory() as folder, local_stack(_readable(folder)) as stack:
        settings = WorkerSettings.model_validate(
            {"dsn": "-", "auth": "off", "caller_key": stack.data_dir / "callers" / "worker.pem"}
        )
        channel = open_channel(stack.environment["CITEWIRE_WORKER_EMBEDDER_TARGET"], signer=settings.signer())
        embedder = GrpcEmbedder(channel, batch_seconds=settings.embed_seconds)
        async with httpx.AsyncClient(base_url=stack.base_url, trust_env=False, timeout=120) as http:
            await _ingest(stack, http, [b"Loads what the first of its kind needs."])
            shares, alone, uploads = list[float](), list[float](), list[float]()
            for pair in range(options.pairs):
                documents = [_words(options.long).encode() for _ in range(settings.concurrency)]
                with use_tenant(LOCAL_TENANT):
                    window = await embedder.window("")
                    batches = [await _cut(embedder, window, settings, data) for data in documents]
                    tokens = sum(sum(counts) for _, counts in batches)
                    seconds = [0.0, 0.0]
                    for way in (0, 1) if pair % 2 == 0 else (1, 0):
                        if way == 0:
                            seconds[way] = await _embed(embedder, window, [texts for texts, _ in batches])
                        else:
                            seconds[way] = await _ingest(stack, http, documents)
                alone.append(tokens / seconds[0])
                uploads.append(tokens / seconds[1])
                shares.append(seconds[0] / seconds[1])
        await channel.close()
    share = median_ratio(shares)
    rows = [
        ("embedder alone: tokens a second", round(statistics.median(alone))),
        ("uploads until they are ready: tokens a second", round(statistics.median(uploads))),
        ("share: median of pairs, 95 % interval", f"{share.median:.2f} ({share.low:.2f}–{share.high:.2f})"),
    ]
    return ("what", "how much"), rows


async def _cut(
    embedder: GrpcEmbedder, window: ModelWindow, settings: WorkerSettings, data: bytes
) -> tuple[list[list[str]], list[int]]:
    """A document's batches from the worker, and the tokens of its chunks."""
    document = parse(data, "long.txt")

    async def count(texts: Sequence[str]) -> list[int]:
        return await embedder.count(window, texts)

    chunks = await chunk(document, "long.txt", settings.rules(window.max_tokens), count)
    texts = [embedding_input(chunk.header, chunk.text) for chunk in chunks]
    most = settings.batch_chunks
    return [texts[at : at + most] for at in range(0, len(texts), most)], await count(texts)


async def _embed(embedder: GrpcEmbedder, window: ModelWindow, documents: Sequence[list[list[str]]]) -> float:
    """Seconds for only embedding the documents, all at once."""

    async def embed(batches: list[list[str]]) -> None:
        async with aclosing(embedder.embed(window, batches)) as answers:
            async for _ in answers:
                pass

    began = time.perf_counter()
    await asyncio.gather(*(embed(batches) for batches in documents))
    return time.perf_counter() - began


async def _ingest(stack: LocalStack, http: httpx.AsyncClient, documents: Sequence[bytes]) -> float:
    """Seconds from the first upload until all documents are ready."""

    async def upload(data: bytes) -> int:
        response = await http.post("/v1/documents", files={"file": ("long.txt", data)})
        return int(response.raise_for_status().json()["id"])

    began = time.perf_counter()
    ids = await asyncio.gather(*(upload(data) for data in documents))
    async with IngestHarness.open(stack) as harness:
        for document_id in ids:
            await harness.until(document_id, "ready", seconds=WAIT_SECONDS)
    return time.perf_counter() - began


# Small files


async def measure_small(options: argparse.Namespace) -> Table:
    """Ingests a folder with the command."""
    with tempfile.TemporaryDirectory() as folder, local_stack(_readable(folder)) as stack:
        files = Path(folder) / "files"
        await asyncio.to_thread(_write_small, files, options.files)
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "citewire_cli", "ingest", str(files), "--url", stack.base_url),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        errors = (await process.communicate())[1].decode()
        seconds = time.perf_counter() - began
        with psycopg.connect(stack.dsn()) as connection:
            query = "SELECT extract(epoch FROM finished_at) FROM corpus.versions WHERE status = 'ready' ORDER BY 1"
            ends: list[float] = [float(row[0]) for row in connection.execute(query)]
    if process.returncode or len(ends) != options.files:
        raise RuntimeError(f"only {len(ends)} of {options.files} files are ready:\n{errors[-2000:]}")
    tenth = int(options.files) // 10
    first: float = tenth / (ends[tenth] - ends[0])
    last: float = tenth / (ends[-1] - ends[-1 - tenth])
    lines = [line for line in errors.splitlines() if "left" in line]
    rows = [
        ("files", options.files),
        ("files a second, from the command's start to its end", f"{options.files / seconds:.1f}"),
        (f"files a second, the first {tenth} after the first", f"{first:.1f}"),
        (f"files a second, the last {tenth}", f"{last:.1f}"),
        ("last to first", f"{last / first:.2f}"),
        ("the command, half-way", lines[len(lines) // 2].strip() if lines else "–"),
    ]
    return ("what", "how much"), rows


def _write_small(folder: Path, count: int) -> None:
    for number in range(count):
        path = folder / f"{number // 1000}" / f"note{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Note {number}\n\nThe pump of hall {number % 89} was serviced on day {number}.\n")


def _readable(folder: str) -> Path:
    """A stack's data folder; as root, Postgres runs as another user."""
    Path(folder).chmod(0o755)
    return Path(folder) / "data"


_PARTS: dict[str, Callable[[argparse.Namespace], Coroutine[None, None, Table]]] = {
    "memory": measure_memory,
    "ceiling": measure_ceiling,
    "small": measure_small,
}

if __name__ == "__main__":
    sys.exit(main())
