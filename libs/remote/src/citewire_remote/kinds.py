"""The kinds of providers that a tenant may bring, and what each of them needs."""

import ipaddress
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from citewire.common.v1 import common_pb2 as pb
from yarl import URL

from citewire_kit.enums import EnumMap


class ProviderType(StrEnum):
    """The purpose of a provider."""

    CHAT = "chat"
    EMBEDDING = "embedding"
    RERANK = "rerank"


PROVIDER_TYPES: Final = EnumMap(ProviderType, pb.ProviderType)


@dataclass(frozen=True, slots=True)
class Kind:
    """The requirements of a kind of provider."""

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
            "openai-responses": Kind("gpt-4.1-mini"),
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
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)
_IPV4_INSIDE: Final = tuple(
    ipaddress.IPv6Network(text)
    for text in ("::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")
)
"""Mapped, translated, 6to4, Teredo."""
_ENDPOINTS: Final = ("/chat/completions", "/embeddings", "/messages", "/rerank", "/responses")


def normalise_base(url: str) -> str:
    """Normalises a base URL so that it ends in `/v1`, without the path of an endpoint.

    Raises:
        ValueError: It isn't an http or https URL with a host, carries credentials, a query or a fragment, or spells its
            address in a way that looks like another or like a name.
    """
    url = url.strip()
    _check_host(url)
    parsed = URL(url)
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError("must be an http or https URL, such as https://llm.example.com/v1")
    if parsed.user or parsed.password or parsed.query_string or parsed.fragment:
        raise ValueError("must not contain credentials, a query or a fragment")
    path = parsed.path.rstrip("/")
    for endpoint in _ENDPOINTS:
        path = path.removesuffix(endpoint).rstrip("/")
    return str(parsed.with_path(path if path.endswith("/v1") else f"{path}/v1"))


def _check_host(url: str) -> None:
    """Refuses addresses in unusual spellings: octal, hexadecimal, short, as one number, in other digits.

    A resolver takes them for the address, while readers and filters don't.
    """
    if not url.isprintable() or "\\" in url or " " in url:
        raise ValueError("must be a URL without spaces, backslashes and invisible characters")
    host = urlsplit(url).hostname or ""
    if "%" in host:
        raise ValueError("must not contain % or a zone in its host")
    if ":" in host:
        ip = ipaddress.IPv6Address(host)
        compatible = 0xFFFF < int(ip) < 2**32  # `::1` is loopback, and no spelling of 0.0.0.1
        if compatible or any(ip in network for network in _IPV4_INSIDE):
            raise ValueError("must give an IPv4 address directly, such as 192.0.2.1, not inside an IPv6 address")
        return
    plain = unicodedata.normalize("NFKC", host).replace("\u3002", ".")
    last = plain.rstrip(".").rpartition(".")[2]
    # As browsers have it: a host whose last part is a number is an IPv4 address.
    if _NUMBER.fullmatch(last):
        try:
            usual = str(ipaddress.IPv4Address(host)) == host
        except ValueError:
            usual = False
        if not usual:
            raise ValueError("must give an IPv4 address as four decimal numbers, such as 192.0.2.1")
