"""Channels to a service: balanced over its healthy replicas, kept alive, with retries where these are safe."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

_MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
_MAX_METADATA_BYTES: Final = 256 * 1024

_REPEATABLE: Final = {
    "citewire.embedder.v1.EmbedderService": ("Embed", "CountTokens", "ListModels"),
    "citewire.retriever.v1.RetrieverService": ("Plan", "Search", "GetChunks"),
    "citewire.retriever.v1.CorpusService": ("GetDocument", "ListDocuments", "ListCollections", "ListSpaces"),
    "citewire.generator.v1.GeneratorService": ("ListModels",),
}
"""Calls that may run twice without harm or cost: they are retried if a replica is unavailable."""


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files for mutual TLS: the authority for servers' certificates, and the client's own certificate and key.

    They are read when a client opens: open another one after they were renewed.
    """

    ca: Path
    certificate: Path
    key: Path


def service_config() -> str:
    """Returns the channel's service config: balancing, health checking, retries.

    A test compares it, and `options`, with those that the services use among themselves.
    """
    retried = [{"service": service, "method": name} for service, names in _REPEATABLE.items() for name in names]
    policy = {
        "maxAttempts": 3,
        "initialBackoff": "0.1s",
        "maxBackoff": "1s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    return json.dumps(
        {
            "loadBalancingConfig": [{"round_robin": {}}],
            "healthCheckConfig": {"serviceName": ""},
            "retryThrottling": {"maxTokens": 100, "tokenRatio": 0.1},
            "methodConfig": [{"name": retried, "retryPolicy": policy}],
        }
    )


def options(*, streams: bool) -> list[tuple[str, str | int]]:
    """Returns the channel's options; `streams`: for streams of tokens, where a slow reader must be noticed."""
    settings: list[tuple[str, str | int]] = [
        ("grpc.service_config", service_config()),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.enable_http_proxy", 0),
        ("grpc.dns_min_time_between_resolutions_ms", 1000),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 3_000),
        ("grpc.http2.ping_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 2_000),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.max_metadata_size", _MAX_METADATA_BYTES),
    ]
    return [*settings, ("grpc.http2.lookahead_bytes", 64), ("grpc.http2.bdp_probe", 0)] if streams else settings


def full_target(target: str) -> str:
    """Returns a gRPC target; `host:port` is resolved repeatedly, so that new replicas are found."""
    has_scheme = "://" in target or target.startswith(("unix:", "dns:", "ipv4:", "ipv6:"))
    return target if has_scheme else f"dns:///{target}"


def credentials(tls: Tls) -> tuple[grpc.ChannelCredentials, bytes]:
    """Reads the files; returns the channel's credentials and the certificate that tokens are bound to.

    Raises:
        OSError: A file can't be read.
    """
    certificate = tls.certificate.read_bytes()
    made = grpc.ssl_channel_credentials(tls.ca.read_bytes(), tls.key.read_bytes(), certificate)
    return made, certificate
