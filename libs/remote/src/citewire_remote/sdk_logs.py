"""Keeping the SDKs' own logs quiet: at level DEBUG they hold keys and prompts, at INFO every address."""

import logging
from typing import Final

_LOGGERS: Final = ("anthropic", "openai", "httpx2", "httpcore2")


def quiet_sdks() -> None:
    """Lets only warnings of theirs through, whatever the process's level and the environment say."""
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
