"""The built-in model with its real weights, compared with reference vectors and with itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from citewire_embedder.providers.base import Precision, Purpose, Vectors
from citewire_embedder.providers.local import LocalModel
from citewire_embedder.providers.model_directory import BUILT_IN, find_model, read_directory
from citewire_embedder.providers.openvino_session import available_cpus, bf16_supported
from citewire_kit.errors import StartupError

# Lowest cosine with the fp32 reference over its 64 texts. Measured: 0.9999998, 0.99996, 0.9974.
LEAST_COSINE = {Precision.FP32: 0.9999, Precision.BF16: 0.999, Precision.INT8: 0.99}

# The first five values of vectors by sentence-transformers 6.2 in fp32, for which no reference data is needed.
KNOWN = {
    "What does the retriever store?": [-0.0285, 0.0470, -0.0214, 0.0603, -0.0479],
    "A mitochondrion makes most of a cell's energy.": [-0.0162, 0.0428, -0.0568, 0.0504, 0.0005],
}


@contextmanager
def minilm(precision: Precision) -> Generator[LocalModel]:
    result = find_model(BUILT_IN)
    model = LocalModel(result.name, read_directory(result.path), precision=precision, threads=available_cpus())
    try:
        asyncio.run(model.load())
        yield model
    finally:
        asyncio.run(model.close())


@pytest.fixture(scope="module")
def model() -> Generator[LocalModel]:
    with minilm(Precision.FP32) as minilm_model:
        yield minilm_model


async def embed(model: LocalModel, texts: Sequence[str]) -> Vectors:
    tokens = await model.tokenise(texts, Purpose.DOCUMENT)
    return np.concatenate([await model.embed(tokens[at : at + 4]) for at in range(0, len(tokens), 4)])


def reference(shared_data: Path) -> tuple[list[str], list[int], NDArray[np.float32]]:
    folder = shared_data / "minilm-reference"
    rows = [json.loads(line) for line in (folder / "texts.jsonl").read_text("utf-8").splitlines()]
    vectors: NDArray[np.float32] = np.load(folder / "vectors.npy")
    return [row["text"] for row in rows], [row["tokens"] for row in rows], vectors


@pytest.mark.parametrize("precision", list(Precision))
def test_vectors_match_the_reference(shared_data: Path, precision: Precision) -> None:
    if precision is Precision.BF16 and not bf16_supported():
        with pytest.raises(StartupError, match="this CPU has no bf16 instructions"), minilm(precision):
            pass
        return
    texts, tokens, vectors = reference(shared_data)
    with minilm(precision) as model:
        assert [text.total for text in asyncio.run(model.tokenise(texts, Purpose.DOCUMENT))] == tokens
        cosines = (asyncio.run(embed(model, texts)) * vectors).sum(axis=1) / np.linalg.norm(vectors, axis=1)
    assert len(cosines) == 64
    assert cosines.min() >= LEAST_COSINE[precision]


async def test_known_values(model: LocalModel) -> None:
    vectors = await embed(model, list(KNOWN))
    info = model.info
    assert (info.space.model, info.space.dimensions, info.max_input_tokens) == ("all-MiniLM-L6-v2", 384, 256)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for vector, known in zip(vectors, KNOWN.values(), strict=True):
        np.testing.assert_allclose(vector[:5], known, atol=1e-4)


async def test_a_vector_depends_neither_on_the_batch_nor_on_text_beyond_the_window(model: LocalModel) -> None:
    long = "the retriever stores chunks and vectors " * 60
    texts = ["short", "a text of middling length, with some words more", long, "déjà vu — 東京 🚀"]
    together = await embed(model, texts)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose((await embed(model, [text]))[0], vector, atol=1e-5)
    cut, longer = await model.tokenise([long, f"{long} and something else"], Purpose.DOCUMENT)
    assert cut.ids == longer.ids
    assert longer.total > cut.total > 256


async def test_texts_with_the_same_meaning_are_closer(model: LocalModel) -> None:
    question, answer, other = await embed(
        model,
        ["How do I reset my password?", "Steps to recover access to your account", "The glacier lost ice in May"],
    )
    assert question @ answer > question @ other + 0.3
