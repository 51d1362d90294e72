"""Keeping a provider's key and address out of the log: providers quote them in their errors."""

from typing import Final

from yarl import URL

HIDDEN: Final = "[hidden]"
_SHORTEST: Final = 4


class Redaction:
    """Hides a key, and an address with what a server sees of it.

    Args:
        api_key: The key.
        api_base: The address; its path may hold a secret of its own.
    """

    def __init__(self, api_key: str = "", api_base: str = "") -> None:
        path = URL(api_base).path.rstrip("/").removesuffix("/v1") if api_base else ""
        secrets = {api_key, api_base, api_base.removesuffix("/v1"), path, path.strip("/")}
        # The longest first, so that none is left in half.
        self._secrets = sorted((one for one in secrets if len(one) >= _SHORTEST), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Returns the text without them."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text
