"""Validation of documents' metadata: keys for every type, and those of repositories.

Other keys are free. Filters and citations rely on these, so invalid values are refused when saved, with their keys.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from citewire_kit.errors import Violations
from citewire_retriever.model import JsonObject, JsonValue

MAX_WORD: Final = 64
MAX_LINE: Final = 255
MAX_URL: Final = 2048
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
MAX_DESCRIPTION: Final = 4000
MAX_STARS: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class _Rule:
    holds: Callable[[JsonValue], bool]
    message: str


def _text(longest: int) -> _Rule:
    def holds(value: JsonValue) -> bool:
        return isinstance(value, str) and bool(value.strip()) and len(value) <= longest

    return _Rule(holds, f"must be a text of 1–{longest} characters, or null")


def is_web_address(text: str) -> bool:
    """Whether a text is an http or https URL with a host, without control characters or surrounding white space."""
    if text != text.strip() or _CONTROL.search(text):
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def _is_picture(value: JsonValue) -> bool:
    return isinstance(value, str) and len(value) <= MAX_URL and is_web_address(value)


def _is_count(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_STARS


_EVERY_TYPE: Final = {"entity_type": _text(MAX_WORD), "category": _text(MAX_WORD)}
_BY_TYPE: Final[dict[str, dict[str, _Rule]]] = {
    "repository": {
        "owner_login": _text(MAX_LINE),
        "owner_avatar_url": _Rule(_is_picture, f"must be an http(s) URL of at most {MAX_URL} characters, or null"),
        "stargazers_count": _Rule(_is_count, "must be a whole number from 0, or null"),
        "language": _text(MAX_WORD),
        "description": _Rule(
            lambda value: isinstance(value, str) and len(value) <= MAX_DESCRIPTION,
            f"must be a text of at most {MAX_DESCRIPTION} characters, or null",
        ),
    },
}


def check_metadata(document_type: str, metadata: JsonObject | None) -> None:
    """Checks metadata against its document's type; null counts as absent.

    Raises:
        InvalidArgument: Some fields are invalid; each is named, such as `metadata.stargazers_count`.
    """
    violations = Violations()
    rules = {**_EVERY_TYPE, **_BY_TYPE.get(document_type, {})}
    for key, value in (metadata or {}).items():
        rule = rules.get(key)
        if rule is not None and value is not None:
            violations.require(rule.holds(value), f"metadata.{key}", rule.message)
    violations.raise_if_any()
