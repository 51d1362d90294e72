"""Writes tiny sentence-transformers-style model directories with random weights, and computes them in plain numpy."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType] # PathLike lacks its type
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

Array = NDArray[np.float32]
Weights = dict[str, Array]

WORDS = ("the", "cat", "sat", "on", "a", "mat", "dog", "ran", "far", "##s", "query", "passage", ":", ".")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WIDTH, HEADS, LAYERS, INNER, POSITIONS = 16, 4, 2, 32, 24
ROBERTA_PAD = 1


@dataclass(frozen=True)
class TinyModel:
    """The contents of a model directory."""

    kind: str = "bert"
    pooling: str = "mean_tokens"
    activation: str = "gelu"
    normalise: bool = True
    prefix: str = ""
    config: Mapping[str, object] = field(default_factory=dict[str, object])
    """Entries of config.json that differ."""
    max_seq_length: int | None = 12
    sentence_config: Mapping[str, object] = field(default_factory=dict[str, object])


def write_model(path: Path, model: TinyModel, *, seed: int = 1, dtype: str = "float32") -> Weights:
    """Writes the directory and returns its weights."""
    weights = make_weights(model, seed)
    path.mkdir(parents=True, exist_ok=True)
    stored = {model.prefix + name: value.astype(dtype) for name, value in weights.items()}
    save_file(stored, path / "model.safetensors")
    write_tokeniser(path)
    write_json(path / "config.json", {**make_config(model), **model.config})
    modules = ["Transformer", "Pooling", *(["Normalize"] if model.normalise else [])]
    write_json(
        path / "modules.json",
        [
            {"idx": index, "name": str(index), "path": f"{index}_{name}" if index else "", "type": f"x.models.{name}"}
            for index, name in enumerate(modules)
        ],
    )
    (path / "1_Pooling").mkdir(exist_ok=True)
    write_json(path / "1_Pooling" / "config.json", make_pooling(model.pooling))
    if model.max_seq_length is not None:
        write_json(
            path / "sentence_bert_config.json", {"max_seq_length": model.max_seq_length, **model.sentence_config}
        )
    return weights


def write_json(path: Path, value: object) -> None:
    """Writes a JSON file."""
    path.write_text(json.dumps(value), encoding="utf-8")


def write_tokeniser(path: Path) -> None:
    """Writes a WordPiece tokeniser of a few words, with truncation and padding on, as in real directories."""
    vocabulary = {word: index for index, word in enumerate((*SPECIAL, *WORDS))}
    tokeniser = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokeniser.normalizer = BertNormalizer(lowercase=False)
    tokeniser.pre_tokenizer = BertPreTokenizer()
    tokeniser.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    )
    tokeniser.enable_truncation(5)  # pyright: ignore[reportUnknownMemberType] # options lack types
    tokeniser.enable_padding(length=5)  # pyright: ignore[reportUnknownMemberType] # options lack types
    tokeniser.save(str(path / "tokenizer.json"))


def make_pooling(mode: str) -> dict[str, object]:
    """A pooling's config in the format of sentence-transformers."""
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    flags: dict[str, object] = {f"pooling_mode_{name}": name == mode for name in modes}
    return {"word_embedding_dimension": WIDTH, "include_prompt": True, **flags}


def make_config(model: TinyModel) -> dict[str, object]:
    """A transformer's config.json."""
    if model.kind == "distilbert":
        return {
            "model_type": "distilbert",
            "dim": WIDTH,
            "n_heads": HEADS,
            "n_layers": LAYERS,
            "hidden_dim": INNER,
            "activation": model.activation,
            "max_position_embeddings": POSITIONS,
        }
    return {
        "model_type": model.kind,
        "hidden_size": WIDTH,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "intermediate_size": INNER,
        "hidden_act": model.activation,
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": POSITIONS,
        "pad_token_id": 0 if model.kind == "bert" else ROBERTA_PAD,
    }


