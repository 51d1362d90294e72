"""Speed of MiniLM here: our engine, in process and over gRPC, compared with sentence-transformers and ONNX Runtime.

The systems take turns in every round, with the same number of threads. Ratios are taken within a round, and their
median over the rounds is printed, so that other load on the machine affects all systems equally. Measured from text to
vector, including tokenising.

- *Chunks*: texts of 191 tokens, all of a round at once.
- *Query*: texts of 8 to 24 tokens, one after another; never from a cache.

`--cpu` is for a machine with other load: one thread, and CPU seconds instead of wall-clock time (over gRPC only the
server's, which are counted in hundredths, so that only the sum of a round's queries is meaningful).

`--quality` measures the effect of lower precisions instead: SciFact's nDCG@10, and the speed on its abstracts.

Usage: python -m benchmarks.embedder [--rounds N] [--cpu] [--quality]
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.embedder_quality import measure_quality
from benchmarks.embedder_systems import HOME, System, Way, install, over_grpc, worker, write_graph
from benchmarks.tables import describe_machine, format_table
from citewire_embedder.providers.base import Precision
from citewire_embedder.providers.model_directory import BUILT_IN, find_model, read_directory
from citewire_embedder.providers.openvino_session import available_cpus, bf16_supported
from citewire_embedder.providers.tokeniser import Tokeniser

BASELINE = "sentence-transformers"
CHUNK_TOKENS = 191
CHUNKS = 16
QUERY_TOKENS = (8, 24)
QUERIES = 15
LEAST_COSINE = 0.9999
NAMES = {
    BASELINE: "sentence-transformers 6.2, torch fp32",
    "onnxruntime": "plain ONNX Runtime, fp32",
    "onnxruntime-int8": "plain ONNX Runtime, dynamic int8",
    "fp32": "Citewire in process, fp32 (default)",
    "grpc": "Citewire over gRPC, fp32",
    "bf16": "Citewire in process, bf16",
    "int8": "Citewire in process, int8",
}


@dataclass(slots=True)
class Times:
    """The times of one system by round: seconds for the chunks, mean seconds for a query."""

    bulk: list[float] = field(default_factory=list[float])
    query: list[float] = field(default_factory=list[float])


def main() -> int:
    """Runs the benchmark and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="rounds in which every system takes its turn")
    parser.add_argument("--quality", action="store_true", help="measure what lower precisions cost on SciFact")
    parser.add_argument("--cpu", action="store_true", help="one thread, CPU seconds instead of wall-clock")
    options = parser.parse_args()
    HOME.mkdir(parents=True, exist_ok=True)
    print(describe_machine(), flush=True)
    if options.quality:
        return measure_quality(precisions())
    install()
    measure_speed(options.rounds, Way(1, "cpu") if options.cpu else Way(available_cpus()))
    return 0


def measure_speed(rounds: int, way: Way) -> None:
    """Prints the table of speeds."""
    directory = read_directory(find_model(BUILT_IN).path)
    graph = write_graph(directory)
    with contextlib.ExitStack() as stack:
        systems: dict[str, System] = {}
        for name in (BASELINE, "onnxruntime", "onnxruntime-int8", "fp32", "grpc", *precisions()[1:]):
            print(f"starting {NAMES[name]} …", file=sys.stderr, flush=True)
            started = over_grpc(way) if name == "grpc" else worker(name, directory.path, graph, way)
            systems[name] = stack.enter_context(started)
        words = single_token_words(Tokeniser(directory.path / "tokenizer.json", max_tokens=256))
        check(systems, words)
        times = {name: Times() for name in systems}
        for number in range(rounds + 1):  # the first one is a warm-up
            for name, system in systems.items():
                result = one_round(system, words, seed=number)
                if number:
                    times[name].bulk.append(result[0])
                    times[name].query.append(result[1])
            print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
    unit = "CPU seconds" if way.clock == "cpu" else "wall-clock"
    print(f"{way.threads} threads, {unit}, {rounds} rounds of {CHUNKS} chunks and {QUERIES} queries; medians\n")
    headings = ["system", "chunks/s", "× throughput", "query, ms", "÷ latency"]
    print(format_table(headings, [row(name, times) for name in systems]))


def one_round(system: System, words: Sequence[str], seed: int) -> tuple[float, float]:
    """Seconds for the chunks, and mean seconds per query."""
    choose = random.Random(seed)
    chunks = [text_of(words, CHUNK_TOKENS, choose) for _ in range(CHUNKS)]
    queries = [text_of(words, choose.randint(*QUERY_TOKENS), choose) for _ in range(QUERIES)]
    return system.bulk(chunks), statistics.mean(system.queries(queries))


def row(name: str, times: dict[str, Times]) -> list[object]:
    """A system's line of the table."""
    own, base = times[name], times[BASELINE]
    throughput = statistics.median(b / o for o, b in zip(own.bulk, base.bulk, strict=True))
    latency = statistics.median(b / o for o, b in zip(own.query, base.query, strict=True))
    return [NAMES[name], CHUNKS / statistics.median(own.bulk), throughput, statistics.median(own.query) * 1e3, latency]


def check(systems: dict[str, System], words: Sequence[str]) -> None:
    """Checks that the fp32 systems compute the same vectors."""
    choose = random.Random(0)
    texts = [text_of(words, tokens, choose) for tokens in (5, 40, CHUNK_TOKENS, 300)]
    expected = systems[BASELINE].vectors(texts)
    for name in ("onnxruntime", "fp32"):
        cosine = float((systems[name].vectors(texts) * expected).sum(axis=1).min())
        if cosine < LEAST_COSINE:
            msg = f"{NAMES[name]} gives other vectors than {NAMES[BASELINE]}: cosine {cosine}"
            raise RuntimeError(msg)
    short = texts[:3]  # over gRPC, a text longer than the window is rejected
    assert np.allclose(systems["grpc"].vectors(short), expected[:3], atol=1e-4)


def single_token_words(tokeniser: Tokeniser) -> list[str]:
    """Words of one token each, so that a text's length can be chosen exactly."""
    candidates = [word for word in (__doc__ or "").lower().replace("`", " ").split() if word.isalpha()]
    counts = tokeniser.count(candidates)
    return sorted({word for word, count in zip(candidates, counts, strict=True) if count == 1})


def text_of(words: Sequence[str], tokens: int, choose: random.Random) -> str:
    """A text of exactly this many tokens, including the two special ones."""
    return " ".join(choose.choices(words, k=tokens - 2))


def precisions() -> list[str]:
    """The precisions that this CPU supports, starting with the default."""
    return [entry.value for entry in Precision if entry is not Precision.BF16 or bf16_supported()]


if __name__ == "__main__":
    sys.exit(main())
