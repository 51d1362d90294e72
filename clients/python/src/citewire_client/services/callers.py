"""The caller of a call, and the token that identifies it."""

import base64
import hashlib
import json
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from jwt.algorithms import OKPAlgorithm

_LIFETIME_SECONDS: Final = 25
_REUSE_SECONDS: Final = 15.0
"""How long a token is reused; short enough that a call that waits for its connection arrives before it expires."""
_MAX_TOKENS: Final = 4096


@dataclass(frozen=True, slots=True)
class Caller:
    """The user on whose behalf your service calls: an organisation's member, as known to Citewire."""

    org: str
    user: str
    plan: str = "pro"
    roles: tuple[str, ...] = ("reader",)
    groups: tuple[str, ...] = ()


class CallerToken(Protocol):
    """Creates the token of a call."""

    def token(self, service: str, caller: Caller, certificate: bytes) -> str:
        """Returns the token that proves a call's caller to `embedder`, `retriever` or `generator`.

        Args:
            service: The called service.
            caller: The caller.
            certificate: The client's own certificate in PEM, which the token is bound to; b"" if it has none.
        """
        ...


class CallerKey:
    """Signs with a private key of your service, which `issuers.json` knows (`python -m citewire_kit.callers make`).

    A token is reused for a while. The key's file may be replaced at any time.
    """

    def __init__(self, issuer: str, file: str | Path) -> None:
        """Reads the key: Ed25519, PEM, without a password. `issuer` is its entry in `issuers.json`.

        Raises:
            OSError: There is no such file.
            ValueError: The file contains no such key.
        """
        self._issuer, self._file = issuer, Path(file)
        self._tokens: dict[tuple[Caller, str, bytes], tuple[str, float]] = {}
        self._stamp = self._file.stat().st_mtime_ns
        self._private, self._key_id = _read(self._file)

    def token(self, service: str, caller: Caller, certificate: bytes) -> str:
        """See `CallerToken.token`."""
        self._follow_file()
        entry, now = (caller, service, certificate), time.time()
        known = self._tokens.get(entry)
        if known is not None and now < known[1]:
            return known[0]
        self._tokens.pop(entry, None)
        if len(self._tokens) >= _MAX_TOKENS:
            self._tokens.pop(next(iter(self._tokens)))
        claims: dict[str, object] = {
            "iss": self._issuer,
            "aud": f"citewire-{service}",
            "iat": int(now),
            "exp": int(now) + _LIFETIME_SECONDS,
            "org": caller.org,
            "sub": caller.user,
            "plan": caller.plan,
            "roles": list(caller.roles),
            "groups": list(caller.groups),
        }
        if certificate:
            claims["cnf"] = {"x5t#S256": _thumbprint(certificate)}
        header = {"typ": "cw-caller+jwt", "kid": self._key_id}
        token = jwt.encode(claims, self._private, algorithm="EdDSA", headers=header)
        self._tokens[entry] = (token, now + _REUSE_SECONDS)
        return token

    def _follow_file(self) -> None:
        """Reloads the key if its file was replaced; while the file can't be read, the last key is used."""
        try:
            stamp = self._file.stat().st_mtime_ns
            if stamp == self._stamp:
                return
            self._private, self._key_id = _read(self._file)
        except (OSError, ValueError):
            return
        self._stamp = stamp
        self._tokens.clear()


class TokenFile:
    """A token in a file that another process keeps fresh, such as Kubernetes' projected service account token.

    The token itself names the caller: the `caller` of calls isn't sent.
    """

    def __init__(self, file: str | Path) -> None:
        """The file is read for each call."""
        self._file = Path(file)

    def token(self, service: str, caller: Caller, certificate: bytes) -> str:  # see the class
        """See `CallerToken.token`; raises OSError if there is no file."""
        return self._file.read_text(encoding="ascii").strip()


def _read(file: Path) -> tuple[Ed25519PrivateKey, str]:
    try:
        key = load_pem_private_key(file.read_bytes(), None)
    except (ValueError, TypeError):
        raise ValueError(f"{file} isn't a private key in PEM without a password") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{file} isn't an Ed25519 key")  # noqa: TRY004 # about a file, not an argument
    public = OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    # RFC 7638.
    canonical = json.dumps({name: public[name] for name in ("crv", "kty", "x")}, separators=(",", ":"))
    return key, _base64url(hashlib.sha256(canonical.encode()).digest())


def _thumbprint(certificates: bytes) -> str:
    """The thumbprint of a chain's first certificate (RFC 8705)."""
    end = "-----END CERTIFICATE-----"
    first = certificates.decode("ascii").partition(end)[0]
    begin = first.find("-----BEGIN CERTIFICATE-----")
    return _base64url(hashlib.sha256(ssl.PEM_cert_to_DER_cert(first[begin:] + end)).digest())


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def metadata_of(
    signer: CallerToken | None, service: str, caller: Caller | None, certificate: bytes, request_id: str
) -> Sequence[tuple[str, str]]:
    """Returns the metadata of a call.

    Raises:
        ValueError: There is a signer but no caller.
    """
    carried = [("x-request-id", request_id)] if request_id else []
    if signer is None:
        return carried
    if caller is None:
        raise ValueError("this call has no caller: pass `caller` to the client or to the call")
    return [*carried, ("cw-caller", signer.token(service, caller, certificate))]
