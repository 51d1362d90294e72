"""Converts passages, documents and vectors for frameworks."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from citewire_client import models
from citewire_client.base import Model
from citewire_client.errors import DocumentFailedError

_CONTENT: Final = frozenset({"content", "metadata", "similarity", "duplicate_chunk_ids"})
"""The fields of a search result that don't describe its place."""
_ADDRESS: Final = re.compile(r"https?://[^\s/?#]\S*", re.IGNORECASE)
_TITLE_CHARACTERS: Final = 100
_BATCH: Final = 256


def members(model: Model) -> dict[str, Any]:
    """The fields of a model as JSON values, without nulls."""
    return model.model_dump(mode="json", exclude_none=True, by_alias=True)


def passage_metadata(result: models.SearchResult) -> dict[str, Any]:
    """The metadata of a passage: its document, its place, its scores, and the document's own metadata.

    The document's own metadata keeps its names. If one of them is also a name of ours, ours becomes `citewire_NAME`.
    """
    own = result.metadata or {}
    ours = {name: value for name, value in members(result).items() if name not in _CONTENT and value not in ("", [])}
    return own | {f"citewire_{name}" if name in own else name: value for name, value in ours.items()}


def document_fields(text: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `add_document` for a text from a loader, with the loader's metadata.

    Title and URL come from the names that loaders use: `title`, `file_name`, `url` and `source`.
    """
    named = {name: value for name in ("title", "file_name", "url", "source") if (value := _text(metadata.get(name)))}
    source = named.get("source", "")
    last = source.replace("\\", "/").rstrip("/").rpartition("/")[2]
    title = named.get("title") or named.get("file_name") or last or _first_line(text)
    fields: dict[str, Any] = {"content": text, "title": title, "type": "article"}
    address = next((value for name in ("url", "source") if _is_address(value := named.get(name, ""))), None)
    if address is not None:
        fields["url"] = address
    if metadata:
        fields["metadata"] = dict(metadata)
    return fields


def batches(texts: Sequence[str]) -> list[list[str]]:
    """Splits the texts into batches, one per embeddings request."""
    return [list(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]


def embedding_choice(model: str | None, dimensions: int | None) -> dict[str, Any]:
    """The arguments of `embed` for model and dimensions; None means the caller's default."""
    choice: dict[str, Any] = {"model": model, "dimensions": dimensions}
    return {name: value for name, value in choice.items() if value is not None}


def vectors(answer: models.Embeddings) -> list[list[float]]:
    """The vectors, in the order of the texts."""
    ordered = sorted(answer.data, key=lambda entry: entry.index)
    return [entry.embedding for entry in ordered if not isinstance(entry.embedding, str)]


def require_readable(document: models.Document) -> models.Document:
    """Returns a document unless it couldn't be read; it may still be waiting.

    Raises:
        DocumentFailedError: It couldn't be read.
    """
    if document.status == "failed":
        why = "" if document.error is None else f": {document.error.message}"
        raise DocumentFailedError(f"document {document.id} ({document.title}) couldn't be read{why}")
    return document


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _is_address(value: str) -> bool:
    return _ADDRESS.fullmatch(value) is not None


def _first_line(text: str) -> str:
    line = next((line.strip("# \t") for line in text.splitlines() if line.strip("# \t")), "")
    return line[:_TITLE_CHARACTERS] or "Untitled"
