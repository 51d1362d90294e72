"""Seals data kept by browsers for the gateway, and provider tokens kept by the gateway."""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from typing import Any, Final, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES: Final = 12
MIN_SECRET_CHARS: Final = 32


class Sealer:
    """AES-256-GCM under the session secret; what is sealed for one purpose can't be opened for another.

    The first secret seals, all of them open: a new one is put first, and the old one is removed when its sessions have
    ended.
    """

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._keys = [AESGCM(hashlib.sha256(b"citewire-session\0" + secret.encode()).digest()) for secret in secrets]

    def seal(self, value: Mapping[str, Any], purpose: str, seconds: float) -> bytes:
        """Seals an object for some time."""
        nonce = os.urandom(_NONCE_BYTES)
        content = json.dumps({"until": time.time() + seconds, "value": value}).encode()
        return nonce + self._keys[0].encrypt(nonce, content, purpose.encode())

    def open(self, sealed: bytes, purpose: str) -> dict[str, Any] | None:
        """Opens sealed data; None if the key or the purpose differs, or it has expired."""
        for key in self._keys:
            try:
                content = key.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], purpose.encode())
            except (InvalidTag, ValueError):
                continue
            held = cast("dict[str, Any]", json.loads(content))
            return held["value"] if held["until"] > time.time() else None
        return None
