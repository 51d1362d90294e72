"""The shapes in which servers take and give reranking: Cohere's, Jina's (Infinity, vLLM, LiteLLM), TEI's own."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from citewire_embedder.providers.reranking import Ranked
from citewire_kit.errors import FailedPrecondition
from citewire_remote.failures import as_list, as_mapping


class Shape(StrEnum):
    """Which request a server takes."""

    DOCUMENTS = "documents"
    """`{model, query, documents, top_n}`: Cohere, Jina, Infinity, vLLM, LiteLLM, llama.cpp."""

    TEXTS = "texts"
    """`{query, texts}`: text-embeddings-inference."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a server is asked.

    Attributes:
        url: The address.
        shape: The request's.
        most: Most documents of one request: TEI takes 32 as it ships, Cohere advises 1,000.
    """

    url: str
    shape: Shape = Shape.DOCUMENTS
    most: int = 1000


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server gave.

    Attributes:
        ranked: Best first.
        tokens: What it counted; None if it didn't say.
    """

    ranked: tuple[Ranked, ...]
    tokens: int | None


_BASES: Mapping[str, str] = {"cohere": "https://api.cohere.com/v1", "jina": "https://api.jina.ai/v1"}
_TEI_MOST = 32


def ways_to(kind: str, api_base: str) -> tuple[Way, ...]:
    """Returns how a provider may be asked, the likeliest first.

    Args:
        kind: The provider's kind.
        api_base: Ends in `/v1`; "" is the kind's own.
    """
    base = api_base or _BASES[kind]
    root = base.removesuffix("/v1")
    if kind == "cohere":
        return (Way(f"{root}/v2/rerank"),)
    if kind == "jina":
        return (Way(f"{base}/rerank"),)
    # Infinity and TEI serve at the root unless told otherwise.
    return (
        Way(f"{base}/rerank"),
        Way(f"{root}/rerank"),
        Way(f"{root}/rerank", Shape.TEXTS, _TEI_MOST),
    )


def write_request(way: Way, model: str, query: str, documents: Sequence[str], top_n: int) -> Mapping[str, object]:
    """Writes a request's body; texts that are too long are cut by the server, where it can be told so."""
    if way.shape is Shape.TEXTS:
        return {"query": query, "texts": list(documents), "truncate": True, "return_text": False}
    return {"model": model, "query": query, "documents": list(documents), "top_n": top_n}


def read_answer(body: bytes, headers: Mapping[str, str], documents: int, top_n: int, provider: str) -> Answer:
    """Reads an answer to a request with so many documents.

    Raises:
        FailedPrecondition: It isn't one (`PROVIDER_REJECTED`): unknown or repeated documents, scores that are no
            numbers, or fewer of them than were asked for.
    """
    try:
        parsed: object = json.loads(body)
    except ValueError:
        raise _unreadable("isn't JSON", provider) from None
    fields = as_mapping(parsed)
    ranked = [_ranked(entry, documents, provider) for entry in as_list(fields.get("results", parsed))]
    if len({one.index for one in ranked}) != len(ranked):
        raise _unreadable("names a document twice", provider)
    if len(ranked) < min(top_n, documents):
        raise _unreadable(f"ranks {len(ranked)} of {documents} documents", provider)
    ranked.sort(key=lambda one: (-one.score, one.index))
    return Answer(tuple(ranked), _tokens(fields, headers))


def _ranked(entry: object, documents: int, provider: str) -> Ranked:
    fields = as_mapping(entry)
    index, score = fields.get("index"), fields.get("relevance_score", fields.get("score"))
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < documents:
        raise _unreadable("names a document that wasn't sent", provider)
    if not isinstance(score, (int, float)) or isinstance(score, bool) or not math.isfinite(score):
        raise _unreadable("holds a score that is no number", provider)
    return Ranked(index, float(score))


def _tokens(fields: Mapping[str, object], headers: Mapping[str, str]) -> int | None:
    usage, meta = as_mapping(fields.get("usage")), as_mapping(fields.get("meta"))
    said: list[object] = [
        usage.get("total_tokens"),
        usage.get("prompt_tokens"),
        as_mapping(meta.get("tokens")).get("input_tokens"),
        as_mapping(meta.get("billed_units")).get("total_tokens"),
    ]
    counted = headers.get("x-compute-tokens", "")
    said.append(int(counted) if counted.isascii() and counted.isdecimal() else None)
    # A server that doesn't count says 0.
    return next((one for one in said if isinstance(one, int) and not isinstance(one, bool) and one > 0), None)


def _unreadable(what: str, provider: str) -> FailedPrecondition:
    return FailedPrecondition(
        f"the rerank provider's answer {what}",
        reason="PROVIDER_REJECTED",
        metadata={"provider": provider, "retry": "never"},
    )
