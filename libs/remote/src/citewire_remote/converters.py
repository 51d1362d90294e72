"""Checks the messages of tenant providers for the converters of the embedder and the generator."""

from collections.abc import Collection

from citewire.common.v1 import common_pb2 as pb

from citewire_kit.errors import Violations
from citewire_remote.kinds import KINDS, PROVIDER_TYPES, ProviderType, normalise_base
from citewire_remote.tenant_providers import TenantProvider

MAX_MODEL_BYTES = 200
MAX_BASE_BYTES = 2048
MAX_KEY_BYTES = 4096
MAX_SEALED_BYTES = 8192
MAX_DIMENSIONS = 4096


def ref_from_proto(v: Violations, ref: pb.ProviderRef, at: str, types: Collection[ProviderType]) -> pb.ProviderRef:
    """Checks a ProviderRef, whose type must be one of `types`, and returns it."""
    provider_type = _type(v, ref.type, f"{at}.type", types)
    if provider_type is not None:
        _check_kind(v, provider_type, ref.provider, f"{at}.provider")
    _check_model(v, ref.model, f"{at}.model")
    for name in ("sealed_api_base", "sealed_key"):
        v.require(
            len(getattr(ref, name)) <= MAX_SEALED_BYTES, f"{at}.{name}", f"must be at most {MAX_SEALED_BYTES} bytes"
        )
    v.require(ref.dimensions <= MAX_DIMENSIONS, f"{at}.dimensions", f"must be at most {MAX_DIMENSIONS}")
    return ref


def sealed_from_proto(ref: pb.ProviderRef, types: Collection[ProviderType]) -> pb.ProviderRef:
    """Checks the ProviderRef of a RewrapProviderRequest or a TestProviderRequest.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    ref_from_proto(v, ref, "ref", types)
    v.raise_if_any()
    return ref


def provider_from_proto(spec: pb.ProviderSpec, types: Collection[ProviderType]) -> TenantProvider:
    """Reads a ProviderSpec, whose type must be one of `types`.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    provider_type = _type(v, spec.type, "type", types)
    _check_model(v, spec.model, "model")
    key = spec.api_key.strip()
    # A header takes printable ASCII only, so nothing else can be a key.
    if v.require(len(key) <= MAX_KEY_BYTES, "api_key", f"must be at most {MAX_KEY_BYTES} bytes"):
        v.require(not key or (key.isascii() and key.isprintable()), "api_key", "must be printable ASCII")
    base = _base(v, spec.api_base)
    v.require(spec.dimensions <= MAX_DIMENSIONS, "dimensions", f"must be at most {MAX_DIMENSIONS}")
    embeds = provider_type is ProviderType.EMBEDDING
    v.require(not spec.dimensions or embeds, "dimensions", "is for embedding providers only")
    if provider_type is not None and _check_kind(v, provider_type, spec.provider, "provider"):
        kind = KINDS[provider_type][spec.provider]
        v.require(bool(spec.model or kind.model), "model", f"is required for {spec.provider}")
        v.require(bool(key) or not kind.needs_key, "api_key", f"is required for {spec.provider}")
        v.require(bool(spec.api_base) or not kind.needs_base, "api_base", f"is required for {spec.provider}")
    v.raise_if_any()
    return TenantProvider(
        type=provider_type or ProviderType.CHAT,  # None was refused above
        provider=spec.provider,
        model=spec.model,
        api_base=base,
        api_key=key,
        user_id=spec.user_id,
        dimensions=spec.dimensions,
    )


def _type(v: Violations, number: int, at: str, types: Collection[ProviderType]) -> ProviderType | None:
    provider_type = PROVIDER_TYPES.from_proto(number)
    v.require(provider_type in types, at, f"must be {' or '.join(types)} here")
    return provider_type if provider_type in types else None


def _check_kind(v: Violations, provider_type: ProviderType, provider: str, at: str) -> bool:
    kinds = KINDS[provider_type]
    return v.require(provider in kinds, at, f"must be one of {', '.join(kinds)}")


def _check_model(v: Violations, text: str, at: str) -> None:
    fits = len(text.encode()) <= MAX_MODEL_BYTES and text.isprintable()
    v.require(fits, at, f"must be one line of at most {MAX_MODEL_BYTES} bytes")


def _base(v: Violations, url: str) -> str:
    if not url:
        return ""
    if not v.require(len(url.encode()) <= MAX_BASE_BYTES, "api_base", f"must be at most {MAX_BASE_BYTES} bytes"):
        return ""
    try:
        return normalise_base(url)
    except ValueError as exc:
        v.add("api_base", str(exc))
        return ""
