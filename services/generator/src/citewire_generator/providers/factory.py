"""Builds remote chat providers: the operator's from the settings, tenants' from what they sealed.

An adapter is imported with the first provider of its kind. Importing its SDK takes longer than all else that the
generator imports, and most processes need one SDK or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import aiohttp

from citewire_generator.model import ModelInfo
from citewire_generator.providers.base import ChatProvider
from citewire_generator.providers.remote import open_session
from citewire_remote.stall_timeout import TimeLimits

if TYPE_CHECKING:
    from citewire_generator.providers.anthropic_messages import AnthropicMessages
    from citewire_generator.providers.openai_compatible import OpenAiCompatible

_BASES: Final = {
    "anthropic": "https://api.anthropic.com/v1",
    "openai": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
}
"""Addresses of kinds that have one."""


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
        kind: `anthropic`, `openai`, `openai-responses`, `ollama` or `openai-compatible`.
        api_base: Base URL that ends in `/v1`; "" for the kind's own.
        api_key: Its key; "" if it needs none.
        models: Its models, the default first.
        limits: Time limits.
        connector: Makes the connections; None for one without restrictions.
    """
    return load_adapter(kind)(
        open_session(limits, connector),
        api_base=api_base or _BASES.get(kind, ""),
        api_key=api_key,
        models=models,
        limits=limits,
        name=kind,
    )


def load_adapter(kind: str) -> type[AnthropicMessages] | type[OpenAiCompatible]:
    """Imports a kind's adapter. While calls are served, run it in a thread: it takes a second or more.

    Args:
        kind: As for `build_chat_provider`.
    """
    if kind == "anthropic":
        from citewire_generator.providers.anthropic_messages import AnthropicMessages

        return AnthropicMessages
    if kind == "openai-responses":
        from citewire_generator.providers.openai_responses import OpenAiResponses

        return OpenAiResponses
    from citewire_generator.providers.openai_compatible import OpenAiCompatible

    return OpenAiCompatible
