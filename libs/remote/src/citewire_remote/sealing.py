"""Encrypts tenants' secrets: a master key wraps a data key, which encrypts one secret for one owner.

Layout of what `seal` returns, all lengths in bytes:

    layout (1) | length of the key's id (1) | the key's id | nonce (12) | wrapped data key (32 + 16)
    | nonce (12) | ciphertext and tag

Both layers have the owner as associated data, so a ciphertext that was copied to another row can't be opened. A
rotation of master keys changes only the outer layer.
"""

import base64
import binascii
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from citewire_kit.errors import FailedPrecondition, StartupError
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

WHOLE: Final = 2
"""First byte of a provider sealed as one."""
_APART: Final = 1
"""First byte of one field of a provider, as earlier versions sealed key and address."""
KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_WRAPPED_BYTES: Final = KEY_BYTES + _TAG_BYTES
_KEY_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner and purpose of a secret, without which it can't be opened."""

    org_id: str
    """The organisation."""
    user_id: str
    """The user; "" if it is the organisation's."""
    type: str
    """The provider's purpose."""
    provider: str
    """The provider's kind."""
    field: str = ""
    """The field of a provider that an earlier version sealed separately; "" for the whole provider."""

    @property
    def layout(self) -> int:
        """First byte of secrets sealed for this owner."""
        return _APART if self.field else WHOLE

    def associated_data(self, layer: str) -> bytes:
        """Returns all parts, each preceded by its length, so that no two owners look the same."""
        parts = (
            f"citewire-provider-{self.layout}",
            layer,
            self.org_id,
            self.user_id,
            self.type,
            self.provider,
            self.field,
        )
        raw = [part.encode() for part in parts]
        return b"".join(len(part).to_bytes(4, "big") + part for part in raw)


class Keyring:
    """Master keys: the first seals, and all of them open.

    Args:
        keys: 32 bytes each, by id; the first is the newest.

    Raises:
        ValueError: There is none, an id is malformed, or a key has another length.
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        if not keys:
            raise ValueError("there is no master key")
        for key_id, key in keys.items():
            if _KEY_ID.fullmatch(key_id) is None:
                raise ValueError("a master key's id must be 1-64 characters of A-Z a-z 0-9 _ . -")
            if len(key) != KEY_BYTES:
                raise ValueError(f"master key {key_id} must be {KEY_BYTES} bytes long")
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self._first = next(iter(keys))

    @classmethod
    def parse(cls, text: str) -> "Keyring":
        """Reads `id:base64url(32 bytes)`, separated by commas or lines.

        Raises:
            ValueError: It isn't of that form; the message holds no key.
        """
        keys: dict[str, bytes] = {}
        for entry in filter(None, (part.strip() for part in re.split(r"[,\n]", text))):
            key_id, colon, encoded = entry.partition(":")
            if not colon or _KEY_ID.fullmatch(key_id) is None:
                raise ValueError("master keys are written id:base64url(32 bytes), separated by commas")
            if key_id in keys:
                raise ValueError(f"master key {key_id} is given twice")
            keys[key_id] = _decode(key_id, encoded)
        return cls(keys)

    @property
    def first(self) -> str:
        """Id of the key that seals."""
        return self._first

    @property
    def ids(self) -> Sequence[str]:
        """Ids of all keys, the sealing one first."""
        return tuple(self._ciphers)

    def seal(self, secret: bytes, owner: Owner) -> bytes:
        """Seals a secret for its owner, under the first key."""
        data_key = AESGCM.generate_key(KEY_BYTES * 8)
        nonce = os.urandom(_NONCE_BYTES)
        body = AESGCM(data_key).encrypt(nonce, secret, owner.associated_data("secret"))
        return self._wrap(data_key, owner) + nonce + body

    def open(self, sealed: bytes, owner: Owner) -> bytes:
        """Opens a secret that was sealed for this owner.

        Raises:
            FailedPrecondition: It was sealed for another owner, was changed, or its master key isn't here (reason
                `PROVIDER_SEAL`).
        """
        _, data_key, body = self._unwrap(sealed, owner)
        try:
            return AESGCM(data_key).decrypt(body[:_NONCE_BYTES], body[_NONCE_BYTES:], owner.associated_data("secret"))
        except (InvalidTag, ValueError) as exc:
            raise cannot_open("the secret was changed or belongs to another owner") from exc

    def rewrap(self, sealed: bytes, owner: Owner) -> bytes | None:
        """Seals the same secret under the first key; None if it already is sealed under it.

        The secret itself isn't opened: only its data key is wrapped again.

        Raises:
            FailedPrecondition: As `open`.
        """
        key_id, data_key, body = self._unwrap(sealed, owner)
        return None if key_id == self._first else self._wrap(data_key, owner) + body

    def _wrap(self, data_key: bytes, owner: Owner) -> bytes:
        key_id = self._first.encode()
        header = bytes((owner.layout, len(key_id))) + key_id
        nonce = os.urandom(_NONCE_BYTES)
        wrapped = self._ciphers[self._first].encrypt(nonce, data_key, header + owner.associated_data("key"))
        return header + nonce + wrapped

    def _unwrap(self, sealed: bytes, owner: Owner) -> tuple[str, bytes, bytes]:
        """Returns the master key's id, the data key, and the content sealed with it."""
        if len(sealed) < 2 or sealed[0] != owner.layout:
            raise cannot_open("the ciphertext is of an unknown version")
        start = 2 + sealed[1]
        header, rest = sealed[:start], sealed[start:]
        key_id = header[2:].decode("ascii", "replace")
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            log.error("master_key_missing", key_id=key_id[:64], known=list(self._ciphers))
            raise cannot_open("its master key isn't on this server")
        wrapped = rest[_NONCE_BYTES : _NONCE_BYTES + _WRAPPED_BYTES]
        try:
            data_key = cipher.decrypt(rest[:_NONCE_BYTES], wrapped, header + owner.associated_data("key"))
        except (InvalidTag, ValueError) as exc:
            raise cannot_open("it was changed or belongs to another owner") from exc
        return key_id, data_key, rest[_NONCE_BYTES + _WRAPPED_BYTES :]


