"""From an upload's form fields to what the retriever is told about the file."""

import json
from collections.abc import Sequence
from typing import Any, cast

from citewire_gateway.clients.corpus import FileFields
from citewire_gateway.http.bodies import parse_json
from citewire_gateway.http.multipart import Form
from citewire_kit.errors import CitewireError, Violations

_SINGLE = {"title": 500, "collection": 128, "url": 2048, "type": 32}
_REPEATED = ("tags",)
_MAX_TAGS = 50
_MAX_TAG = 64
_MAX_METADATA = 64 * 1024
_TYPES = ("file", "article", "repository", "capture")


def file_fields(form: Form) -> FileFields:
    """Reads the form's fields.

    Raises:
        InvalidArgument: With one violation per wrong field.
    """
    found = Violations()
    for name in form.fields.keys() - _SINGLE.keys() - {*_REPEATED, "metadata"}:
        found.add(name[:64], "is not a field of an upload")
    single = {name: _one(found, form, name, most) for name, most in _SINGLE.items()}
    found.require(single["type"] in ("", *_TYPES), "type", f"must be one of {', '.join(_TYPES)}")
    tags = _tags(found, form.fields.get("tags", []))
    metadata = _metadata(found, form)
    found.raise_if_any()
    return FileFields(
        file_name=form.file_name,
        media_type=form.media_type,
        title=single["title"],
        collection=single["collection"],
        tags=tags,
        metadata=metadata,
        url=single["url"],
        type=single["type"],
    )


def _one(found: Violations, form: Form, name: str, most: int) -> str:
    values = form.fields.get(name, [])
    found.require(len(values) <= 1, name, "is there more than once")
    value = values[0].strip() if values else ""
    found.require(len(value) <= most, name, f"must be at most {most} characters long")
    return value


def _tags(found: Violations, values: Sequence[str]) -> tuple[str, ...]:
    """Tags come as repeated fields; each may hold several, as a JSON list or separated by commas."""
    tags: list[str] = []
    for value in values:
        if not value.lstrip().startswith("["):
            tags.extend(tag.strip() for tag in value.split(","))
            continue
        members = _parsed(found, "tags", value)
        if not isinstance(members, list) or not all(isinstance(tag, str) for tag in cast("list[object]", members)):
            found.add("tags", "must be a JSON list of strings")
            continue
        tags.extend(tag.strip() for tag in cast("list[str]", members))
    tags = [tag for tag in dict.fromkeys(tags) if tag]
    found.require(len(tags) <= _MAX_TAGS, "tags", f"must be at most {_MAX_TAGS}")
    found.require(all(len(tag) <= _MAX_TAG for tag in tags), "tags", f"must be at most {_MAX_TAG} characters long each")
    return tuple(tags)


def _metadata(found: Violations, form: Form) -> dict[str, Any] | None:
    text = _one(found, form, "metadata", _MAX_METADATA)
    if not text:
        return None
    value = _parsed(found, "metadata", text)
    if not isinstance(value, dict):
        found.add("metadata", "must be a JSON object")
        return None
    return cast("dict[str, Any]", value)


def _parsed(found: Violations, name: str, text: str) -> object:
    try:
        value = parse_json(text.encode())
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair can be written in JSON, and not sent on
    except (CitewireError, UnicodeEncodeError):
        found.add(name, "isn't valid JSON")
        return None
    return value
