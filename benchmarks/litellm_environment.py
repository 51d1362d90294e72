"""LiteLLM's proxy in its own environment, and its environment variables."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from scripts.tool_environment import ROOT, install_tool

REQUIREMENTS = ROOT / "benchmarks" / "litellm-requirements.txt"
_LEFT_OUT = ("CITEWIRE_", "OPENAI_", "ANTHROPIC_", "OLLAMA_", "LITELLM_", "OTEL_", "VIRTUAL_ENV", "PYTHON")


def install() -> Path:
    """Returns the proxy's program; see `install_tool`."""
    return install_tool("litellm", "LiteLLM's proxy", REQUIREMENTS)


def environment() -> dict[str, str]:
    """The proxy's environment variables: production settings from its documentation, without internet access.

    Proxies, providers and our own settings are left out, because they would change its behaviour.
    """
    plain = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_LEFT_OUT) and not name.lower().endswith("_proxy")
    }
    return {
        **plain,
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOG": "ERROR",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_DONT_SHOW_FEEDBACK_BOX": "True",
        "NO_DOCS": "True",
    }


if __name__ == "__main__":
    try:
        install()
    except RuntimeError as exc:
        sys.exit(str(exc))
