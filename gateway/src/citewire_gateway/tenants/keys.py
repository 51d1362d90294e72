"""API keys: how they look, and how they are kept."""

import hashlib
import re
import secrets
from dataclasses import dataclass

_KEY = re.compile(r"cw_[A-Za-z0-9_-]{43}")
_PREFIX_CHARS = 11  # `cw_` and 8 characters: 48 of 256 bits, enough to recognise a key, useless to guess it


@dataclass(frozen=True, slots=True, repr=False)
class NewKey:
    """A key that was just made. Its text exists only here: what is kept is its hash."""

    text: str
    key_id: str

    @property
    def prefix(self) -> str:
        """The first characters, by which its owner recognises it."""
        return self.text[:_PREFIX_CHARS]

    @property
    def hash(self) -> bytes:
        """What is kept."""
        return hash_key(self.text)

    def __repr__(self) -> str:
        return f"NewKey({self.prefix}…)"


def make_key() -> NewKey:
    """Makes a key of 32 random bytes."""
    return NewKey(text=f"cw_{secrets.token_urlsafe(32)}", key_id=f"key_{secrets.token_hex(8)}")


def is_key(text: str) -> bool:
    """Says whether `text` has the form of a key; what hasn't needs no look into the database."""
    return _KEY.fullmatch(text) is not None


def hash_key(text: str) -> bytes:
    """Returns the SHA-256 of a key.

    A slow, salted hash would protect a secret that can be guessed from a leaked table. This one is 256 random bits, so
    a fast hash gives nothing away, can be looked up by index, and costs a request next to nothing.
    """
    return hashlib.sha256(text.encode()).digest()