class KeyFile:
    """A keyring from a file that is reloaded when it changes, so that a rotation needs no restart.

    Args:
        path: The file, in the format of `Keyring.parse`.

    Raises:
        StartupError: The file can't be read, or holds no keyring.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] = ()
        try:
            self._seen = _stamp(path)
            self._keyring = Keyring.parse(path.read_text("utf-8"))
        except (OSError, ValueError) as exc:
            raise StartupError(f"the master keys can't be read from {path}: {_described(exc)}") from exc
        log.info("master_keys_read", ids=list(self._keyring.ids))

    def keyring(self) -> Keyring:
        """Returns the file's current keys; if it is missing or malformed, logs that and returns the last good ones."""
        try:
            stamp = _stamp(self._path)
            if stamp != self._seen:
                self._seen = stamp
                self._keyring = Keyring.parse(self._path.read_text("utf-8"))
                log.info("master_keys_read", ids=list(self._keyring.ids))
        except (OSError, ValueError) as exc:
            log.error("master_keys_unreadable", error=_described(exc))  # noqa: TRY400 - a traceback could hold a key
        return self._keyring


KeySource = Callable[[], Keyring]
"""Returns the current master keys."""


def new_master_key(key_id: str) -> str:
    """Generates a master key in the format of `Keyring.parse`."""
    return f"{key_id}:{base64.urlsafe_b64encode(os.urandom(KEY_BYTES)).decode()}"


def cannot_open(why: str) -> FailedPrecondition:
    """Returns the error for a sealed provider that can't be opened (`PROVIDER_SEAL`)."""
    return FailedPrecondition(
        f"the provider's stored key or address can't be opened: {why}. Save the provider again.", reason="PROVIDER_SEAL"
    )


def _decode(key_id: str, encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded.rstrip("=") + "=" * (-len(encoded.rstrip("=")) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"master key {key_id} isn't base64url") from None


def _stamp(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev


def _described(exc: Exception) -> str:
    return exc.strerror or type(exc).__name__ if isinstance(exc, OSError) else str(exc)
