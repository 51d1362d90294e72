"""Failures of remote providers, as errors that are safe for clients.

They contain no text of the provider. It is logged, shortened and without the key, because it tells an operator which
parameter, model or limit is wrong.
"""

import email.utils
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from citewire_kit.errors import (
    CitewireError,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    ResourceExhausted,
    Unavailable,
)
from citewire_remote.redaction import Redaction

MAX_LOGGED = 300
_PROVIDER = "the model provider"
_MAX_RETRY_AFTER = 3600.0
_MAX_COUNT = 2**31 - 1
_OVERFLOW_CODES = frozenset({"context_length_exceeded", "context_window_exceeded", "string_above_max_length"})
_OVERFLOW_TEXTS = (
    "maximum context length",
    "context window",
    "context length",
    "too many tokens",
    "prompt is too long",
)
_RATE_CODES = frozenset(
    {"rate_limit_exceeded", "insufficient_quota", "rate_limit_error", "throttling_error", "requests", "tokens"}
)
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})
_AUTH_CODES = frozenset({"invalid_api_key", "authentication_error", "permission_error", "invalid_authentication"})
_SERVER_CODES = frozenset(
    {
        "server_error", "overloaded_error", "api_error", "internal_server_error", "service_unavailable",
        "internal_error", "timeout",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProviderError:
    """A provider's error object, for classification and for the log, not for clients."""

    code: str = ""
    type: str = ""
    text: str = ""

    def log_fields(self, redact: Redaction) -> dict[str, str]:
        """Returns its parts for the log: each a short line without key and address."""
        parts = {"error_code": (self.code, 80), "error_type": (self.type, 80), "error_text": (self.text, MAX_LOGGED)}
        return {name: redact(" ".join(text.split()))[:most] for name, (text, most) in parts.items()}

    @property
    def is_content_filter(self) -> bool:
        """Whether the provider's filter rejected the prompt."""
        return "content_filter" in (self.code, self.type) or self.code == "content_policy_violation"


def read_error(body: bytes | object) -> ProviderError:
    """Reads an error body, or the error object of a stream, in the forms that providers use."""
    parsed: object = body
    if isinstance(body, bytes):
        try:
            parsed = parse_json(body)
        except ValueError:
            return ProviderError(text=body[:1000].decode("utf-8", "replace"))
    fields = as_mapping(parsed)
    inner: object = fields.get("error", fields)
    if isinstance(inner, str):
        return ProviderError(text=inner)
    error = as_mapping(inner)
    text = error.get("message") or error.get("detail") or ""
    code, kind = (_short(error.get(name)) for name in ("code", "type"))
    return ProviderError(code=code, type=kind, text=text if isinstance(text, str) else "")


def _short(value: object) -> str:
    """A code or a type, which is a word or a number; "" for anything else."""
    text = value if isinstance(value, str) else str(value) if type(value) is int and abs(value) < _MAX_COUNT else ""
    return text[:MAX_LOGGED]


def from_status(
    status: int, provider_error: ProviderError, provider: str, headers: Mapping[str, str] | None = None
) -> CitewireError:
    """Turns a provider's HTTP status into an error."""
    metadata = {"provider": provider, "status": str(status)}
    if _is_final(status, provider_error, headers or {}):
        metadata["retry"] = "never"
    retry_after = read_retry_after(headers or {})
    if status in {401, 403}:
        return FailedPrecondition(
            "the model provider refused the credentials", reason="PROVIDER_AUTH", metadata=metadata
        )
    if status in {402, 429}:
        return ResourceExhausted(
            "the model provider's rate limit or quota is reached",
            reason="PROVIDER_RATE_LIMITED",
            metadata=metadata,
            retry_after=retry_after,
        )
    if status == 408 or status >= 500:
        return Unavailable(
            f"the model provider answered with an error ({status})",
            reason="PROVIDER_UNAVAILABLE",
            metadata=metadata,
            retry_after=retry_after if retry_after is not None else 1.0,
        )
    if _is_overflow(provider_error):
        return InvalidArgument(
            "the prompt doesn't fit the model's context window", reason="CONTEXT_TOO_LONG", metadata=metadata
        )
    if status == 404:
        return FailedPrecondition(
            "the model provider doesn't know this model, or its address is wrong",
            reason="PROVIDER_REJECTED",
            metadata=metadata,
        )
    return FailedPrecondition(
        f"the model provider refused the request ({status})", reason="PROVIDER_REJECTED", metadata=metadata
    )


def from_stream(provider_error: ProviderError, provider: str) -> CitewireError:
    """Turns the error object of a stream that began with status 200 into an error, by its codes."""
    codes = {provider_error.code, provider_error.type}
    for status, known in ((401, _AUTH_CODES), (429, _RATE_CODES), (503, _SERVER_CODES)):
        if codes & known:
            return from_status(status, provider_error, provider)
    if re.fullmatch("[45][0-9]{2}", provider_error.code):
        return from_status(int(provider_error.code), provider_error, provider)
    if _is_overflow(provider_error):
        return from_status(400, provider_error, provider)
    return Unavailable(
        "the model provider reported an error in the middle of the answer",
        reason="PROVIDER_STREAM_BROKEN",
        metadata={"provider": provider},
    )


def stream_broken(what: str) -> Unavailable:
    """Returns the error for a stream that is malformed, or that ended early."""
    return Unavailable(f"the model provider's stream broke: {what}", reason="PROVIDER_STREAM_BROKEN")


def unreachable(provider: str) -> Unavailable:
    """Returns the error for a connection that failed before the answer began."""
    return Unavailable(
        "the model provider can't be reached",
        reason="PROVIDER_UNAVAILABLE",
        metadata={"provider": provider},
        retry_after=1.0,
    )


def timed_out(what: str, provider: str, seconds: float) -> DeadlineExceeded:
    """Returns the error for a provider that stalled."""
    return DeadlineExceeded(
        f"the model provider {what} in {seconds:g} s", reason="PROVIDER_TIMEOUT", metadata={"provider": provider}
    )


def name_provider(error: CitewireError, provider: str, model: str) -> CitewireError:
    """Adds provider and model to a provider's failure, for people and for programs.

    Other errors stay as they are. Names are the operator's or the tenant's own, who may see them.
    """
    if error.reason.startswith("PROVIDER_") and "model" not in error.metadata:
        if error.message.startswith(_PROVIDER):
            error.message = f"{_PROVIDER} {provider}{error.message.removeprefix(_PROVIDER)} (model {model})"
        error.metadata = {"provider": provider, "model": model, **error.metadata}
    return error


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Reads `retry-after-ms` or `Retry-After` (seconds or a date) as seconds from now; None if absent or invalid."""
    lower = {name.lower(): value for name, value in headers.items()}
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = lower.get(name, "").strip()
        try:
            seconds = float(value) * scale
        except ValueError:
            parsed = email.utils.parsedate_tz(value) if value else None
            if parsed is None:
                continue
            try:
                seconds = email.utils.mktime_tz(parsed) - time.time()
            except (ValueError, OverflowError):  # a date beyond the calendar
                continue
        if 0 <= seconds < float("inf"):
            return min(seconds, _MAX_RETRY_AFTER)
    return None


def parse_json(body: bytes | str) -> object:
    """Parses a provider's JSON.

    Raises:
        ValueError: It isn't JSON, or is nested too deeply.
    """
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def count_of(value: object) -> int:
    """Returns a count of tokens as a provider gives it; 0 for anything that isn't one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_COUNT else 0


def as_list(value: object) -> list[object]:
    """Returns a JSON array as a list; empty for anything else."""
    return cast("list[object]", value) if isinstance(value, list) else []


def as_mapping(value: object) -> Mapping[str, object]:
    """Returns a JSON object as a mapping; empty for anything else."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _is_final(status: int, provider_error: ProviderError, headers: Mapping[str, str]) -> bool:
    """Whether a retry is pointless: a used-up quota is restored by payment, not by time."""
    header = next((value for name, value in headers.items() if name.lower() == "x-should-retry"), "")
    return status == 402 or header.lower() == "false" or bool(_QUOTA_CODES & {provider_error.code, provider_error.type})


def _is_overflow(provider_error: ProviderError) -> bool:
    text = provider_error.text.lower()
    return provider_error.code in _OVERFLOW_CODES or any(phrase in text for phrase in _OVERFLOW_TEXTS)
