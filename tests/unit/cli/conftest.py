"""Fixtures of the command line's tests."""

from __future__ import annotations

from cli_fixtures import gateway, run

__all__ = ["gateway", "run"]
