"""Unused ports of this machine."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Returns a port of loopback that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
