"""Placeholder until the services exist."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from benchmarks.relay_load import Target


@contextlib.asynccontextmanager
async def citewire(
    *, core: int, other_core: int, upstream_url: str, logs: Path
) -> AsyncGenerator[tuple[Target, Callable[[], float]]]:
    """Generator and gateway."""
    raise NotImplementedError
    yield
