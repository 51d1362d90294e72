"""The services' imports at the start, which every process of every stack pays for."""

from __future__ import annotations

import subprocess
import sys

SLOW = {"anthropic", "openai", "huggingface_hub"}
"""Packages that are needed only if a provider or a model from the hub is configured."""


def test_services_start_without_providers_sdks() -> None:
    code = f"import sys, citewire_generator.app, citewire_embedder.app; print(*sorted({SLOW} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []
