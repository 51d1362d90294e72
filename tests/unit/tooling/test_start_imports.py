"""What the services import before they serve: every process of every stack pays for it."""

from __future__ import annotations

import subprocess
import sys

SLOW = {"anthropic", "openai", "huggingface_hub"}
"""Packages that are needed only where a provider or a model of the hub is configured."""


def test_services_start_without_providers_sdks() -> None:
    code = f"import sys, citewire_generator.app, citewire_embedder.app; print(*sorted({SLOW} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []
