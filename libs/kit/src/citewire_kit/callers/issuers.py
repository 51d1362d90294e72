"""The issuers that a service trusts: the file of CITEWIRE_CALLER_ISSUERS."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Self, cast

import jwt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from citewire_kit.callers.token import LIFETIME_SECONDS
from citewire_kit.errors import CitewireError
from citewire_kit.tenant import Plan, Tenant, checked_tenant
from citewire_kit.tls_files import Stamp, stamp_of

ANY: Final = "*"

ALGORITHMS: Final = frozenset(
    {"EdDSA", "ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
)
"""Allowed algorithms: public keys only, because with a shared secret every service could sign."""

_MAX_KEYS: Final = 64

_Method = Annotated[str, Field(pattern=r"^(\*|[A-Za-z0-9_.]+/(\*|[A-Za-z0-9_]+))$")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Subject(_Model):
    """The tenant of an external issuer's subject, because its tokens name no organisation."""

    organisation: str
    """Its organisation."""

    user: str
    """Its user in that organisation."""

    plan: Plan
    """The tenant plan that limits it."""

    roles: tuple[str, ...] = ()
    """Its organisation roles."""

    groups: tuple[str, ...] = ()
    """Its groups."""

    methods: tuple[_Method, ...] = ()
    """The methods that it may call, if fewer than its issuer may."""

    @model_validator(mode="after")
    def _may_travel(self) -> Self:
        try:
            checked_tenant(self.tenant())
        except CitewireError as exc:
            raise ValueError(exc.message) from exc
        return self

    def tenant(self) -> Tenant:
        """Returns the subject as a tenant."""
        return Tenant(self.organisation, self.user, self.plan, self.roles, "", self.groups)


class Issuer(_Model):
    """One issuer, and what its tokens may do. Exactly one of `keys`, `keys_file` and `keys_url` is set."""

    keys: tuple[dict[str, Any], ...] = ()
    """Its public keys as JWKs, each with a `kid`."""

    keys_file: Path | None = None
    """File with its public keys, a JWK set; beside the file of issuers unless absolute."""

    keys_url: Annotated[str, Field(pattern="^https://.+")] | None = None
    """URL of its JWK set; fetched every five minutes, and when a key isn't known yet."""

    keys_ca: Path | None = None
    """File with the authority that certifies `keys_url`, in PEM; unset: the system's."""

    keys_bearer: Path | None = None
    """File with the bearer token for `keys_url`, read for each request."""

    organisations: tuple[str, ...] = ()
    """Ids of the organisations that its tokens may name; `*` for all. Not for an issuer with `subjects`."""

    methods: Annotated[tuple[_Method, ...], Field(min_length=1)]
    """The methods that may be called with its tokens: `*`, `package.Service/*` or `package.Service/Method`."""

    certificates: tuple[str, ...] = ()
    """Names (SAN) of the certificates with which its tokens may be sent. Required if the service uses TLS."""

    lifetime_seconds: int = Field(default=LIFETIME_SECONDS, ge=1, le=86_400)
    """Maximum lifetime of a token. Only an issuer with `subjects` may exceed the default, because the platform
    decides on the lifetime of its tokens."""

    subjects: Mapping[str, Subject] = {}
    """For an external issuer, such as Kubernetes: its subjects. All others are rejected."""

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: object) -> object:
        # Each subject of an external issuer has its own organisation.
        if isinstance(values, dict) and cast("dict[str, object]", values).get("subjects"):
            if "organisations" in values:
                raise ValueError("organisations: must be absent if subjects is given, because each subject has its own")
            return {**cast("dict[str, object]", values), "organisations": [ANY]}
        return cast("object", values)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if sum(bool(way) for way in (self.keys, self.keys_file, self.keys_url)) != 1:
            raise ValueError("set exactly one of keys, keys_file and keys_url")
        if self.lifetime_seconds > LIFETIME_SECONDS and not self.subjects:
            raise ValueError(f"lifetime_seconds: at most {LIFETIME_SECONDS} without subjects")
        if not self.organisations:
            raise ValueError("organisations: must list those that its tokens may be for, or *")
        return self


class _File(_Model):
    issuers: Mapping[str, Issuer] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A public key and its issuer."""

    issuer: str
    key: jwt.PyJWK


@dataclass(frozen=True, slots=True)
class Issuers:
    """The file's contents, with the keys from the files that it names. Keys at URLs are fetched later."""

    by_name: Mapping[str, Issuer]
    keys: Mapping[str, IssuerKey]
    """By `kid`."""

    @classmethod
    def read(cls, path: Path, *, tls: bool) -> tuple[Stamp, Self]:
        """Reads the file.

        Args:
            path: The file.
            tls: Whether callers have certificates, which every issuer must then name.

        Raises:
            OSError: A file can't be read.
            ValueError: The file isn't valid; the message says where.
        """
        before = stamp_of((path,))
        try:
            by_name = _File.model_validate_json(path.read_bytes()).issuers
        except ValidationError as exc:
            raise ValueError("; ".join(_describe(error) for error in exc.errors()[:8])) from None
        for name, issuer in by_name.items():
            if tls and not issuer.certificates:
                raise ValueError(f"issuers.{name}.certificates: is required with TLS, to say who may send its tokens")
        files = {name: path.parent / item.keys_file for name, item in by_name.items() if item.keys_file is not None}
        before += stamp_of(files.values())
        keys: dict[str, IssuerKey] = {}
        for name, issuer in by_name.items():
            for key in public_keys(name, parse_jwks(files[name].read_bytes()) if name in files else issuer.keys):
                if keys.setdefault(str(key.key.key_id), key) is not key:
                    raise ValueError(f"issuers.{name}.keys: the kid {key.key.key_id} is given twice")
        return before, cls(by_name, keys)


def parse_jwks(raw: bytes) -> tuple[dict[str, Any], ...]:
    """Parses a JWK set.

    Raises:
        ValueError: It isn't one.
    """
    values: object = json.loads(raw)
    keys = cast("dict[str, object]", values).get("keys") if isinstance(values, dict) else None
    if not isinstance(keys, list) or len(cast("list[object]", keys)) > _MAX_KEYS:
        raise ValueError(f"isn't a JWK set of at most {_MAX_KEYS} keys")
    return tuple(cast("list[dict[str, Any]]", keys))


def public_keys(issuer: str, jwks: tuple[dict[str, Any], ...], *, skip_unknown: bool = False) -> list[IssuerKey]:
    """Parses the keys of one issuer.

    Args:
        issuer: The issuer's name.
        jwks: The keys.
        skip_unknown: Whether to skip keys of unsupported kinds instead of rejecting them.

    Raises:
        ValueError: A key can't be used, is private, or has no `kid`.
    """
    return [key for jwk in jwks if (key := _public_key(issuer, jwk, skip_unknown=skip_unknown)) is not None]


def _public_key(issuer: str, jwk: dict[str, Any], *, skip_unknown: bool) -> IssuerKey | None:
    where = f"issuers.{issuer}.keys"
    if "d" in jwk:
        raise ValueError(f"{where}: contains a private key; give the public one")
    try:
        key = jwt.PyJWK.from_dict(jwk)
    except jwt.PyJWTError as exc:
        if skip_unknown:
            return None
        raise ValueError(f"{where}: a key can't be used ({exc.__class__.__name__})") from None
    if key.algorithm_name not in ALGORITHMS or not key.key_id or jwk.get("use", "sig") != "sig":
        if skip_unknown:
            return None
        raise ValueError(f"{where}: each key needs a kid, and must be a public one for signatures")
    return IssuerKey(issuer, key)


def _describe(error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"])
    return f"{where}: {str(error['msg']).removeprefix('Value error, ')}"
