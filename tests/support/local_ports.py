"""Unused ports of this machine."""

from __future__ import annotations

from citewire_cli.stack.ports import hold_free_port


def free_port() -> int:
    """Returns a port of loopback that was free a moment ago."""
    with hold_free_port() as holder:
        return int(holder.getsockname()[1])
