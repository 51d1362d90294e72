"""The windows of limits, which end by the clock: a test that counts to a limit would fail if one ended meanwhile."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

from citewire_accounts.tenants import failed_keys
from citewire_kit import limiter

if TYPE_CHECKING:
    import pytest


def stop_limit_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops the clock of the windows in this process until the test ends."""
    now = time.time()
    for module in (limiter, failed_keys):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: now))
