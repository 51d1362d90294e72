"""Citewire's client: ask questions over an organisation's documents, with the source of each claim."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from citewire_client._async.chat import AsyncChatStream
    from citewire_client._async.client import AsyncCitewire
    from citewire_client._sync.chat import ChatStream
    from citewire_client._sync.client import Citewire
    from citewire_client.errors import (
        ApiError,
        AuthenticationError,
        BudgetExceededError,
        ChatFailedError,
        CitewireError,
        ConflictError,
        ConnectionFailedError,
        DocumentFailedError,
        InvalidRequestError,
        InvalidResponseError,
        NotFoundError,
        PermissionDeniedError,
        RateLimitError,
        StreamCutError,
        StreamError,
        TimedOutError,
        UnavailableError,
        UploadStuckError,
    )
    from citewire_client.requests import NOT_GIVEN

_HOMES = {
    "AsyncChatStream": "_async.chat",
    "AsyncCitewire": "_async.client",
    "ChatStream": "_sync.chat",
    "Citewire": "_sync.client",
    "NOT_GIVEN": "requests",
}
"""The module of each public name that isn't an error."""

__all__ = [
    "NOT_GIVEN",
    "ApiError",
    "AsyncChatStream",
    "AsyncCitewire",
    "AuthenticationError",
    "BudgetExceededError",
    "ChatFailedError",
    "ChatStream",
    "Citewire",
    "CitewireError",
    "ConflictError",
    "ConnectionFailedError",
    "DocumentFailedError",
    "InvalidRequestError",
    "InvalidResponseError",
    "NotFoundError",
    "PermissionDeniedError",
    "RateLimitError",
    "StreamCutError",
    "StreamError",
    "TimedOutError",
    "UnavailableError",
    "UploadStuckError",
]


def __getattr__(name: str) -> object:
    """Imports a name on first use: a program that only reads streams needn't import the models."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    """The public names."""
    return __all__
