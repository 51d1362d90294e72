"""Reads the vectors out of a provider's answer: OpenAI's shape, and Ollama's own ones."""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from citewire_embedder.providers.base import Vectors
from citewire_kit.errors import CitewireError, FailedPrecondition
from citewire_remote.failures import as_list, as_mapping


@dataclass(frozen=True, slots=True)
class Answer:
    """What a provider gave.

    Attributes:
        vectors: Shape (texts, dimensions), of length 1 each.
        tokens: What it counted; None if it didn't say.
    """

    vectors: Vectors
    tokens: int | None


def read_answer(body: bytes, texts: int, provider: str) -> Answer:
    """Reads an answer to a call with so many texts. Vectors come as lists, or as little-endian float32 in base64.

    Raises:
        FailedPrecondition: It isn't one (`PROVIDER_REJECTED`): a wrong number, length or value of vectors.
    """
    try:
        fields = as_mapping(json.loads(body))
    except ValueError:
        raise _unreadable("isn't JSON", provider) from None
    rows = _rows(fields.get("data"), fields, provider)
    if len(rows) != texts or len({len(row) for row in rows}) != 1:
        raise _unreadable(f"holds {len(rows)} vectors for {texts} texts, or vectors of several lengths", provider)
    vectors = np.stack(rows)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not (lengths > 0).all():
        raise _unreadable("holds a vector that is zero or not finite", provider)
    usage = as_mapping(fields.get("usage"))
    said = usage.get("prompt_tokens", usage.get("total_tokens", fields.get("prompt_eval_count")))
    # A server that doesn't count says 0.
    tokens = said if isinstance(said, int) and not isinstance(said, bool) and said > 0 else None
    return Answer(np.asarray(vectors / lengths, np.float32), tokens)


def _rows(data: object, fields: object, provider: str) -> list[Vectors]:
    if data is None:
        own = as_mapping(fields)
        found = as_list(own.get("embeddings")) or [own.get("embedding")]
        return [_row(value, provider) for value in found]
    entries = [as_mapping(entry) for entry in as_list(data)]
    places = [entry.get("index", place) for place, entry in enumerate(entries)]
    order = {place: entry for place, entry in zip(places, entries, strict=True) if isinstance(place, int)}
    if sorted(order) != list(range(len(entries))):
        raise _unreadable("numbers its vectors wrongly", provider)
    return [_row(order[place].get("embedding"), provider) for place in range(len(entries))]


def _row(value: object, provider: str) -> Vectors:
    try:
        if isinstance(value, str):
            row = np.frombuffer(base64.b64decode(value, validate=True), "<f4").astype(np.float32)
        else:
            row = np.asarray(as_list(value), np.float32)
    except (binascii.Error, ValueError, TypeError):
        raise _unreadable("holds a vector that isn't one", provider) from None
    if row.ndim != 1 or not row.size:
        raise _unreadable("holds a vector that isn't one", provider)
    return row


def _unreadable(what: str, provider: str) -> CitewireError:
    return FailedPrecondition(
        f"the embedding provider's answer {what}",
        reason="PROVIDER_REJECTED",
        metadata={"provider": provider, "retry": "never"},
    )


def split(lengths: Sequence[int], *, most: int, most_tokens: int) -> list[range]:
    """Splits texts of so many tokens, in order, into requests; a text above the limit has one of its own."""
    groups: list[range] = []
    start = size = 0
    for place, length in enumerate(lengths):
        if place > start and (place - start == most or size + length > most_tokens):
            groups.append(range(start, place))
            start, size = place, 0
        size += length
    if lengths:
        groups.append(range(start, len(lengths)))
    return groups
