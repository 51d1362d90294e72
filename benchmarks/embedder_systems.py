"""Starts the systems of the embedder benchmark, with one interface for all of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import psutil
from citewire.embedder.v1 import embedder_pb2 as pb
from citewire.embedder.v1.embedder_pb2_grpc import EmbedderServiceStub
from numpy.typing import NDArray

from citewire_embedder.providers.base import Precision
from citewire_embedder.providers.encoder import build_encoder
from citewire_embedder.providers.model_directory import ModelDirectory
from citewire_kit import client
from citewire_kit.channel import open_channel

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("torch==2.13.0", "sentence-transformers==6.2.0", "onnxruntime==1.31.1", "onnx==1.23.2", "numpy>=2")
HOME = ROOT / ".citewire-bench" / "embedder"
START_SECONDS = 300
STREAM_INPUTS = 32
_WORKER = "from benchmarks.embedder_worker import main; main()"


@dataclass(frozen=True, slots=True)
class Way:
    """The way of measuring: threads of a computation, and whether wall-clock or CPU seconds count."""

    threads: int
    clock: Literal["wall", "cpu"] = "wall"


class System(Protocol):
    """A system that embeds texts and reports the time."""

    def bulk(self, texts: Sequence[str]) -> float:
        """Seconds for all texts at once."""
        ...

    def queries(self, texts: Sequence[str]) -> list[float]:
        """Seconds for each text, one after the other."""
        ...

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The texts' vectors."""
        ...


class Worker:
    """A system in its own process; it measures itself, so that pipes and JSON don't count."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def bulk(self, texts: Sequence[str]) -> float:
        """Seconds for all texts at once."""
        return float(self.ask("bulk", texts)["seconds"][0])

    def queries(self, texts: Sequence[str]) -> list[float]:
        """Seconds for each text, one after the other."""
        return [float(seconds) for seconds in self.ask("queries", texts)["seconds"]]

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The texts' vectors."""
        return np.array(self.ask("vectors", texts)["vectors"], np.float32)

    def ask(self, op: str, texts: Sequence[str]) -> dict[str, Any]:
        """Sends one request and reads its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"op": op, "texts": list(texts)}) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Reads one answer; raises with the end of the log if there is none."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            msg = f"a worker ended:\n{self._log.read_text(encoding='utf-8', errors='replace')[-3000:]}"
            raise RuntimeError(msg)
        return json.loads(line)


@contextlib.contextmanager
def worker(system: str, directory: Path, graph: Path, way: Way) -> Generator[Worker]:
    """Runs one system of `embedder_worker` during the block; third-party ones in the benchmark's environment."""
    own = system in {precision.value for precision in Precision}
    python = sys.executable if own else str(HOME / "bin" / "python")
    log = HOME / f"{system}.log"
    command = [python, "-c", _WORKER, system, str(directory), str(graph), str(way.threads), way.clock]
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT
        )
    try:
        result = Worker(process, log)
        result.answer()
        yield result
    finally:
        process.terminate()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


class OverGrpc:
    """Our service through its API: `EmbedStream` in bulk, `Embed` for a query, over loopback."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stub: EmbedderServiceStub, now: Callable[[], float]) -> None:
        self._loop = loop
        self._stub = stub
        self._now = now

    def bulk(self, texts: Sequence[str]) -> float:
        """Seconds for all texts at once."""
        start = self._now()
        self._loop.run_until_complete(self._stream(texts))
        return self._now() - start

    def queries(self, texts: Sequence[str]) -> list[float]:
        """Seconds for each text, one after another. Repeated texts are answered from the cache."""
        seconds: list[float] = []
        for text in texts:
            start = self._now()
            request = pb.EmbedRequest(inputs=[text], purpose=pb.PURPOSE_QUERY)
            self._loop.run_until_complete(client.unary(self._stub.Embed, request, timeout=30))
            seconds.append(self._now() - start)
        return seconds

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The texts' vectors."""
        rows = self._loop.run_until_complete(self._stream(texts))
        return np.frombuffer(b"".join(rows), "<f4").reshape(len(texts), -1)

    async def _stream(self, texts: Sequence[str]) -> list[bytes]:
        async def batches() -> AsyncGenerator[pb.EmbedStreamRequest]:
            for at in range(0, len(texts), STREAM_INPUTS):
                batch = pb.EmbedRequest(inputs=texts[at : at + STREAM_INPUTS])
                yield pb.EmbedStreamRequest(batch_id=at, batch=batch)

        async with aclosing(client.bidi(self._stub.EmbedStream, batches(), timeout=300)) as answers:
            return [answer.batch.vectors async for answer in answers]


