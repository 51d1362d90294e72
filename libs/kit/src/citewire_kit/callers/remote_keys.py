"""The keys of issuers that serve them at an address, such as a Kubernetes cluster."""

import asyncio
import math
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.request import HTTPDefaultErrorHandler, HTTPErrorProcessor, HTTPSHandler, OpenerDirector, Request

from citewire_kit.callers.issuers import Issuer, IssuerKey, parse_jwks, public_keys
from citewire_kit.telemetry import get_logger

_FRESH_SECONDS: Final = 300.0
"""How long keys are used before they are fetched again, unless one is missing."""

_AGAIN_SECONDS: Final = 10.0
"""Minimum interval between fetches from a URL, whatever keys callers name."""

_TIMEOUT_SECONDS: Final = 2.0
_MAX_BYTES: Final = 256 * 1024

log = get_logger(__name__)


class RemoteKeys:
    """Fetches key sets when they are needed, and keeps the last ones while a URL doesn't respond."""

    def __init__(self) -> None:
        self._fetched: dict[tuple[str, str], _Fetched] = {}

    async def find(self, issuers: Mapping[str, Issuer], key_id: str) -> list[IssuerKey]:
        """Returns the keys of that id. Fetches sets that are old, or that may contain a key not known yet."""
        asked = [(name, issuer) for name, issuer in issuers.items() if issuer.keys_url]
        return [key for keys in await asyncio.gather(*(self._find(*each, key_id) for each in asked)) for key in keys]

    async def _find(self, name: str, issuer: Issuer, key_id: str) -> list[IssuerKey]:
        state = self._fetched.setdefault((name, str(issuer.keys_url)), _Fetched())
        async with state.lock:  # waiters find the keys already fetched
            known = any(item.key.key_id == key_id for item in state.keys)
            if time.monotonic() - state.tried > (_FRESH_SECONDS if known else _AGAIN_SECONDS):
                await state.fetch(name, issuer)
        return [item for item in state.keys if item.key.key_id == key_id]


@dataclass(slots=True)
class _Fetched:
    """The keys from one URL."""

    keys: list[IssuerKey] = field(default_factory=list[IssuerKey])
    tried: float = -math.inf
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def fetch(self, name: str, issuer: Issuer) -> None:
        """Fetches once; the previous keys stay if that fails."""
        self.tried = time.monotonic()
        try:
            raw = await asyncio.to_thread(_get, issuer)
            self.keys = public_keys(name, parse_jwks(raw), skip_unknown=True)
        except (OSError, ValueError) as exc:
            log.warning("caller_keys_unreachable", issuer=name, error=str(exc))
        else:
            log.info("caller_keys_fetched", issuer=name, keys=len(self.keys))


def _get(issuer: Issuer) -> bytes:
    context = ssl.create_default_context(cafile=issuer.keys_ca)
    request = Request(str(issuer.keys_url))  # noqa: S310 # the settings allow only https
    if issuer.keys_bearer is not None:
        request.add_header("Authorization", f"Bearer {issuer.keys_bearer.read_text().strip()}")
    # No redirects and no proxy: keys come from the configured URL or not at all.
    opener = OpenerDirector()
    for handler in (HTTPSHandler(context=context), HTTPErrorProcessor(), HTTPDefaultErrorHandler()):
        opener.add_handler(handler)
    with opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
        raw: bytes = response.read(_MAX_BYTES + 1)
    if len(raw) > _MAX_BYTES:
        raise ValueError("the key set is too large")
    return raw
