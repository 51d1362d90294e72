"""The channel factory for calls between our processes."""

import json
from collections.abc import Iterable

import grpc

from citewire_kit.callers.signer import Signer
from citewire_kit.tls import RenewedChannel
from citewire_kit.tls_files import TlsFiles

MAX_MESSAGE_BYTES = 16 * 1024 * 1024

MAX_METADATA_BYTES = 256 * 1024
"""Maximum total size of a call's metadata: enough for a caller with 200 groups of long names."""

# Unary calls that can safely run twice, and are retried on UNAVAILABLE. Calls that write, or that cost money at a
# model provider, are not included.
IDEMPOTENT: tuple[tuple[str, str], ...] = (
    ("citewire.embedder.v1.EmbedderService", "Embed"),
    ("citewire.embedder.v1.EmbedderService", "CountTokens"),
    ("citewire.embedder.v1.EmbedderService", "ListModels"),
    ("citewire.retriever.v1.RetrieverService", "Plan"),
    ("citewire.retriever.v1.RetrieverService", "Search"),
    ("citewire.retriever.v1.RetrieverService", "GetChunks"),
    ("citewire.retriever.v1.CorpusService", "GetDocument"),
    ("citewire.retriever.v1.CorpusService", "ListDocuments"),
    ("citewire.retriever.v1.CorpusService", "ListCollections"),
    ("citewire.retriever.v1.CorpusService", "ListSpaces"),
    ("citewire.generator.v1.GeneratorService", "ListModels"),
)


def open_channel(
    target: str,
    *,
    streams: bool = False,
    idempotent: Iterable[tuple[str, str]] = IDEMPOTENT,
    tls: TlsFiles | None = None,
    signer: Signer | None = None,
) -> grpc.aio.Channel:
    """Opens a channel that spreads calls over all healthy replicas behind `target`.

    Args:
        target: `host:port`, or a full gRPC target such as `dns:///name:port` or `unix:/path`.
        streams: For streams of tokens. With a tiny receive window, the sender notices a slow reader and sends several
            tokens in one message. It would slow large unary calls down, so streams have their own channel.
        idempotent: (service, method) pairs of unary calls that are retried when a replica is unavailable.
        tls: The caller's certificate, for mutual TLS; the server's must name the target's host. None: no TLS.
        signer: Signs each call's tenant. None: calls don't identify a caller.

    Returns:
        The channel; the caller closes it. Nothing is connected before the first call.

    Raises:
        StartupError: The certificate can't be read.
    """
    address, options = _full_target(target), _options(streams=streams, idempotent=tuple(idempotent))

    def opened(credentials: grpc.ChannelCredentials | None) -> grpc.aio.Channel:
        if credentials is None:
            return grpc.aio.insecure_channel(address, options=options)
        return grpc.aio.secure_channel(address, credentials, options=options)

    return RenewedChannel(tls, signer, opened)


def service_config(idempotent: Iterable[tuple[str, str]] = IDEMPOTENT) -> str:
    """Returns the channel's service config: balancing, health checking, retries."""
    retried = [{"service": service, "method": method} for service, method in idempotent]
    config: dict[str, object] = {
        "loadBalancingConfig": [{"round_robin": {}}],
        "healthCheckConfig": {"serviceName": ""},
        # Retries stop while more than about one call in ten fails, so that they don't add to an overload.
        "retryThrottling": {"maxTokens": 100, "tokenRatio": 0.1},
    }
    if retried:
        config["methodConfig"] = [
            {
                "name": retried,
                "retryPolicy": {
                    "maxAttempts": 3,
                    "initialBackoff": "0.1s",
                    "maxBackoff": "1s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ]
    return json.dumps(config)


def _full_target(target: str) -> str:
    return target if "://" in target or target.startswith(("unix:", "dns:", "ipv4:", "ipv6:")) else f"dns:///{target}"


def _options(*, streams: bool, idempotent: Iterable[tuple[str, str]]) -> list[tuple[str, str | int]]:
    options: list[tuple[str, str | int]] = [
        ("grpc.service_config", service_config(idempotent)),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.enable_http_proxy", 0),  # our services are never behind a proxy from the environment
        ("grpc.dns_min_time_between_resolutions_ms", 1000),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 3_000),
        # A keepalive ping waits for an unanswered ping of flow control, whose default timeout is a minute.
        ("grpc.http2.ping_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 2_000),  # in C-core this limits the duration of one connection attempt
        ("grpc.max_reconnect_backoff_ms", 2_000),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    ]
    if streams:
        options += [("grpc.http2.lookahead_bytes", 64), ("grpc.http2.bdp_probe", 0)]
    return options
