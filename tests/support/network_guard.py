"""Keeps tests on this machine: sockets may reach loopback and Unix sockets, and nothing else."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable
from typing import cast

import pytest

_CONNECTING = ("connect", "connect_ex", "sendto")
_FORGOTTEN = ("EMBEDDING_MODEL", "LLM_MODEL")
_FORGOTTEN_PREFIXES = ("CITEWIRE_", "OTEL_", "ANTHROPIC_", "OPENAI_", "OLLAMA_")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


class NetworkBlockedError(RuntimeError):
    """A test tried to connect to another machine. Not an OSError, which a client would retry or treat as an outage."""


def forget_environment() -> None:
    """Removes variables that would send a test's text to a provider or change a default, for children too."""
    for name in list(os.environ):
        if name in _FORGOTTEN or name.startswith(_FORGOTTEN_PREFIXES) or name.lower() in _PROXIES:
            del os.environ[name]


def block_network(patch: pytest.MonkeyPatch) -> None:
    """Makes Python's sockets and name look-ups reject everything beyond loopback."""
    for method in _CONNECTING:
        patch.setattr(socket.socket, method, _guarded(getattr(socket.socket, method)))
    look_up = cast("Callable[..., object]", socket.getaddrinfo)

    def getaddrinfo(host: bytes | str | None, *args: object, **kwargs: object) -> object:
        if host is not None and not is_local(host):
            _refuse(host)
        return look_up(host, *args, **kwargs)

    patch.setattr(socket, "getaddrinfo", getaddrinfo)


def is_local(host: bytes | str) -> bool:
    """Whether a host name or address stays on this machine; the wildcard addresses do, they are for listening."""
    name = host.decode() if isinstance(host, bytes) else host
    if name in {"", "localhost"}:
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _guarded(original: Callable[..., object]) -> Callable[..., object]:
    def call(self: socket.socket, *args: object) -> object:
        address = args[-1]
        if self.family != socket.AF_UNIX and isinstance(address, tuple) and address:
            host = cast("tuple[object, ...]", address)[0]
            if isinstance(host, (str, bytes)) and not is_local(host):
                _refuse(host)
        return original(self, *args)

    return call


def _refuse(host: object) -> None:
    msg = f"tests may not leave this machine, and this one tried to reach {host!r}"
    raise NetworkBlockedError(msg)
