"""Keeps keys, addresses and prompts out of the log: providers quote them in errors, and their SDKs log requests."""

import logging
from typing import Final

from yarl import URL

HIDDEN: Final = "[hidden]"
_SHORTEST: Final = 4
_SDK_LOGGERS: Final = ("anthropic", "openai", "httpx2", "httpcore2")


class Redaction:
    """Hides a key and an address, with the parts of the address that a server sees.

    Args:
        api_key: The key.
        api_base: The address; its path may hold a secret of its own.
    """

    def __init__(self, api_key: str = "", api_base: str = "") -> None:
        path = URL(api_base).path.rstrip("/").removesuffix("/v1") if api_base else ""
        secrets = {api_key, api_base, api_base.removesuffix("/v1"), path, path.strip("/")}
        # The longest first, so that no secret is replaced in part.
        self._secrets = sorted((secret for secret in secrets if len(secret) >= _SHORTEST), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Returns the text without them."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text


def quiet_sdks() -> None:
    """Lets only warnings of the SDKs through: at DEBUG they log keys and prompts, at INFO every address."""
    for name in _SDK_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
