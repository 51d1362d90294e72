"""Builds remote chat providers: the operator's from the settings, tenants' from what they sealed."""

from typing import Final

import aiohttp

from citewire_generator.model import ModelInfo
from citewire_generator.providers.anthropic_messages import AnthropicMessages
from citewire_generator.providers.base import ChatProvider
from citewire_generator.providers.openai_compatible import OpenAiCompatible
from citewire_generator.providers.remote import open_session
from citewire_remote.stall_timeout import TimeLimits

_BASES: Final = {"anthropic": "https://api.anthropic.com/v1", "openai": "https://api.openai.com/v1"}
"""Addresses of those that have one."""


def build_chat_provider(
    kind: str,
    *,
    api_base: str,
    api_key: str,
    models: tuple[ModelInfo, ...],
    limits: TimeLimits,
    connector: aiohttp.BaseConnector | None = None,
) -> ChatProvider:
    """Builds a provider. Nothing is connected to before its first call.

    Args:
        kind: `anthropic`, `openai`, `ollama` or `openai-compatible`.
        api_base: Base URL that ends in `/v1`; "" for the kind's own.
        api_key: Its key; "" if it needs none.
        models: What it offers, the default first.
        limits: Time limits.
        connector: Makes the connections; None for one that may go anywhere.
    """
    adapter = AnthropicMessages if kind == "anthropic" else OpenAiCompatible
    return adapter(
        open_session(limits, connector),
        api_base=api_base or _BASES.get(kind, ""),
        api_key=api_key,
        models=models,
        limits=limits,
        name=kind,
    )
