"""Model directories of every supported kind, against a plain forward pass in numpy."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType] # PathLike lacks its type

from citewire_embedder.providers.base import Precision, Purpose, Vectors
from citewire_embedder.providers.local import LocalModel, pad, padded_length
from citewire_embedder.providers.model_directory import read_directory
from citewire_embedder.providers.openvino_session import bf16_supported
from citewire_kit.errors import StartupError
from tiny_models import (
    WIDTH,
    TinyModel,
    Weights,
    hidden_states,
    make_pooling,
    make_weights,
    pooled,
    write_json,
    write_model,
)

TEXTS = ("the cat sat on a mat .", "dogs ran", "a", "the dog ran far on the mats of nowhere .")


@asynccontextmanager
async def loaded_model(path: Path, precision: Precision = Precision.FP32) -> AsyncGenerator[LocalModel]:
    model = LocalModel("tiny", read_directory(path), precision=precision, threads=1)
    try:
        await model.load()
        yield model
    finally:
        await model.close()


async def embed(path: Path, texts: Sequence[str] = TEXTS, precision: Precision = Precision.FP32) -> Vectors:
    async with loaded_model(path, precision) as model:
        return await model.embed(await model.tokenise(texts, Purpose.DOCUMENT))


async def reference(path: Path, model: TinyModel, weights: Weights) -> NDArray[np.float32]:
    """The same texts one by one, without batch, padding and graph."""
    local = LocalModel("tiny", read_directory(path), precision=Precision.FP32, threads=1)
    texts = await local.tokenise(TEXTS, Purpose.DOCUMENT)
    await local.close()
    return np.stack([pooled(hidden_states(model, weights, text.ids), model.pooling) for text in texts])


@pytest.mark.parametrize("pooling", ["mean_tokens", "cls_token", "max_tokens", "mean_sqrt_len_tokens"])
async def test_every_pooling_gives_the_vectors_of_the_plain_computation(tmp_path: Path, pooling: str) -> None:
    model = TinyModel(pooling=pooling)
    weights = write_model(tmp_path, model)
    vectors = await embed(tmp_path)
    np.testing.assert_allclose(vectors, await reference(tmp_path, model, weights), atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        TinyModel(kind="roberta"),
        TinyModel(kind="xlm-roberta", prefix="roberta."),
        TinyModel(kind="distilbert", prefix="distilbert."),
        TinyModel(kind="distilbert", activation="relu", pooling="cls_token"),
        TinyModel(activation="gelu_new", prefix="bert."),
        TinyModel(normalise=False),
    ],
    ids=lambda model: f"{model.kind}-{model.activation}-{model.pooling}",
)
async def test_every_architecture_gives_the_vectors_of_the_plain_computation(tmp_path: Path, model: TinyModel) -> None:
    weights = write_model(tmp_path, model)
    np.testing.assert_allclose(await embed(tmp_path), await reference(tmp_path, model, weights), atol=2e-6)


async def test_weights_stored_in_half_precision_are_read(tmp_path: Path) -> None:
    model = TinyModel()
    weights = write_model(tmp_path, model, dtype="float16")
    expected = await reference(tmp_path, model, weights)
    np.testing.assert_allclose(await embed(tmp_path), expected, atol=5e-3)


async def test_a_texts_vector_does_not_depend_on_the_batch(tmp_path: Path) -> None:
    write_model(tmp_path, TinyModel())
    async with loaded_model(tmp_path) as model:
        texts = await model.tokenise(TEXTS, Purpose.DOCUMENT)
        together = await model.embed(texts)
        for text, vector in zip(texts, together, strict=True):
            np.testing.assert_allclose((await model.embed([text]))[0], vector, atol=2e-6)


async def test_int8_stays_close(tmp_path: Path) -> None:
    model = TinyModel()
    weights = write_model(tmp_path, model)
    vectors = await embed(tmp_path, precision=Precision.INT8)
    expected = await reference(tmp_path, model, weights)
    assert (vectors * expected).sum(axis=1).min() > 0.99
    assert np.abs(vectors - expected).max() > 1e-6, "int8 that gives fp32's vectors wasn't int8"


async def test_bf16_stays_close_or_is_refused(tmp_path: Path) -> None:
    model = TinyModel()
    weights = write_model(tmp_path, model)
    if not bf16_supported():
        with pytest.raises(StartupError, match="this CPU has no bf16 instructions"):
            await embed(tmp_path, precision=Precision.BF16)
        return
    vectors = await embed(tmp_path, precision=Precision.BF16)
    assert (vectors * await reference(tmp_path, model, weights)).sum(axis=1).min() > 0.999


async def test_the_space_is_known_before_loading_and_names_the_weights(tmp_path: Path) -> None:
    write_model(tmp_path / "one", TinyModel(), seed=1)
    write_model(tmp_path / "two", TinyModel(), seed=2)
    write_model(tmp_path / "pooled", TinyModel(pooling="cls_token"), seed=1)
    revisions = {name: read_directory(tmp_path / name).revision() for name in ("one", "two", "pooled")}
    assert len(set(revisions.values())) == 3
    model = LocalModel("tiny", read_directory(tmp_path / "one"), precision=Precision.FP32, threads=1)
    assert (model.info.space.revision, model.info.space.dimensions) == (revisions["one"], WIDTH)
    assert (model.info.max_input_tokens, model.info.extra_tokens) == (12, 2)
    await model.close()


def write_export(path: Path, *, pooled_inside: bool) -> Weights:
    """Writes a directory of an unknown architecture, with an ONNX file that is just a table of word vectors."""
    weights = write_model(path, TinyModel(kind="bert", config={"model_type": "newbert"}))
    words = weights["embeddings.word_embeddings.weight"]
    nodes = [helper.make_node("Gather", ["words", "input_ids"], ["last_hidden_state"])]
    shape: list[str | int] = ["batch", "tokens", WIDTH]
    output = "last_hidden_state"
    if pooled_inside:
        nodes.append(helper.make_node("ReduceSum", [output, "axis"], ["sentence_embedding"], keepdims=0))
        output, shape = "sentence_embedding", ["batch", WIDTH]
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    graph = helper.make_graph(
        nodes,
        "export",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(words, "words"), numpy_helper.from_array(np.array([1], np.int64), "axis")],
    )
    (path / "onnx").mkdir()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (path / "onnx" / "model.onnx").write_bytes(model.SerializeToString())
    return weights


@pytest.mark.parametrize("pooling", ["mean_tokens", "cls_token", "max_tokens"])
async def test_an_onnx_export_of_an_unknown_architecture_is_served_and_pooled(tmp_path: Path, pooling: str) -> None:
    weights = write_export(tmp_path, pooled_inside=False)
    write_pooling(tmp_path, pooling)
    async with loaded_model(tmp_path) as model:
        texts = await model.tokenise(TEXTS, Purpose.DOCUMENT)
        vectors = await model.embed(texts)
        assert model.info.space.dimensions == WIDTH
    words = weights["embeddings.word_embeddings.weight"]
    expected = np.stack([pooled(words[list(text.ids)], pooling) for text in texts])
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


async def test_an_onnx_export_that_pools_itself_is_normalised_only(tmp_path: Path) -> None:
    weights = write_export(tmp_path, pooled_inside=True)
    async with loaded_model(tmp_path) as model:
        (text,) = await model.tokenise(["the cat sat on a mat"], Purpose.DOCUMENT)  # 8 tokens: nothing is padded
        (vector,) = await model.embed([text])
    words = weights["embeddings.word_embeddings.weight"]
    np.testing.assert_allclose(vector, pooled(words[list(text.ids)], "mean_tokens"), atol=1e-6)


async def test_int8_of_an_onnx_export_is_refused(tmp_path: Path) -> None:
    write_export(tmp_path, pooled_inside=False)
    with pytest.raises(StartupError, match="int8 needs safetensors"):
        LocalModel("tiny", read_directory(tmp_path), precision=Precision.INT8, threads=1)


async def test_an_invalid_onnx_file_is_refused(tmp_path: Path) -> None:
    write_export(tmp_path, pooled_inside=False)
    (tmp_path / "onnx" / "model.onnx").write_bytes(b"no model")
    with pytest.raises(StartupError, match="can't load the model"):
        await embed(tmp_path)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("encoder.layer.1.output.dense.bias", "no tensor 'encoder.layer.1.output.dense.bias'"),
        ("embeddings.word_embeddings.weight", "no tensor that ends in"),
    ],
)
async def test_incomplete_weights_are_named(tmp_path: Path, missing: str, message: str) -> None:
    write_model(tmp_path, TinyModel())
    weights = make_weights(TinyModel(), seed=1)
    del weights[missing]
    overwrite_weights(tmp_path, weights)
    with pytest.raises(StartupError, match=message):
        await embed(tmp_path)


async def test_weights_of_another_shape_are_named(tmp_path: Path) -> None:
    write_model(tmp_path, TinyModel(config={"hidden_size": 2 * WIDTH}))
    with pytest.raises(StartupError, match=r"'embeddings.word_embeddings.weight' has shape"):
        await embed(tmp_path)


async def test_damaged_weights_are_named(tmp_path: Path) -> None:
    write_model(tmp_path, TinyModel())
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(StartupError, match="can't be read as safetensors"):
        await embed(tmp_path)


def test_lengths_are_rounded_up_in_few_steps() -> None:
    assert [padded_length(tokens) for tokens in (1, 4, 5, 33, 64, 65, 191, 256)] == [4, 4, 8, 40, 64, 80, 192, 256]


def test_padding_is_masked_and_never_longer_than_the_window() -> None:
    ids, mask = pad([[5, 6, 7], [8]], max_tokens=250)
    assert ids.tolist() == [[5, 6, 7, 0], [8, 0, 0, 0]]
    assert mask.sum(axis=1).tolist() == [3, 1]
    assert pad([[1] * 245], max_tokens=250)[0].shape == (1, 250)


def write_pooling(path: Path, mode: str) -> None:
    write_json(path / "1_Pooling" / "config.json", make_pooling(mode))


def overwrite_weights(path: Path, weights: Weights) -> None:
    save_file(weights, path / "model.safetensors")