def make_weights(model: TinyModel, seed: int) -> Weights:
    """Random weights under the architecture's own names."""
    random = np.random.default_rng(seed)

    def tensor(*shape: int) -> Array:
        return (random.standard_normal(shape) * 0.3).astype(np.float32)

    weights: Weights = {
        "embeddings.word_embeddings.weight": tensor(len(SPECIAL) + len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": tensor(POSITIONS, WIDTH),
        "embeddings.LayerNorm.weight": 1 + tensor(WIDTH),
        "embeddings.LayerNorm.bias": tensor(WIDTH),
    }
    if model.kind != "distilbert":
        weights["embeddings.token_type_embeddings.weight"] = tensor(2, WIDTH)
    for layer in range(LAYERS):
        for name in names_of(model.kind, layer).values():
            if "orm" in name.rpartition(".")[2]:
                weights[f"{name}.weight"], weights[f"{name}.bias"] = 1 + tensor(WIDTH), tensor(WIDTH)
                continue
            rows = INNER if name.endswith(("intermediate.dense", "lin1")) else WIDTH
            columns = INNER if name.endswith(("lin2", f"{layer}.output.dense")) else WIDTH
            weights[f"{name}.weight"], weights[f"{name}.bias"] = tensor(rows, columns), tensor(rows)
    return weights


def names_of(kind: str, layer: int) -> dict[str, str]:
    """Names of a layer's weights by their part."""
    if kind == "distilbert":
        prefix = f"transformer.layer.{layer}."
        parts = {"q": "attention.q_lin", "k": "attention.k_lin", "v": "attention.v_lin", "o": "attention.out_lin"}
        parts |= {"n1": "sa_layer_norm", "i": "ffn.lin1", "f": "ffn.lin2", "n2": "output_layer_norm"}
    else:
        prefix = f"encoder.layer.{layer}."
        parts = {part: f"attention.self.{name}" for part, name in zip("qkv", ("query", "key", "value"), strict=True)}
        parts |= {"o": "attention.output.dense", "n1": "attention.output.LayerNorm"}
        parts |= {"i": "intermediate.dense", "f": "output.dense", "n2": "output.LayerNorm"}
    return {part: prefix + name for part, name in parts.items()}


def hidden_states(model: TinyModel, weights: Weights, ids: Sequence[int]) -> Array:
    """The last layer's output for one text, without padding: shape (tokens, width). Written for clarity, not speed."""
    w = weights
    first = 0 if model.kind in ("bert", "distilbert") else ROBERTA_PAD + 1
    epsilon = 1e-12 if model.kind == "distilbert" else 1e-5
    places = np.arange(first, first + len(ids))
    x = w["embeddings.word_embeddings.weight"][list(ids)] + w["embeddings.position_embeddings.weight"][places]
    if model.kind != "distilbert":
        x = x + w["embeddings.token_type_embeddings.weight"][0]
    x = _norm(x, w, "embeddings.LayerNorm", epsilon)
    for layer in range(LAYERS):
        n = names_of(model.kind, layer)
        q, k, v = (_linear(x, w, n[part]) for part in "qkv")
        size = WIDTH // HEADS
        heads = [slice(head * size, (head + 1) * size) for head in range(HEADS)]
        attended = np.concatenate([_softmax(q[:, h] @ k[:, h].T / math.sqrt(size)) @ v[:, h] for h in heads], axis=1)
        x = _norm(x + _linear(attended, w, n["o"]), w, n["n1"], epsilon)
        inner = _activate(_linear(x, w, n["i"]), model.activation)
        x = _norm(x + _linear(inner, w, n["f"]), w, n["n2"], epsilon)
    return np.asarray(x, np.float32)


def pooled(hidden: Array, mode: str) -> Array:
    """One vector of length 1 from a text's token vectors."""
    vector = {
        "mean_tokens": hidden.mean(axis=0),
        "mean_sqrt_len_tokens": hidden.sum(axis=0) / math.sqrt(len(hidden)),
        "cls_token": hidden[0],
        "max_tokens": hidden.max(axis=0),
    }[mode]
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def _linear(x: Array, w: Weights, name: str) -> Array:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def _norm(x: Array, w: Weights, name: str, epsilon: float) -> Array:
    centred = x - x.mean(axis=1, keepdims=True)
    scale = np.sqrt(x.var(axis=1, keepdims=True) + epsilon)
    return centred / scale * w[f"{name}.weight"] + w[f"{name}.bias"]


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _activate(x: Array, name: str) -> Array:
    if name == "relu":
        return np.maximum(x, 0)
    if name == "gelu_new":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    erf = np.vectorize(math.erf)
    return np.asarray(0.5 * x * (1 + erf(x / math.sqrt(2))), np.float32)
