"""One system of the embedder benchmark in its own process: texts in, seconds and vectors out, as JSON lines.

It runs in our environment and in the benchmark's own one, so it imports a system only when that is requested.
Every system converts texts to numpy vectors, including tokenising.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

Encode = Callable[[list[str]], NDArray[np.float32]]

ORT_BATCH = 8
BATCH_TOKENS = 768


def main() -> None:
    """Serves requests until the end of stdin. Arguments: system, model directory, graph file, threads, clock."""
    system, directory, graph, threads, clock = sys.argv[1:6]
    out, sys.stdout = sys.stdout, sys.stderr  # keeps the output of libraries out of the answers
    encode = make_encoder(system, Path(directory), Path(graph), int(threads))
    now = time.process_time if clock == "cpu" else time.perf_counter
    _answer(out, {"ready": system})
    for line in sys.stdin:
        _answer(out, _handle(encode, json.loads(line), now))


def make_encoder(system: str, directory: Path, graph: Path, threads: int) -> Encode:
    """Loads a system: `sentence-transformers`, `onnxruntime`, `onnxruntime-int8`, or ours as `fp32`, `bf16`, `int8`."""
    if system == "sentence-transformers":
        return _sentence_transformers(directory, threads)
    if system == "onnxruntime":
        return _onnxruntime(directory, graph, threads)
    if system == "onnxruntime-int8":
        return _onnxruntime(directory, _quantised(graph), threads)
    return _citewire(system, directory, threads)


def _handle(encode: Encode, request: dict[str, Any], now: Callable[[], float]) -> dict[str, object]:
    texts: list[str] = request["texts"]
    if request["op"] == "vectors":
        return {"vectors": encode(texts).tolist()}
    groups = [[text] for text in texts] if request["op"] == "queries" else [texts]
    seconds: list[float] = []
    for group in groups:
        start = now()
        encode(group)
        seconds.append(now() - start)
    return {"seconds": seconds}


def _answer(out: TextIO, value: dict[str, object]) -> None:
    out.write(json.dumps(value) + "\n")
    out.flush()


def _sentence_transformers(directory: Path, threads: int) -> Encode:
    torch: Any = importlib.import_module("torch")
    library: Any = importlib.import_module("sentence_transformers")
    torch.set_num_threads(threads)
    model = library.SentenceTransformer(str(directory), device="cpu")

    def encode(texts: list[str]) -> NDArray[np.float32]:
        return model.encode(texts, show_progress_bar=False)

    return encode


def _onnxruntime(directory: Path, graph: Path, threads: int) -> Encode:
    """The same graph in ONNX Runtime, in a simple implementation: sorted batches of eight, padded."""
    library: Any = importlib.import_module("onnxruntime")
    tokenizers: Any = importlib.import_module("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding(pad_to_multiple_of=8)
    options = library.SessionOptions()
    options.intra_op_num_threads = threads
    session = library.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])

    def encode(texts: list[str]) -> NDArray[np.float32]:
        order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        parts: list[NDArray[np.float32]] = []
        for at in range(0, len(order), ORT_BATCH):
            batch = tokenizer.encode_batch([texts[index] for index in order[at : at + ORT_BATCH]])
            ids = np.array([encoding.ids for encoding in batch], np.int64)
            mask = np.array([encoding.attention_mask for encoding in batch], np.int64)
            parts.append(session.run(None, {"input_ids": ids, "attention_mask": mask})[0])
        return np.concatenate(parts)[np.argsort(order)]

    return encode


def _quantised(graph: Path) -> Path:
    """The graph after ONNX Runtime's dynamic quantisation, with weights per channel."""
    library: Any = importlib.import_module("onnxruntime.quantization")
    file = graph.with_name("model-int8.onnx")
    library.quantize_dynamic(graph, file, per_channel=True, weight_type=library.QuantType.QInt8)
    return file


def _citewire(precision: str, directory: Path, threads: int) -> Encode:
    # Imported here: the benchmark's own environment doesn't have them.
    from citewire_embedder.providers.base import Precision, Purpose
    from citewire_embedder.providers.local import LocalModel
    from citewire_embedder.providers.model_directory import read_directory

    loop = asyncio.new_event_loop()
    model = LocalModel("bench", read_directory(directory), precision=Precision(precision), threads=threads)
    loop.run_until_complete(model.load())

    def encode(texts: list[str]) -> NDArray[np.float32]:
        tokens = loop.run_until_complete(model.tokenise(texts, Purpose.DOCUMENT))
        order = sorted(range(len(tokens)), key=lambda index: -len(tokens[index].ids))
        vectors = np.empty((len(tokens), model.info.space.dimensions), np.float32)
        at = 0
        while at < len(order):  # like the scheduler
            size = max(1, BATCH_TOKENS // len(tokens[order[at]].ids))
            batch = order[at : at + size]
            vectors[batch] = model.compute([tokens[index] for index in batch])
            at += size
        return vectors

    return encode
