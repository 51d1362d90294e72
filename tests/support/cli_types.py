"""Types that the command line's fixtures and tests share."""

from __future__ import annotations

from collections.abc import Callable

from typer.testing import Result

Run = Callable[..., Result]
"""Runs `citewire` with the given arguments (and `stdin=`) against the fake gateway."""
