"""The kinds of providers that a tenant may bring, and what each of them needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from citewire.common.v1 import common_pb2 as pb
from yarl import URL

from citewire_kit.enums import EnumMap


class ProviderType(StrEnum):
    """What a provider is for."""

    CHAT = "chat"
    EMBEDDING = "embedding"
    RERANK = "rerank"


PROVIDER_TYPES: Final = EnumMap(ProviderType, pb.ProviderType)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of provider needs."""

    model: str = ""
    """The default model; "" if a model must be named."""
    needs_key: bool = True
    """Whether an API key is required."""
    needs_base: bool = False
    """Whether an address is required."""


_LOCAL = Kind(needs_key=False, needs_base=True)

KINDS: Final[Mapping[ProviderType, Mapping[str, Kind]]] = MappingProxyType(
    {
        ProviderType.CHAT: {
            "anthropic": Kind("claude-sonnet-4-6"),
            "openai": Kind("gpt-4.1-mini"),
            "ollama": Kind("llama3.2", needs_key=False, needs_base=True),
            "openai-compatible": _LOCAL,
        },
        ProviderType.EMBEDDING: {
            "openai": Kind("text-embedding-3-small"),
            "ollama": Kind("nomic-embed-text", needs_key=False, needs_base=True),
            "openai-compatible": _LOCAL,
        },
        ProviderType.RERANK: {
            "cohere": Kind("rerank-v3.5"),
            "jina": Kind("jina-reranker-v2-base-multilingual"),
            "openai-compatible": _LOCAL,
        },
    }
)
_ENDPOINTS: Final = ("/chat/completions", "/embeddings", "/messages", "/rerank")


def normalise_base(url: str) -> str:
    """Normalises a base URL so that it ends in `/v1`, without the path of an endpoint.

    Raises:
        ValueError: It isn't an http or https URL with a host, or carries credentials, a query or a fragment.
    """
    parsed = URL(url.strip())
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError("must be an http or https URL, such as https://llm.example.com/v1")
    if parsed.user or parsed.password or parsed.query_string or parsed.fragment:
        raise ValueError("must not carry credentials, a query or a fragment")
    path = parsed.path.rstrip("/")
    for endpoint in _ENDPOINTS:
        path = path.removesuffix(endpoint).rstrip("/")
    return str(parsed.with_path(path if path.endswith("/v1") else f"{path}/v1"))
