"""BERT-type encoders as ONNX graphs, straight from their safetensors: no torch, no exporter.

The graph takes `input_ids` and `attention_mask` and returns one vector of length 1 per text: embeddings, the layers,
pooling over the text's own tokens, L2 norm. Segment ids are all 0 for single texts, and positions depend on the
place alone as texts are padded on the right: both are folded into one table.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from citewire_embedder.providers.onnx_graph import GraphBuilder
from citewire_kit.errors import StartupError

Weights = Mapping[str, NDArray[np.float32]]

_MASKED = 10_000.0  # subtracted at padded positions before the softmax: large enough for 0, small enough for bf16


class Pooling(StrEnum):
    """How a text's token vectors become one vector."""

    MEAN = "mean"
    CLS = "cls"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """The architecture of a BERT-type encoder."""

    layers: int
    """Number of layers."""
    heads: int
    """Attention heads per layer."""
    width: int
    """Length of a token's vector."""
    positions: int
    """Longest input in tokens."""
    first_position: int
    """Row of the position table for the first token (RoBERTa leaves some rows free)."""
    epsilon: float
    """Epsilon of the layer normalisations."""
    activation: str
    """ONNX name of the feed-forward activation: `Gelu`, `GeluTanh`, `Relu`."""
    names: "LayerNames"
    """Where the layers' weights are."""


@dataclass(frozen=True, slots=True)
class LayerNames:
    """Names of the weights of one layer, relative to `layer.format(i)`."""

    layer: str
    query: str
    key: str
    value: str
    attention_out: str
    attention_norm: str
    inner: str
    outer: str
    norm: str


BERT_NAMES = LayerNames(
    layer="encoder.layer.{}.",
    query="attention.self.query",
    key="attention.self.key",
    value="attention.self.value",
    attention_out="attention.output.dense",
    attention_norm="attention.output.LayerNorm",
    inner="intermediate.dense",
    outer="output.dense",
    norm="output.LayerNorm",
)

DISTILBERT_NAMES = LayerNames(
    layer="transformer.layer.{}.",
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    attention_out="attention.out_lin",
    attention_norm="sa_layer_norm",
    inner="ffn.lin1",
    outer="ffn.lin2",
    norm="output_layer_norm",
)


def build_encoder(
    config: EncoderConfig, weights: Weights, pooling: Pooling | None, *, quantise: bool = False
) -> onnx.ModelProto:
    """Builds the graph of an encoder.

    Args:
        config: Its shape.
        weights: Its tensors by name, without the architecture's prefix.
        pooling: How token vectors become one vector; None returns them as they are, each of length 1: shape (texts,
            tokens, width).
        quantise: Store the layers' matrices as int8.

    Raises:
        StartupError: A weight is missing or has a shape other than in `config`.
    """
    return _EncoderGraph(config, weights, quantise).build(pooling)