@contextlib.contextmanager
def over_grpc(way: Way) -> Generator[OverGrpc]:
    """Runs our service with its defaults during the block."""
    log = HOME / "grpc.log"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("CITEWIRE_")},
        "CITEWIRE_AUTH": "off",
        "CITEWIRE_EMBEDDER_PORT": "0",
        "CITEWIRE_EMBEDDER_METRICS_PORT": "0",
        "CITEWIRE_EMBEDDER_THREADS": str(way.threads),
        "CITEWIRE_EMBEDDER_LEAVE_SECONDS": "0",
    }
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "citewire_embedder"], stdout=errors, stderr=errors, env=environment, cwd=ROOT
        )
    try:
        port = _wait_until_ready(process, log)
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            channel = runner.run(_open(port))
            yield OverGrpc(loop, EmbedderServiceStub(channel), _clock(process.pid, way))
            runner.run(channel.close())
    finally:
        process.terminate()
        process.wait()


def write_graph(directory: ModelDirectory) -> Path:
    """Writes our graph for plain ONNX Runtime."""
    if directory.encoder is None:
        msg = "the benchmark needs a model whose graph we build"
        raise RuntimeError(msg)
    graph = build_encoder(directory.encoder, directory.load_weights(), directory.pooling)
    file = HOME / "model.onnx"
    file.write_bytes(graph.SerializeToString())
    return file


def install() -> None:
    """Creates the environment of the third-party systems, once: torch is several gigabytes and isn't in our lock."""
    done = HOME / "installed"
    if done.is_file() and done.read_text(encoding="utf-8") == "\n".join(PACKAGES):
        return
    print(f"installing {', '.join(PACKAGES)} into {HOME.relative_to(ROOT)} (once, several minutes) …", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", HOME], check=True)
    # pip instead of uv, because torch's CPU-only builds may be found through pip's own configuration.
    command = [HOME / "bin" / "python", "-m", "pip", "install", "-qq", "--disable-pip-version-check", *PACKAGES]
    subprocess.run(command, check=True)
    done.write_text("\n".join(PACKAGES), encoding="utf-8")


def _clock(pid: int, way: Way) -> Callable[[], float]:
    """The wall clock, or the CPU seconds of a process, without the client's own."""
    if way.clock == "wall":
        return time.perf_counter
    seen = psutil.Process(pid)

    def cpu_seconds() -> float:
        times = seen.cpu_times()
        return times.user + times.system

    return cpu_seconds


async def _open(port: int) -> Any:  # noqa: ANN401 # a channel's type is generic only in the stubs
    return open_channel(f"127.0.0.1:{port}")


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> int:
    """Follows the service's log until its model is ready, and returns its port."""
    port = 0
    deadline = time.monotonic() + START_SECONDS
    with log.open(encoding="utf-8") as lines:
        while time.monotonic() < deadline:
            line = lines.readline()
            if not line:
                if process.poll() is not None:
                    break
                time.sleep(0.05)
                continue
            entry = json.loads(line)
            port = int(entry.get("port", port))
            if entry["event"] == "model_ready":
                return port
    msg = f"the service isn't ready:\n{log.read_text(encoding='utf-8')[-3000:]}"
    raise RuntimeError(msg)
