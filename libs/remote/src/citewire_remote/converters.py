"""Between the contracts' messages and `tenants`; for the converters of the embedder and the generator."""

from collections.abc import Collection

from citewire.common.v1 import common_pb2 as pb

from citewire_kit.enums import EnumMap
from citewire_kit.errors import Violations
from citewire_remote.kinds import KINDS, ProviderType, normalise_base
from citewire_remote.tenants import ProviderSpec, SealedProvider, TrialReport

MAX_MODEL_BYTES = 200
MAX_BASE_BYTES = 2048
MAX_KEY_BYTES = 4096
MAX_SEALED_BYTES = 8192
MAX_DIMENSIONS = 4096

_TYPES = EnumMap(ProviderType, pb.ProviderType)


def to_sealed(v: Violations, ref: pb.ProviderRef, at: str, types: Collection[ProviderType]) -> SealedProvider | None:
    """Reads a ProviderRef whose type must be one of `types`; notes what is wrong with it, and returns None then."""
    found = _type(v, ref.type, f"{at}.type", types)
    known = found is not None and _kind(v, found, ref.provider, f"{at}.provider")
    _line(v, ref.model, f"{at}.model")
    for name in ("sealed_api_base", "sealed_key"):
        v.require(
            len(getattr(ref, name)) <= MAX_SEALED_BYTES, f"{at}.{name}", f"must be at most {MAX_SEALED_BYTES} bytes"
        )
    v.require(ref.dimensions <= MAX_DIMENSIONS, f"{at}.dimensions", f"must be at most {MAX_DIMENSIONS}")
    if found is None or not known:
        return None
    return SealedProvider(
        type=found,
        provider=ref.provider,
        model=ref.model,
        sealed_api_base=ref.sealed_api_base,
        sealed_key=ref.sealed_key,
        user_id=ref.user_id,
        dimensions=ref.dimensions,
    )


def to_ref(ref: pb.ProviderRef, types: Collection[ProviderType]) -> SealedProvider:
    """Reads the ProviderRef of a RewrapProviderRequest.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    sealed = to_sealed(v, ref, "ref", types)
    v.raise_if_any()
    if sealed is None:
        raise RuntimeError("a ProviderRef that can't be read has violations")
    return sealed


def to_spec(spec: pb.ProviderSpec, types: Collection[ProviderType]) -> ProviderSpec:
    """Reads a ProviderSpec message whose type must be one of `types`.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    found = _type(v, spec.type, "type", types)
    known = found is not None and _kind(v, found, spec.provider, "provider")
    _line(v, spec.model, "model")
    key = spec.api_key.strip()
    # A header takes printable ASCII only; whatever else it is, it is no key.
    if v.require(len(key) <= MAX_KEY_BYTES, "api_key", f"must be at most {MAX_KEY_BYTES} bytes"):
        v.require(not key or (key.isascii() and key.isprintable()), "api_key", "must be printable ASCII")
    base = _base(v, spec.api_base)
    v.require(spec.dimensions <= MAX_DIMENSIONS, "dimensions", f"must be at most {MAX_DIMENSIONS}")
    v.require(not spec.dimensions or found is ProviderType.EMBEDDING, "dimensions", "is for embedding providers only")
    if found is not None and known:
        kind = KINDS[found][spec.provider]
        v.require(bool(spec.model or kind.model), "model", f"is required for {spec.provider}")
        v.require(bool(key) or not kind.needs_key, "api_key", f"is required for {spec.provider}")
        v.require(bool(spec.api_base) or not kind.needs_base, "api_base", f"is required for {spec.provider}")
    v.raise_if_any()
    return ProviderSpec(
        type=found or ProviderType.CHAT,  # None was refused above
        provider=spec.provider,
        model=spec.model,
        api_base=base,
        api_key=key,
        user_id=spec.user_id,
        dimensions=spec.dimensions,
    )


def from_sealed(sealed: SealedProvider) -> pb.ProviderRef:
    """Writes a sealed provider."""
    return pb.ProviderRef(
        provider=sealed.provider,
        model=sealed.model,
        sealed_api_base=sealed.sealed_api_base,
        sealed_key=sealed.sealed_key,
        type=_TYPES.to_proto(sealed.type),
        user_id=sealed.user_id,
        dimensions=sealed.dimensions,
    )


def from_report(report: TrialReport) -> pb.ProviderTest:
    """Writes how a test call went."""
    return pb.ProviderTest(
        tried=report.tried,
        ok=report.ok,
        reason=report.reason,
        text=report.text,
        status=report.status,
        dimensions=report.dimensions,
    )


def _type(v: Violations, number: int, at: str, types: Collection[ProviderType]) -> ProviderType | None:
    found = _TYPES.from_proto(number)
    v.require(found in types, at, f"must be {' or '.join(types)} here")
    return found if found in types else None


def _kind(v: Violations, found: ProviderType, provider: str, at: str) -> bool:
    return v.require(provider in KINDS[found], at, f"must be one of {', '.join(KINDS[found])}")


def _line(v: Violations, text: str, at: str) -> None:
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