class _EncoderGraph:
    def __init__(self, config: EncoderConfig, weights: Weights, quantise: bool) -> None:
        self._config = config
        self._weights = weights
        self._graph = GraphBuilder(quantise=quantise)

    def build(self, pooling: Pooling | None) -> onnx.ModelProto:
        g = self._graph
        mask = g.op("Cast", "attention_mask", to=TensorProto.FLOAT)
        bias = g.op("Mul", g.op("Sub", g.op("Unsqueeze", mask, g.ints(1, 2)), g.scalar(1.0)), g.scalar(_MASKED))
        x = self._embeddings()
        for index in range(self._config.layers):
            x = self._layer(x, bias, self._config.names.layer.format(index))
        vectors = x if pooling is None else self._pool(x, mask, pooling)
        length = g.op("Max", g.op("ReduceL2", vectors, g.ints(-1), keepdims=1), g.scalar(1e-12))
        output = g.op("Div", vectors, length)
        shape = ["batch", "tokens"] if pooling is None else ["batch"]
        return g.build(["input_ids", "attention_mask"], output, [*shape, self._config.width])

    def _embeddings(self) -> str:
        g, config = self._graph, self._config
        words = self._weight("embeddings.word_embeddings.weight", None, config.width)
        places = self._weight("embeddings.position_embeddings.weight", None, config.width)
        if len(places) < config.first_position + config.positions:
            raise StartupError(f"the model's position table has {len(places)} rows, fewer than in config.json")
        places = places[config.first_position : config.first_position + config.positions]
        if "embeddings.token_type_embeddings.weight" in self._weights:
            places = places + self._weight("embeddings.token_type_embeddings.weight", None, config.width)[0]
        tokens = g.op("Shape", "input_ids", start=1, end=2)
        rows = g.op("Slice", g.constant("positions", places), g.ints(0), tokens, g.ints(0))
        x = g.op("Add", g.op("Gather", g.constant("words", words), "input_ids"), rows)
        return self._norm(x, "embeddings.LayerNorm")

    def _layer(self, x: str, bias: str, prefix: str) -> str:
        g, names = self._graph, self._config.names
        attended = self._linear(self._attention(x, bias, prefix), prefix + names.attention_out)
        x = self._norm(g.op("Add", x, attended), prefix + names.attention_norm)
        inner = self._activate(self._linear(x, prefix + names.inner))
        return self._norm(g.op("Add", x, self._linear(inner, prefix + names.outer)), prefix + names.norm)

    def _attention(self, x: str, bias: str, prefix: str) -> str:
        g, names, width, heads = self._graph, self._config.names, self._config.width, self._config.heads
        size = width // heads

        def split(name: str, perm: list[int], scale: float = 1.0) -> str:
            value = self._linear(x, prefix + name, scale)
            return g.op("Transpose", g.op("Reshape", value, g.ints(0, 0, heads, size)), perm=perm)

        # The scale of the dot products is folded into the query's weights: one multiplication less per layer.
        query = split(names.query, [0, 2, 1, 3], 1 / math.sqrt(size))
        key = split(names.key, [0, 2, 3, 1])
        value = split(names.value, [0, 2, 1, 3])
        scores = g.op("Softmax", g.op("Add", g.op("MatMul", query, key), bias), axis=-1)
        joined = g.op("Transpose", g.op("MatMul", scores, value), perm=[0, 2, 1, 3])
        return g.op("Reshape", joined, g.ints(0, 0, width))

    def _activate(self, x: str) -> str:
        if self._config.activation == "GeluTanh":
            return self._graph.op("Gelu", x, approximate="tanh")
        return self._graph.op(self._config.activation, x)

    def _pool(self, x: str, mask: str, pooling: Pooling) -> str:
        g = self._graph
        if pooling is Pooling.CLS:
            return g.op("Gather", x, g.constant("first", np.array(0, np.int64)), axis=1)
        own = g.op("Unsqueeze", mask, g.ints(2))
        if pooling is Pooling.MAX:
            lowered = g.op("Mul", g.op("Sub", own, g.scalar(1.0)), g.scalar(_MASKED))
            return g.op("ReduceMax", g.op("Add", x, lowered), g.ints(1), keepdims=0)
        total = g.op("ReduceSum", g.op("Mul", x, own), g.ints(1), keepdims=0)
        count = g.op("ReduceSum", own, g.ints(1), keepdims=0)
        return g.op("Div", total, g.op("Max", count, g.scalar(1e-9)))

    def _linear(self, x: str, name: str, scale: float = 1.0) -> str:
        weight = self._weight(f"{name}.weight", None, None)
        bias = self._weight(f"{name}.bias", len(weight))
        factor = np.float32(scale)
        return self._graph.linear(x, name, weight * factor, bias * factor)

    def _norm(self, x: str, name: str) -> str:
        width = self._config.width
        scale, shift = self._weight(f"{name}.weight", width), self._weight(f"{name}.bias", width)
        return self._graph.layer_norm(x, name, scale, shift, self._config.epsilon)

    def _weight(self, name: str, *shape: int | None) -> NDArray[np.float32]:
        weight = self._weights.get(name)
        if weight is None:
            raise StartupError(f"the model's weights have no tensor {name!r}")
        fits = len(shape) == weight.ndim and all(
            want is None or want == have for want, have in zip(shape, weight.shape, strict=True)
        )
        if not fits:
            raise StartupError(f"the model's tensor {name!r} has shape {weight.shape}, which differs from config.json")
        return weight
